"""Reading pods: their state, and what of them decides where they can be. Pure.

A `Guest` is a pod read once, so that trying it on many nodes is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.pod_requests import requests_of

Pod = Mapping[str, Any]
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, kw_only=True)
class Guest:
    """A pod as a node sees it."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    spec: Mapping[str, Any]
    ports: frozenset[tuple[str, str, int]]
    """Host ports: protocol, address and number."""
    repels: Sequence[Mapping[str, Any]] = ()
    """Required terms of pod anti-affinity."""
    follows: Sequence[Mapping[str, Any]] = ()
    """Required terms of pod affinity."""
    priority: int = 0
    moves: bool = True
    """Whether the pod has to go elsewhere when its node goes."""
    keeps: str = ""
    """Why the node isn't taken away under it to save money, empty where it may be."""
    stays: bool = False
    """Whether it goes with its node: of a DaemonSet, or a mirror pod."""
    is_pending: bool = False
    """Whether it hasn't started, be it on a node or not."""
    is_healthy: bool = True
    """Whether it's Ready."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_bound(self) -> bool:
        """Return whether it's on its node already, and wasn't just put there in thought."""
        return bool(self.spec.get("nodeName"))


def guest_of(pod: Pod) -> Guest:
    """Read a pod; a QuantityError where it asks for something that is no quantity."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    stays = stays_with_its_node(pod)
    moves = not (stays or is_terminating(pod) or has_ended(pod))
    return Guest(
        namespace=meta.get("namespace") or "default",
        name=meta.get("name") or "",
        uid=meta.get("uid") or "",
        labels=meta.get("labels") or {},
        requests=requests_of(pod),
        spec=spec,
        ports=_host_ports(spec),
        repels=(affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or (),
        follows=(affinity.get("podAffinity") or {}).get(_REQUIRED) or (),
        priority=int(spec.get("priority") or 0),
        moves=moves,
        keeps=why_it_keeps_its_node(pod) if moves else "",
        stays=stays,
        is_pending=(pod.get("status") or {}).get("phase") == "Pending",
        is_healthy=_is_ready(pod),
    )


def key_of(pod: Pod) -> str:
    """Return `namespace/name`."""
    meta = pod.get("metadata") or {}
    return f"{meta.get('namespace') or 'default'}/{meta.get('name') or ''}"


def node_of(pod: Pod) -> str:
    """Return the node that the pod is bound to, empty for none."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def has_ended(pod: Pod) -> bool:
    """Return whether nothing of the pod runs any more, so that it takes no room."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod was told to go."""
    return bool((pod.get("metadata") or {}).get("deletionTimestamp"))


def is_mirror(pod: Pod) -> bool:
    """Return whether the kubelet runs the pod from a file: it goes with its node and can't be evicted."""
    return _MIRROR in ((pod.get("metadata") or {}).get("annotations") or {})


def controller_kind(pod: Pod) -> str:
    """Return the kind of the pod's controller, empty where nobody would make the pod again."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or []
    return next((str(owner.get("kind") or "") for owner in owners if owner.get("controller")), "")


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def stays_with_its_node(pod: Pod) -> bool:
    """Return whether a drain leaves the pod alone: of a DaemonSet, or a mirror pod."""
    return is_mirror(pod) or controller_kind(pod) == "DaemonSet"


def why_not_waiting_for_room(pod: Pod) -> str:
    """Return why more nodes can't be what the pod waits for; empty where the scheduler found no room for it.

    The scheduler's condition decides, never its message, which with zero nodes speaks of no resource at all.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if is_terminating(pod):
        return "it's being deleted"
    if node_of(pod):
        return f"it's bound to the node {node_of(pod)} already and waits for something else than room"
    if status.get("phase") not in {None, "", "Pending"}:
        return f"it isn't pending, but {status.get('phase')}"
    if spec.get("schedulingGates"):
        gates = ", ".join(str(gate.get("name")) for gate in spec["schedulingGates"])
        return f"it's held back by its scheduling gates ({gates})"
    if status.get("nominatedNodeName"):
        return f"the scheduler makes room for it on the node {status['nominatedNodeName']}"
    return "" if _is_unschedulable(status) else "the scheduler hasn't found it unschedulable"


def why_it_keeps_its_node(pod: Pod) -> str:
    """Return why a node isn't taken away under the pod to save money; empty where the pod can move."""
    meta = pod.get("metadata") or {}
    wish = (meta.get("annotations") or {}).get(SAFE_TO_EVICT)
    if wish == "true":
        return ""
    if wish == "false":
        return f"{key_of(pod)} is marked {SAFE_TO_EVICT}: false"
    if not controller_kind(pod):
        return f"{key_of(pod)} has no controller that would make it again"
    local = [item.get("name") for item in (pod.get("spec") or {}).get("volumes") or [] if _is_local(item)]
    return f"{key_of(pod)} has local storage ({', '.join(map(str, local))})" if local else ""


def _is_unschedulable(status: Mapping[str, Any]) -> bool:
    return any(
        item.get("type") == "PodScheduled" and item.get("status") == "False" and item.get("reason") == "Unschedulable"
        for item in status.get("conditions") or []
    )


def _is_local(volume: Mapping[str, Any]) -> bool:
    """Return whether data is lost with the node; what lies in memory is lost with any restart."""
    empty = volume.get("emptyDir")
    return "hostPath" in volume or (empty is not None and empty.get("medium") != "Memory")


def _host_ports(spec: Mapping[str, Any]) -> frozenset[tuple[str, str, int]]:
    sidecars = [item for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"]
    return frozenset(
        (port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", int(port["hostPort"]))  # noqa: S104 - a value compared
        for container in [*(spec.get("containers") or []), *sidecars]
        for port in container.get("ports") or []
        if port.get("hostPort")
    )
