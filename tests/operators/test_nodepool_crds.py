"""What the API server says about NodePools and Autoscalers: good ones are completed, bad ones refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaling import AutoscalerView, evaluate
from ansible_collections.aws_operator.core.plugins.module_utils.launches import instance_object
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import make_pool_plan
from ansible_collections.aws_operator.core.plugins.module_utils.pool_status import pool_update_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import PoolView

from runner.errors import Invalid
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.testing.cluster import install_crd
from tests.unit.plugins.cluster_builders import NOW, make_facts, make_pod

ROOT = Path(__file__).resolve().parents[2]
GROUP, VERSION = "aws.ansible-operator.io", "v1alpha1"
NODE_POOLS = Resource(gvk=GVK(GROUP, VERSION, "NodePool"), plural="nodepools")
AUTOSCALERS = Resource(gvk=GVK(GROUP, VERSION, "Autoscaler"), plural="autoscalers")
EC2_INSTANCES = Resource(gvk=GVK(GROUP, VERSION, "EC2Instance"), plural="ec2instances")
BOOTSTRAP = {"type": "kubeadm", "server": "https://10.0.0.10:6443", "tokenSecretRef": {"name": "join"}}


@pytest.fixture
async def installed(kube: KubeClient) -> KubeClient:
    """Give a client of an API server that has the CRDs."""
    for name in ("ec2instances", "nodepools", "autoscalers"):
        await install_crd(kube, yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text()))
    return kube


def pool(**spec: Any) -> dict[str, Any]:
    """Return a NodePool whose spec is the least good one with *spec* on top; None takes a field away."""
    least = {"imageId": "ami-0c0ffee0000000001", "instanceType": "m5.large", "bootstrap": BOOTSTRAP}
    return body(NODE_POOLS, "workers", spec={**least, **spec})


def autoscaler(**spec: Any) -> dict[str, Any]:
    """Return an Autoscaler whose spec is the least good one with *spec* on top; None takes a field away."""
    return body(AUTOSCALERS, "main", spec={"namespaces": ["prod"], "nodePools": ["workers"], **spec})


def body(resource: Resource, name: str, *, spec: dict[str, Any]) -> dict[str, Any]:
    """Return an object."""
    return {
        "apiVersion": resource.gvk.api_version,
        "kind": resource.gvk.kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"imageId": None}, "spec.imageId: Required value"),
        ({"bootstrap": None}, "spec.bootstrap: Required value"),
        ({"instanceType": None}, "give instanceType, or instanceTypes in order of preference"),
        ({"instanceTypes": ["big"]}, "an instance type is written such as t3.micro"),
        ({"imageId": "ubuntu"}, "imageId must be an AMI id such as ami-0123456789abcdef0"),
        ({"targetNodes": -1}, "should be greater than or equal to 0"),
        ({"minNodes": 5, "maxNodes": 4}, "minNodes must not be greater than maxNodes"),
        ({"subnetIds": ["mine"]}, "a subnet is named by its id"),
        ({"labels": {"aws.ansible-operator.io/nodepool": "x"}}, "are set by the operator"),
        ({"tags": {"aws:x": "y"}}, "tags that begin with aws: belong to AWS"),
        ({"taints": [{"key": "team", "effect": "Never"}]}, 'Unsupported value: "Never"'),
        ({"drainTimeout": "10"}, "drainTimeout must be a duration such as 30s, 10m or 1h30m"),
        ({"drainTimeoutPolicy": "Kill"}, 'Unsupported value: "Kill"'),
        ({"registrationTimeout": "soon"}, "registrationTimeout must be a duration"),
        ({"maxUnavailable": 0}, "should be greater than or equal to 1"),
        ({"bootstrap": {"type": "kubeadm", "server": "x"}}, "kubeadm and k3s need tokenSecretRef"),
        ({"bootstrap": {"type": "k3s", "tokenSecretRef": {"name": "join"}}}, "kubeadm and k3s need server"),
        ({"bootstrap": {"type": "eks", "clusterName": "main"}}, "eks needs clusterName, server and serviceCidr"),
        ({"bootstrap": {"type": "custom"}}, "userDataTemplate belongs to type custom, and custom needs it"),
        ({"bootstrap": {**BOOTSTRAP, "userDataTemplate": "x"}}, "userDataTemplate belongs to type custom"),
    ],
)
async def test_bad_pool_is_refused_with_a_sentence(
    installed: KubeClient, namespace: str, spec: dict[str, Any], sentence: str
) -> None:
    """A wrong field of a NodePool is refused by the API server, with a sentence that names it."""
    with pytest.raises(Invalid) as refused:
        await installed.create(NODE_POOLS, body=pool(**spec), namespace=namespace)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"namespaces": None}, "spec.namespaces: Required value"),
        ({"namespaces": []}, "should have at least 1 items"),
        ({"nodePools": None}, "give either nodePools or nodePoolSelector"),
        ({"nodePoolSelector": {}}, "give either nodePools or nodePoolSelector"),
        ({"frequency": "5"}, "frequency must be a duration such as 30s, 5m or 1h30m"),
        ({"frequency": "0s"}, "frequency must be at least 1s"),
        ({"scaleUp": {"cooldown": "soon"}}, "cooldown must be a duration"),
        ({"scaleDown": {"unneededFor": "soon"}}, "unneededFor must be a duration"),
        ({"scaleDown": {"utilizationThreshold": 0}}, "should be greater than or equal to 1"),
    ],
)
async def test_bad_autoscaler_is_refused_with_a_sentence(
    installed: KubeClient, namespace: str, spec: dict[str, Any], sentence: str
) -> None:
    """A wrong field of an Autoscaler is refused by the API server, with a sentence that names it."""
    with pytest.raises(Invalid) as refused:
        await installed.create(AUTOSCALERS, body=autoscaler(**spec), namespace=namespace)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        {"instanceType": None, "instanceTypes": ["m5.large", "c5.large"]},
        {
            "bootstrap": {
                "type": "eks",
                "clusterName": "main",
                "server": "https://a.eks",
                "serviceCidr": "10.100.0.0/16",
            }
        },
        {"bootstrap": {"type": "custom", "userDataTemplate": "#!/bin/sh\njoin ${server} ${token}"}},
        {"labels": {"disk": "ssd"}, "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
    ],
)
async def test_good_pool_is_taken(installed: KubeClient, namespace: str, spec: dict[str, Any]) -> None:
    """A good combination of fields is taken as it is."""
    created = await installed.create(NODE_POOLS, body=pool(**spec), namespace=namespace)
    assert created["spec"]["imageId"] == "ami-0c0ffee0000000001"


async def test_pool_defaults(installed: KubeClient, namespace: str) -> None:
    """The least pool is completed with the documented defaults."""
    created = await installed.create(NODE_POOLS, body=pool(), namespace=namespace)
    expected = {
        "targetNodes": 0,
        "minNodes": 0,
        "maxNodes": 10,
        "rootDeviceName": "/dev/xvda",
        "drainTimeout": "10m",
        "drainTimeoutPolicy": "Terminate",
        "registrationTimeout": "10m",
        "maxUnavailable": 1,
        "maxTerminationsPerHour": 0,
        "deletionPolicy": "Delete",
    }
    assert expected.items() <= created["spec"].items()
    assert created["spec"]["bootstrap"]["tokenSecretRef"]["key"] == "token"


async def test_autoscaler_defaults(installed: KubeClient, namespace: str) -> None:
    """The least Autoscaler is completed with the documented defaults."""
    spec = (await installed.create(AUTOSCALERS, body=autoscaler(), namespace=namespace))["spec"]
    assert (spec["frequency"], spec["dryRun"]) == ("5m", False)
    assert spec["scaleUp"] == {"maxNodesPerStep": 0, "cooldown": "0s"}
    assert spec["scaleDown"] == {
        "enabled": True,
        "utilizationThreshold": 50,
        "unneededFor": "10m",
        "cooldown": "10m",
    }


async def test_planned_machine_is_a_good_ec2instance(installed: KubeClient, namespace: str) -> None:
    """What a plan creates is taken by the API server."""
    spec = {"diskSizeGiB": 50, "targetNodes": 1, "tags": {"a": "b"}, "subnetIds": ["subnet-0123456789abcdef0"]}
    created = await installed.create(NODE_POOLS, body=pool(**spec), namespace=namespace)
    view = PoolView(pool=created, instances=[], nodes=[], now=NOW, user_data_secret="workers-join")
    wanted = instance_object(view, name="workers-1", offering=("m5.large", "subnet-0123456789abcdef0"))
    taken = await installed.create(EC2_INSTANCES, body=wanted, namespace=namespace)
    assert taken["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]


async def test_scale_has_a_selector(installed: KubeClient, namespace: str) -> None:
    """Who scales a pool reads from its scale subresource which Nodes it has: an autoscaler of pods refuses it else."""
    workers = await installed.create(NODE_POOLS, body=pool(targetNodes=1), namespace=namespace)
    view = PoolView(pool=workers, instances=[], nodes=[], now=NOW)
    status = pool_update_of(view, make_pool_plan(view)).status
    await installed.patch(
        NODE_POOLS, name="workers", namespace=namespace, body={"status": status}, subresource="status"
    )
    scale = await installed.patch(
        NODE_POOLS, name="workers", namespace=namespace, body={"spec": {"replicas": 2}}, subresource="scale"
    )
    label = f"aws.ansible-operator.io/nodepool-uid={workers['metadata']['uid']}"
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (2, label)


async def test_statuses_are_kept_whole(installed: KubeClient, namespace: str) -> None:
    """Nothing of the statuses that the functions compute is dropped by the schemas."""
    workers = await installed.create(NODE_POOLS, body=pool(targetNodes=1), namespace=namespace)
    view = PoolView(pool=workers, instances=[], nodes=[], now=NOW)
    update = pool_update_of(view, make_pool_plan(view))
    await check_status(installed, NODE_POOLS, workers, status={**update.status, "conditions": list(update.conditions)})
    main = await installed.create(AUTOSCALERS, body=autoscaler(dryRun=True), namespace=namespace)
    pods = [make_pod(), make_pod("picky", spec={"nodeSelector": {"disk": "ssd"}})]
    found = evaluate(AutoscalerView(obj=main, pools=[workers], pods=pods, facts=make_facts()))
    await check_status(installed, AUTOSCALERS, main, status={**found.status, "conditions": list(found.conditions)})


async def check_status(kube: KubeClient, resource: Resource, obj: dict[str, Any], *, status: dict[str, Any]) -> None:
    """Write a status and see it whole."""
    wanted = {name: value for name, value in status.items() if value is not None}
    meta = obj["metadata"]
    written = await kube.patch(
        resource, name=meta["name"], namespace=meta["namespace"], body={"status": wanted}, subresource="status"
    )
    assert written["status"] == wanted
