"""What the API server says about EBSVolume objects: good ones are completed, bad ones refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import Invalid
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.testing.cluster import CRDS, install_crd

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "config" / "samples" / "aws_v1alpha1_ebsvolume.yaml"
EBS_VOLUMES = Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "EBSVolume"), plural="ebsvolumes")


@pytest.fixture
async def installed(kube: KubeClient) -> KubeClient:
    """Give a client of an API server that has the CRD."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "ebsvolumes.yaml").read_text()))
    return kube


def body(spec: dict[str, Any], *, name: str = "data") -> dict[str, Any]:
    """Return an object whose spec is the least good one with *spec* on top; None takes a field away."""
    merged = {"availabilityZone": "us-east-1a", "sizeGiB": 10, **spec}
    return {
        "apiVersion": EBS_VOLUMES.gvk.api_version,
        "kind": EBS_VOLUMES.gvk.kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in merged.items() if value is not None},
    }


def attached(**reference: Any) -> dict[str, Any]:
    """Return a spec that attaches to an EC2Instance."""
    return {"attachTo": {"ec2InstanceRef": {"name": "web", **reference}}}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"availabilityZone": None}, "spec.availabilityZone: Required value"),
        ({"sizeGiB": None}, "spec.sizeGiB: Required value"),
        ({"sizeGiB": 0}, "should be greater than or equal to 1"),
        ({"availabilityZone": "frankfurt"}, "availabilityZone must be a zone such as eu-central-1a"),
        ({"region": "eu-central-1"}, "availabilityZone must be a zone of the region"),
        ({"region": "us-east-1", "availabilityZone": "us-east-11a"}, "availabilityZone must be a zone of the region"),
        ({"volumeType": "nvme"}, 'Unsupported value: "nvme": supported values: "gp2", "gp3"'),
        ({"volumeType": "gp2", "iops": 3000}, "iops can be set only for the volume types io1, io2 and gp3"),
        ({"volumeType": "io2", "iops": 3000, "throughput": 200}, "throughput can be set only for the volume type gp3"),
        ({"volumeType": "io1"}, "the volume types io1 and io2 need iops"),
        ({"volumeType": "st1"}, "the volume types st1 and sc1 need a sizeGiB of at least 125"),
        ({"availabilityZone": "us-east-1-bos-1a"}, "availabilityZone must be a zone such as eu-central-1a"),
        ({"volumeType": "io2", "iops": 200, "sizeGiB": 3}, "io1 and io2 need a sizeGiB of at least 4"),
        ({"volumeType": "standard", "sizeGiB": 1025}, "standard has at most 1024 GiB"),
        ({"volumeType": "gp2", "sizeGiB": 16385}, "gp2, io1, st1 and sc1 have at most 16384 GiB"),
        ({"iops": 2999}, "gp3 has at least 3000 iops"),
        ({"iops": 5001}, "gp3 has at most 500 iops per GiB"),
        ({"volumeType": "io1", "iops": 501}, "io1 has at most 64000 iops, and at most 50 per GiB"),
        ({"volumeType": "io1", "iops": 64001, "sizeGiB": 4000}, "io1 has at most 64000 iops"),
        ({"volumeType": "io2", "iops": 10001}, "io2 has at most 1000 iops per GiB"),
        ({"throughput": 751}, "throughput can be at most a quarter of iops"),
        ({"throughput": 1001, "iops": 4000}, "throughput can be at most a quarter of iops"),
        ({"tags": {"k" * 129: "y"}}, "the key of a tag has 1 to 128 characters"),
        (attached(deviceName="disk"), "deviceName must be a device such as /dev/sdf"),
        ({"attachTo": {}}, "spec.attachTo.ec2InstanceRef: Required value"),
        ({"tags": {"aws:x": "y"}}, "tags that begin with aws: belong to AWS"),
        ({"tags": {"ansible-operator.io/uid": "y"}}, "are set by the operator"),
        ({"deletionPolicy": "Keep"}, 'Unsupported value: "Keep"'),
        ({"checkInterval": "2"}, "checkInterval must be a duration such as 30s, 2m or 1h30m"),
    ],
)
async def test_bad_volume_is_refused_with_a_sentence(
    installed: KubeClient, namespace: str, spec: dict[str, Any], sentence: str
) -> None:
    """A wrong field is refused by the API server, with a sentence that names it."""
    with pytest.raises(Invalid) as refused:
        await installed.create(EBS_VOLUMES, body=body(spec), namespace=namespace)
    assert sentence in str(refused.value)


