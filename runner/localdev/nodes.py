"""Fake nodes: Node objects as a kubelet would register them, brought to life by kwok.

`plane` creates some at its start; the EC2 emulator's machines register the same objects with their own identities.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from runner.kube.objects import Object, conditions_of
from runner.localdev.api import Api
from runner.localdev.components import FAKE_NODE_LABEL, FAKE_NODE_VALUE

COLLECTION = "/api/v1/nodes"
_CAPACITY: Mapping[str, str] = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def fake_node(
    name: str,
    *,
    address: str,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    provider_id: str = "",
    version: str = "1.36.3",
) -> Object:
    """Return a Node with its status, to be created in one request (the API server keeps a status on create).

    It says Ready=False, as a kubelet does first: without that condition the not-ready taint is lifted before the
    node is ready. Each text in nodeInfo is one that no YAML reader takes for a number.
    """
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    resources = {**_CAPACITY, **(capacity or {})}
    own = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        FAKE_NODE_LABEL: FAKE_NODE_VALUE,
    }
    booting = {
        "type": "Ready",
        "status": "False",
        "reason": "KubeletNotReady",
        "message": "the simulated kubelet is starting",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}},
        "spec": {"providerID": provider_id} if provider_id else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [booting],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "kernelVersion": "6.1.0-simulated",
                "containerRuntimeVersion": "simulated://1.0.0",
                "kubeletVersion": f"v{version}",
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def node_name(index: int) -> str:
    """Return the name of the fake node with this number, from 1."""
    return f"fake-{index}"


def create_nodes(api: Api, *, count: int, version: str) -> None:
    """Create the nodes 1 to *count*; those that are there already stay."""
    for index in range(1, count + 1):
        address = f"10.64.{index // 250}.{index % 250 + 1}"
        api.create(COLLECTION, body=fake_node(node_name(index), address=address, version=version))


def all_ready(api: Api, *, count: int) -> bool:
    """Tell whether the nodes 1 to *count* are Ready."""
    return all(_is_ready(api.get(f"{COLLECTION}/{node_name(index)}")) for index in range(1, count + 1))


def _is_ready(node: Mapping[str, object] | None) -> bool:
    entries = conditions_of(node) if node else []
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in entries)
