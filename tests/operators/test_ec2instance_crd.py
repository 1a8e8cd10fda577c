"""What the API server says about EC2Instance objects: good ones are completed, bad ones refused with a sentence."""

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
SAMPLE = ROOT / "config" / "samples" / "aws_v1alpha1_ec2instance.yaml"
EC2_INSTANCES = Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "EC2Instance"), plural="ec2instances")


def disk(**fields: Any) -> dict[str, Any]:
    """Return a spec with one block device."""
    return {"storage": [{"deviceName": "/dev/xvda", **fields}]}


@pytest.fixture
async def installed(kube: KubeClient) -> KubeClient:
    """Give a client of an API server that has the CRD."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "ec2instances.yaml").read_text()))
    return kube


def body(spec: dict[str, Any], *, name: str = "web") -> dict[str, Any]:
    """Return an object whose spec is the least good one with *spec* on top; None takes a field away."""
    merged = {"imageId": "ami-0c0ffee0000000001", "instanceType": "t3.micro", **spec}
    return {
        "apiVersion": EC2_INSTANCES.gvk.api_version,
        "kind": EC2_INSTANCES.gvk.kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in merged.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"imageId": None}, "spec.imageId: Required value"),
        ({"instanceType": None}, "spec.instanceType: Required value"),
        ({"imageId": "ubuntu"}, "imageId must be an AMI id such as ami-0123456789abcdef0"),
        ({"instanceType": "big"}, "instanceType must be an EC2 instance type such as t3.micro"),
        ({"subnetId": "mine"}, "subnetId must be a subnet id"),
        ({"securityGroupIds": ["default"]}, "a security group is named by its id"),
        (disk(volumeType="nvme"), 'Unsupported value: "nvme": supported values: "gp2", "gp3"'),
        (disk(sizeGiB=-1), "should be greater than or equal to 1"),
        (disk(sizeGiB=0), "should be greater than or equal to 1"),
        (disk(volumeType="gp2", iops=3000), "iops can be set only for the volume types io1, io2 and gp3"),
        (disk(volumeType="io2", iops=3000, throughput=200), "throughput can be set only for the volume type gp3"),
        (disk(volumeType="io1"), "the volume types io1 and io2 need iops"),
        (
            {"userData": "x", "userDataSecretRef": {"name": "y"}},
            "userData and userDataSecretRef exclude each other; give one of them",
        ),
        ({"tags": {"aws:x": "y"}}, "tags that begin with aws: belong to AWS"),
        ({"tags": {"ansible-operator.io/uid": "y"}}, "are set by the operator"),
        ({"powerState": "Off"}, 'Unsupported value: "Off"'),
        ({"deletionPolicy": "Keep"}, 'Unsupported value: "Keep"'),
        ({"replacementPolicy": "Always"}, 'Unsupported value: "Always"'),
        ({"checkInterval": "2"}, "checkInterval must be a duration such as 30s, 2m or 1h30m"),
        ({"checkInterval": "1.5h"}, "checkInterval must be a duration such as 30s, 2m or 1h30m"),
        ({"checkInterval": "0s"}, "checkInterval must be at least 1s"),
        ({"region": "Frankfurt"}, "spec.region"),
    ],
)
async def test_bad_object_is_refused_with_a_sentence(
    installed: KubeClient, namespace: str, spec: dict[str, Any], sentence: str
) -> None:
    """A wrong field is refused by the API server, with a sentence that names it."""
    with pytest.raises(Invalid) as refused:
        await installed.create(EC2_INSTANCES, body=body(spec), namespace=namespace)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        disk(volumeType="io1", iops=3000),
        disk(iops=3000, throughput=200),
        {"checkInterval": "1h30m", "userDataSecretRef": {"name": "boot"}},
        {"securityGroupIds": ["sg-00000001"], "subnetId": "subnet-0123456789abcdef0", "associatePublicIp": False},
    ],
)
async def test_good_object_is_taken(installed: KubeClient, namespace: str, spec: dict[str, Any]) -> None:
    """A good combination of fields is taken as it is."""
    created = await installed.create(EC2_INSTANCES, body=body(spec), namespace=namespace)
    assert created["spec"]["imageId"] == "ami-0c0ffee0000000001"


async def test_defaults(installed: KubeClient, namespace: str) -> None:
    """The least object is completed with the documented defaults."""
    created = await installed.create(EC2_INSTANCES, body=body(disk()), namespace=namespace)
    spec = created["spec"]
    assert {key: spec[key] for key in ("powerState", "deletionPolicy", "replacementPolicy", "checkInterval")} == {
        "powerState": "Running",
        "deletionPolicy": "Delete",
        "replacementPolicy": "Never",
        "checkInterval": "2m",
    }
    assert spec["storage"] == [{"deviceName": "/dev/xvda", "volumeType": "gp3", "deleteOnTermination": True}]


async def test_sample_is_taken(installed: KubeClient, namespace: str) -> None:
    """The sample of the repository is a good object."""
    sample = yaml.safe_load(SAMPLE.read_text())
    assert await installed.create(EC2_INSTANCES, body=sample, namespace=namespace)


async def test_result_of_a_run_survives_in_the_conditions(installed: KubeClient, namespace: str) -> None:
    """A condition keeps the runtime's ansibleResult, and a spec's generation isn't moved by the status."""
    created = await installed.create(EC2_INSTANCES, body=body({}), namespace=namespace)
    condition = {"type": "Running", "status": "True", "ansibleResult": {"ok": 3, "completion": "x"}}
    patch = {"status": {"conditions": [condition], "unknown": 1}}
    written = await installed.patch(EC2_INSTANCES, namespace=namespace, name="web", body=patch, subresource="status")
    assert written["status"] == {"conditions": [condition]}
    assert written["metadata"]["generation"] == created["metadata"]["generation"]


async def test_columns(installed: KubeClient) -> None:
    """`kubectl get ec2i` shows state, type, instance, public address and age; with -o wide the reason."""
    crd = await installed.get(CRDS, name="ec2instances.aws.ansible-operator.io")
    for version in crd["spec"]["versions"]:
        columns = version["additionalPrinterColumns"]
        always = [column["name"] for column in columns if not column.get("priority")]
        assert always == ["State", "Type", "Instance", "Public-IP", "Age"]
        assert [column["name"] for column in columns if column.get("priority")] == ["Reason"]
    assert crd["spec"]["names"]["shortNames"] == ["ec2i"]


async def test_both_versions_are_one_and_the_same(installed: KubeClient) -> None:
    """v1beta1 is stored, v1alpha1 is served beside it, and nothing but the name differs: no conversion is needed."""
    crd = await installed.get(CRDS, name="ec2instances.aws.ansible-operator.io")
    entries = {entry["name"]: {**entry, "name": "", "storage": None} for entry in crd["spec"]["versions"]}
    assert entries["v1alpha1"] == entries["v1beta1"]
    assert [entry["name"] for entry in crd["spec"]["versions"] if entry["storage"]] == ["v1beta1"]
    assert crd["spec"]["conversion"] == {"strategy": "None"}
