"""What people see of Autoscalers: the sample, the columns, and a status that the schema keeps whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.aws_operator.core.plugins.filter.autoscaler import FilterModule

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.testing.cluster import CRDS, install_crd
from tests.unit.plugins.cluster_builders import ago, make_node, make_pod, make_pool_object

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "config" / "samples" / "aws_v1alpha1_autoscaler.yaml"
AUTOSCALERS = Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "Autoscaler"), plural="autoscalers")
FILTERS = FilterModule().filters()


@pytest.fixture
async def installed(kube: KubeClient) -> KubeClient:
    """Give a client of an API server that has the CRD."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "autoscalers.yaml").read_text()))
    return kube


async def test_sample_of_an_autoscaler_is_taken(installed: KubeClient, namespace: str) -> None:
    """The sample of the repository is a good object, and says all that has a default."""
    sample = yaml.safe_load(SAMPLE.read_text())
    created = await installed.create(AUTOSCALERS, body=sample, namespace=namespace)
    assert created["spec"] == sample["spec"]


async def test_columns_of_an_autoscaler(installed: KubeClient) -> None:
    """`kubectl get nas` shows pending pods, last decision and evaluation, and age; with -o wide the reason."""
    crd = await installed.get(CRDS, name="autoscalers.aws.ansible-operator.io")
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    always = [column["name"] for column in columns if not column.get("priority")]
    assert always == ["Pending", "LastDecision", "LastEvaluated", "Age"]
    assert [column["name"] for column in columns if column.get("priority")] == ["Reason"]
    assert (crd["spec"]["names"]["shortNames"], crd["spec"]["names"]["categories"]) == (["nas"], ["aws"])


async def test_status_of_an_autoscaler_is_kept_whole(installed: KubeClient, namespace: str) -> None:
    """Nothing that an evaluation writes is dropped by the schema: decisions, pods, nodes, what AWS said."""
    spec = {"namespaces": ["prod"], "nodePools": ["workers"], "scaleDown": {"unneededFor": "1h"}}
    body = {"apiVersion": AUTOSCALERS.gvk.api_version, "kind": "Autoscaler", "metadata": {"name": "main"}, "spec": spec}
    main = await installed.create(AUTOSCALERS, body=body, namespace=namespace)
    types = [{"instance_type": "m5.large", "cpu": 2, "memory_mib": 8192, "architectures": ["x86_64"]}]
    subnets = [{"subnet_id": "subnet-1", "availability_zone": "us-east-1a"}]
    seen: dict[str, Any] = {
        "nodepools": [make_pool_object(targetNodes=1, subnetIds=["subnet-1"])],
        "nodes": [make_node("n1")],
        "pods": [make_pod(memory="7Gi", spec={"nodeSelector": {"aws.ansible-operator.io/nodepool": "workers"}}),
                 make_pod("picky", spec={"nodeSelector": {"disk": "ssd"}})],
        "answers": [{"pool": "workers", "instance_types": types, "subnets": subnets}],
        "made": [{"time": ago(0), "pool": "spot", "from": 0, "to": 2, "why": "room"}],
        "now": ago(0),
    }  # fmt: skip
    update = FILTERS["autoscaler_update"](main, seen, writes=[])
    status = {**update["status"], "conditions": update["conditions"]}
    wanted = {name: value for name, value in status.items() if value is not None}
    assert {"catalogue", "decisions", "leftOutPods", "lastScaleUpTime"} <= wanted.keys()
    written = await installed.patch(
        AUTOSCALERS, name="main", namespace=namespace, body={"status": wanted}, subresource="status"
    )
    assert written["status"] == wanted