async def test_size_goes_back_to_what_the_volume_has(installed: KubeClient, namespace: str) -> None:
    """Where AWS refused to grow a volume the spec may say its real size again, and nothing below it."""
    await installed.create(EBS_VOLUMES, body=body({"sizeGiB": 40}), namespace=namespace)
    where = {"namespace": namespace, "name": body({})["metadata"]["name"]}
    status = {"status": {"sizeGiB": 30}}
    await installed.patch(EBS_VOLUMES, **where, body=status, subresource="status")
    with pytest.raises(Invalid, match="sizeGiB can't be made smaller"):
        await installed.patch(EBS_VOLUMES, **where, body={"spec": {"sizeGiB": 29}})
    back = await installed.patch(EBS_VOLUMES, **where, body={"spec": {"sizeGiB": 30}})
    assert back["spec"]["sizeGiB"] == 30


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sizeGiB": 9}, "sizeGiB can't be made smaller, as EBS never shrinks a volume"),
        ({"availabilityZone": "us-east-1b"}, "availabilityZone can't be changed, as a volume never leaves its zone"),
        ({"encrypted": False}, "encrypted can't be changed after the creation"),
        ({"region": "us-east-1"}, "region can't be changed, as a volume never leaves its zone"),
    ],
)
async def test_change_that_ebs_cannot_make_is_refused(
    installed: KubeClient, namespace: str, change: dict[str, Any], sentence: str
) -> None:
    """An edit that no volume can follow is refused with the reason, and the object stays as it was."""
    created = await installed.create(EBS_VOLUMES, body=body({}), namespace=namespace)
    with pytest.raises(Invalid) as refused:
        await installed.patch(EBS_VOLUMES, namespace=namespace, name="data", body={"spec": change})
    assert sentence in str(refused.value)
    after = await installed.get(EBS_VOLUMES, namespace=namespace, name="data")
    assert after["metadata"]["generation"] == created["metadata"]["generation"]


async def test_change_that_ebs_can_make_is_taken(installed: KubeClient, namespace: str) -> None:
    """Size, type, performance, attachment and tags may change together."""
    await installed.create(EBS_VOLUMES, body=body({}), namespace=namespace)
    change = {"sizeGiB": 20, "volumeType": "io2", "iops": 4000, "tags": {"a": "b"}, **attached(deviceName="/dev/sdg")}
    assert await installed.patch(EBS_VOLUMES, namespace=namespace, name="data", body={"spec": change})


@pytest.mark.parametrize(
    "spec",
    [
        {"iops": 3000, "sizeGiB": 1},
        {"iops": 5000, "throughput": 1250},
        {"throughput": 750},
        {"volumeType": "io1", "iops": 500},
        {"volumeType": "io2", "iops": 10000},
        {"volumeType": "standard", "sizeGiB": 1024},
        {"volumeType": "gp2", "sizeGiB": 16384},
        {"availabilityZone": "us-gov-west-1a"},
        {"tags": {"k" * 128: "y"}},
    ],
)
async def test_volume_at_a_limit_is_taken(installed: KubeClient, namespace: str, spec: dict[str, Any]) -> None:
    """What AWS takes at the edge of its limits, the API server takes too."""
    assert await installed.create(EBS_VOLUMES, body=body(spec), namespace=namespace)


async def test_defaults_of_a_volume(installed: KubeClient, namespace: str) -> None:
    """The least object is completed: gp3, encrypted, kept when the object goes, looked at every two minutes."""
    created = await installed.create(EBS_VOLUMES, body=body({}), namespace=namespace)
    assert created["spec"] == {
        "availabilityZone": "us-east-1a",
        "sizeGiB": 10,
        "volumeType": "gp3",
        "encrypted": True,
        "deletionPolicy": "Retain",
        "checkInterval": "2m",
    }


async def test_sample_of_a_volume_is_taken(installed: KubeClient, namespace: str) -> None:
    """The sample of the repository is a good object."""
    assert await installed.create(EBS_VOLUMES, body=yaml.safe_load(SAMPLE.read_text()), namespace=namespace)


async def test_columns_of_a_volume(installed: KubeClient) -> None:
    """`kubectl get ebsv` shows state, size, type, volume id, instance, the reason of Ready, and age."""
    crd = await installed.get(CRDS, name="ebsvolumes.aws.ansible-operator.io")
    (version,) = crd["spec"]["versions"]
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["State", "Size", "Type", "Volume", "Attached-To", "Reason", "Age"]
    assert (crd["spec"]["names"]["shortNames"], crd["spec"]["names"]["categories"]) == (["ebsv"], ["aws"])
