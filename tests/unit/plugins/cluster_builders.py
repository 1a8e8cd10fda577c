"""Pods, nodes and pools for the tests of NodePool and Autoscaler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest, guest_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import Facts, Reserve
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import POOL_LABEL, POOL_UID_LABEL, REMOVING
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Pool
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import amounts

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
POOL_UID = "0b9d5c9e-4c57-4f0e-8f43-3a5f5f0b7a01"
HOSTNAME = "kubernetes.io/hostname"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
REPLICA_SET = {"kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
NO_RESERVE = Reserve(cpu=0, memory=0, memory_share=0.0)


def ago(seconds: float) -> str:
    """Return the time *seconds* before NOW as Kubernetes writes it."""
    return datetime.fromtimestamp(NOW.timestamp() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(*, cpu: str = "", memory: str = "", **parts: Any) -> dict[str, Any]:
    """Return a container with requests."""
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    return {"name": "main", "resources": {"requests": requests}, **parts}


def make_pod(
    name: str = "web",
    *,
    memory: str = "1Gi",
    cpu: str = "",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """Return a pending pod that the scheduler found no room for."""
    return {
        "metadata": {
            "name": name,
            "namespace": "prod",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "ownerReferences": [REPLICA_SET],
            **meta,
        },
        "spec": {"containers": [container(cpu=cpu, memory=memory)], **(spec or {})},
        "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE], **(status or {})},
    }


def running_pod(name: str, *, node: str, memory: str = "1Gi", **parts: Any) -> dict[str, Any]:
    """Return a pod that runs on a node."""
    spec = {**parts.pop("spec", {}), "nodeName": node}
    return make_pod(name, memory=memory, spec=spec, status={"phase": "Running", "conditions": []}, **parts)


def make_guest(name: str = "web", **parts: Any) -> Guest:
    """Return a pod as places see it."""
    guest: Guest = guest_of(make_pod(name, **parts))
    return guest


def make_node(
    name: str = "n1",
    *,
    ready: bool = True,
    pool_uid: str = POOL_UID,
    memory: str = "16Gi",
    since: float = 3600,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a node of the pool `workers`; *since* is the age of its Ready condition in seconds."""
    status = "True" if ready else "False"
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": ago(since),
            "annotations": {},
            "labels": {POOL_LABEL: "workers", POOL_UID_LABEL: pool_uid, HOSTNAME: name, **(labels or {})},
        },
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "8", "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": ago(since)}],
        },
    }


def leaving_node(name: str) -> dict[str, Any]:
    """Return a Ready node that its pool is draining."""
    node = make_node(name, unschedulable=True)
    node["metadata"]["annotations"][REMOVING] = ago(30)
    return node


def make_place(name: str = "n1", *, memory: str = "16Gi", guests: Sequence[Guest] = (), **parts: Any) -> Place:
    """Return a node that is there."""
    labels = {HOSTNAME: name, **parts.pop("labels", {})}
    offers = amounts({"cpu": "8", "memory": memory, "pods": "110"})
    return Place(name=name, labels=labels, taints=parts.pop("taints", []), offers=offers, guests=list(guests), **parts)


def make_pool(name: str = "workers", *, memory: str = "96Gi", target: int = 0, maximum: int = 10, **parts: Any) -> Pool:
    """Return a pool as the Autoscaler sees it."""
    offers = amounts({"cpu": "64", "memory": memory, "pods": "110"})
    return Pool(name=name, labels=parts.pop("labels", {}), offers=offers, target=target, maximum=maximum, **parts)


def make_pool_object(*, status: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a NodePool object."""
    return {
        "apiVersion": "aws.ansible-operator.io/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": "workers", "namespace": "team", "uid": POOL_UID, "generation": 2},
        "spec": {"targetNodes": 0, "maxNodes": 10, "instanceType": "m5.large", **spec},
        "status": dict(status or {}),
    }


def make_facts(*nodes: Mapping[str, Any], **parts: Any) -> Facts:
    """Return what the Autoscaler has read, without a reserve."""
    return Facts(nodes=nodes, now=NOW, **{"reserve": NO_RESERVE, **parts})
