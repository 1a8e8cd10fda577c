"""What the tests of the role `ebs_volume` share: the subject, a client of the emulator, EC2Instances that run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import boto3

from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from tests.content.ec2_instance.role_harness import EC2_INSTANCE, IMAGE, UID_TAG, Bench, Subject

EBS_VOLUME = Subject(
    resource=Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "EBSVolume"), plural="ebsvolumes"),
    role="ebs_volume",
    spec={"region": "us-east-1", "availabilityZone": "us-east-1a", "sizeGiB": 10},
)


def client(bench: Bench) -> Any:
    """Return a client of the emulator for what the role doesn't do."""
    return boto3.client(
        "ec2",
        region_name="us-east-1",
        endpoint_url=bench.endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def volumes(bench: Bench, obj: Object) -> list[dict[str, Any]]:
    """Return the volumes with the object's UID tag."""
    filters = [{"Name": f"tag:{UID_TAG}", "Values": [obj["metadata"]["uid"]]}]
    found: list[dict[str, Any]] = client(bench).describe_volumes(Filters=filters)["Volumes"]
    return found


def tags_of(volume: dict[str, Any]) -> dict[str, str]:
    """Return a volume's tags as a mapping."""
    return {tag["Key"]: tag["Value"] for tag in volume["Tags"]}


def launch(bench: Bench, *, zone: str = "us-east-1a") -> str:
    """Launch a machine in EC2 and return its id."""
    placement = {"AvailabilityZone": zone}
    answer = client(bench).run_instances(
        ImageId=IMAGE, InstanceType="t3.micro", MinCount=1, MaxCount=1, Placement=placement
    )
    return str(answer["Instances"][0]["InstanceId"])


async def machine(bench: Bench, *, name: str = "web", **status: Any) -> None:
    """Create an EC2Instance object with a status as its own role writes it."""
    other = replace(bench, subject=EC2_INSTANCE)
    await other.create(name=name)
    if status:
        await other.patch_status(name=name, **status)


def reference(name: str = "web", **more: str) -> dict[str, Any]:
    """Return `attachTo` for an EC2Instance."""
    return {"ec2InstanceRef": {"name": name, **more}}
