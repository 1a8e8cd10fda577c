"""What the Autoscaler reads besides the pools, and which nodes are still about to bring room. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import (
    Node,
    is_cordoned,
    is_ready,
    unready_since,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pods import (
    Pod,
    has_ended,
    is_terminating,
    node_of,
    stays_with_its_node,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import LAUNCH_FAILED, Member
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import is_leaving
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import REPELLING
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age

# What passes by itself: AWS is busy or not reached (botocore's names), the token of an instance that ended or of
# another request is about to be replaced, or the EC2Instance still says what was before its machine is replaced.
_PASSING = (
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "HTTPClientError",
    "IdempotentInstanceTerminated",
    "IdempotentParameterMismatch",
    "InternalError",
    "InternalFailure",
    "ProxyConnectionError",
    "ReadTimeoutError",
    "ReconcileFailed",
    "Replacing",
    "RequestLimitExceeded",
    "RequestTimeout",
    "SSLError",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "Unavailable",
    "Unknown",
)
# Kubernetes sets and removes these by itself: a cordon, a pressure, a node whose cloud isn't asked yet.
_OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


@dataclass(frozen=True, kw_only=True)
class Reserve:
    """What a new node keeps for itself, where no node of its type is there to tell."""

    cpu: int = 100
    """Thousandths of a core."""
    memory_share: float = 0.05
    memory: int = 100 * 2**20
    """Bytes, besides the share."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What was read."""

    nodes: Sequence[Node]
    now: datetime
    instances: Sequence[Mapping[str, Any]] = ()
    """The EC2Instances of the pools' namespace, read after the nodes."""
    capacities: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By instance type: `cpu`, `memory` and others as quantities."""
    zones: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By pool name: the availability zones of its subnets."""
    daemon_sets: Sequence[Mapping[str, Any]] = ()
    reserve: Reserve = field(default_factory=Reserve)
    unclear: Mapping[str, str] = field(default_factory=dict)
    """By pool name: why nobody knows what its machines offer."""
    architectures: Mapping[str, str] = field(default_factory=dict)
    """By instance type: the value of `kubernetes.io/arch`."""
    patience: float = 900.0
    """Seconds after which a node that takes no pods yet, or a launch that fails in passing, is no longer coming."""
    lodged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node name: the keys of taints that pods on it tolerate by name (`lodged`)."""


def is_starting(node: Node, *, taints: Sequence[Mapping[str, Any]] = (), facts: Facts) -> bool:
    """Return whether a node that takes no pods yet may soon: it isn't Ready, or has a taint that its start brings.

    *taints* are those of its pool, which stay. So does one that a pod on the node tolerates by name.
    """
    if is_cordoned(node) or is_leaving(node) or age(unready_since(node), now=facts.now) >= facts.patience:
        return False
    stay = facts.lodged.get(str(node["metadata"]["name"])) or frozenset()
    return not is_ready(node) or any(item.get("key") not in stay for item in startup_taints(node, taints=taints))


def lodged(pods: Iterable[Pod]) -> dict[str, frozenset[str]]:
    """Return by node the taints' keys that its movable pods tolerate by name.

    Such a node takes pods. Who tolerates everything (a network plugin's operator) is on nodes that start as well.
    """
    found: dict[str, frozenset[str]] = {}
    for pod in pods:
        if node_of(pod) and not (stays_with_its_node(pod) or is_terminating(pod) or has_ended(pod)):
            given = (pod.get("spec") or {}).get("tolerations") or []
            keys = {str(item["key"]) for item in given if item.get("key") and not is_kubernetes_own(item)}
            found[node_of(pod)] = found.get(node_of(pod), frozenset()) | keys
    return found


def is_kubernetes_own(taint: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes sets and removes the taint by itself."""
    return str(taint.get("key") or "").startswith(_OF_KUBERNETES)


def startup_taints(node: Node, *, taints: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the repelling taints that nobody asked for in the pool's spec.

    Who sets one removes it once the node may be used (a network plugin, a storage driver, `node.kubernetes.io/*`), and
    there is no list of them that is whole. One that stays is seen as such when the node's start is over.
    """
    wanted = {(item.get("key"), item.get("effect")) for item in taints}
    there = (node.get("spec") or {}).get("taints") or []
    return [
        item
        for item in there
        if item.get("effect") in REPELLING and (item.get("key"), item.get("effect")) not in wanted
    ]


def refused_launches(members: Iterable[Member], *, facts: Facts) -> list[Member]:
    """Return the machines that AWS refuses for a reason that neither time nor another offering mends (a quota, rights).

    What passes by itself counts as such when it has lasted for longer than a start may take.
    """
    failed = [item for item in members if item.phase == LAUNCH_FAILED and not item.lacks_capacity]
    return [item for item in failed if item.failure not in _PASSING or _lasts(item, facts=facts)]


def refused_since(member: Member) -> str:
    """Return since when the machine isn't launched, as its condition or its creation says."""
    conditions = (member.obj.get("status") or {}).get("conditions") or []
    since = next((item.get("lastTransitionTime") for item in conditions if item.get("type") == "Ready"), None)
    return str(since or member.created)


def _lasts(member: Member, *, facts: Facts) -> bool:
    return bool(age(refused_since(member), now=facts.now) >= facts.patience)
