"""A NodePool as the Autoscaler sees it: what a new node offers, and how many nodes are on their way. Pure.

A node that goes on purpose counts neither as room nor as missing; one that starts counts as room that is coming, and a
launch that AWS refuses for good as neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.node_shape import GIB, shape_of
from ansible_collections.aws_operator.core.plugins.module_utils.places import HOSTNAME, Node, Place, place_of
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Pod, node_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import (
    Facts,
    is_starting,
    refused_launches,
    refused_since,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import Member, members_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import belongs_to, is_leaving
from ansible_collections.aws_operator.core.plugins.module_utils.promises import revision_of
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import LARGEST, Amounts

# A core costs about as much as nine GiB of memory in AWS's general families.
_GIB_PER_CORE = 9
# What AWS's answers have of their own, its number and the sealed details of a missing right: new at each try, so that a
# status with it would change though nothing else does.
_REQUEST = re.compile(r" \(request id [^)]*\)|[. ]+Encoded authorization failure message: \S+")


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One pool that may grow."""

    name: str
    labels: Mapping[str, str]
    offers: Amounts
    """What a new node has for pods, its DaemonSets' pods already counted."""
    target: int
    maximum: int
    minimum: int = 0
    taints: Sequence[Mapping[str, Any]] = ()
    coming: int = 0
    """Nodes of the allowed target that were asked for and aren't Ready yet."""
    rank: int = 0
    """The order of preference that a person gave; the cost decides within one rank."""
    cost: float = 0.0
    starved: str = ""
    """Why AWS gives no more machines at the moment, empty where it does."""
    refused: str = ""
    """Which launches AWS refuses for good, and why, empty for none: they aren't coming, and more would fare alike."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Those launches by the machine's name, with since when."""
    unclear: str = ""
    """Why nobody knows what a new node offers, empty where it is known."""
    vague: frozenset[str] = frozenset()
    revision: str = ""
    """Of its spec, whatever its size is."""

    @property
    def allowed_target(self) -> int:
        """Return the target within the limits, whichever was edited last; the lower limit wins."""
        return max(self.minimum, min(self.target, self.maximum))

    def template(self, name: str) -> Place:
        """Return a node of the pool as it will be, empty."""
        labels = {**self.labels, HOSTNAME: name}
        return Place(
            name=name,
            labels=labels,
            taints=self.taints,
            offers=self.offers,
            pool=self.name,
            is_there=False,
            vague=self.vague,
        )


def pool_of(obj: Mapping[str, Any], facts: Facts, *, rank: int = 0) -> Pool:
    """Read a NodePool object."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    name = str(obj["metadata"]["name"])
    mine = [node for node in facts.nodes if belongs_to(node, obj)]
    members = members_of(obj, instances=facts.instances, nodes=facts.nodes)
    shape = shape_of(obj, nodes=mine, members=members, types=instance_types(spec), facts=facts)
    target, maximum = int(spec.get("targetNodes") or 0), int(spec.get("maxNodes", LARGEST))
    minimum = int(spec.get("minNodes") or 0)
    starved, refused = _starved(status), refused_launches(members, facts=facts)
    allowed = max(minimum, min(target, maximum))
    launched = min(allowed, int(status.get("currentNodes") or 0)) if starved else allowed - len(refused)
    return Pool(
        name=name,
        labels=shape.labels,
        taints=shape.taints,
        offers=shape.offers,
        target=target,
        minimum=minimum,
        maximum=maximum,
        coming=coming_nodes(mine, expected=launched, taints=shape.taints, facts=facts),
        rank=rank,
        cost=cost_of(shape.whole),
        starved=starved,
        refused=_told(refused),
        refusals={member.name: refused_since(member) for member in refused},
        unclear="" if shape.is_seen else facts.unclear.get(name, ""),
        vague=shape.vague,
        revision=revision_of(spec),
    )


def places_of(facts: Facts, pods: Iterable[Pod], *, pools: Iterable[Mapping[str, Any]]) -> list[Place]:
    """Return all nodes with their pods; open to new ones are those that are Ready and stay."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(node_of(pod), []).append(pod)
    known = [(obj, pool_of(obj, facts)) for obj in pools]
    return [_place(node, by_node.get(node["metadata"]["name"], ()), pools=known, facts=facts) for node in facts.nodes]


def _place(node: Node, pods: Iterable[Pod], *, pools: Iterable[tuple[Mapping[str, Any], Pool]], facts: Facts) -> Place:
    """Return one node; one of a pool that still starts counts as coming, and not as room that is there as well."""
    pool = next((pool for obj, pool in pools if belongs_to(node, obj)), None)
    place = place_of(node, pods=pods, pool=pool.name if pool else "", is_leaving=is_leaving(node))
    if pool and is_starting(node, taints=pool.taints, facts=facts):
        place.is_open = False
    return place


def instance_types(spec: Mapping[str, Any]) -> list[str]:
    """Return the pool's instance types in order of preference."""
    named = [spec.get("instanceType"), *(spec.get("instanceTypes") or [])]
    return list(dict.fromkeys(str(item) for item in named if item))


def coming_nodes(
    nodes: Iterable[Node], *, expected: int, facts: Facts, taints: Sequence[Mapping[str, Any]] = ()
) -> int:
    """Return how many of the *expected* nodes of a pool bring room that isn't there yet (A1).

    A node that goes on purpose isn't one of the expected. One that a person cordoned, or that has been unready for
    long, is: it brings no room, and nobody makes up for it.
    """
    expecting = [node for node in nodes if not is_leaving(node)]
    starting = [node for node in expecting if is_starting(node, taints=taints, facts=facts)]
    return max(0, expected - len(expecting)) + len(starting)


def cost_of(offers: Amounts) -> float:
    """Return an estimate to compare pools by: cores, and memory in what costs as much as a core."""
    cores = min(offers.get("cpu", 0), 10**6) / 1000
    return float(cores + min(offers.get("memory", 0), 2**50) / GIB / _GIB_PER_CORE)


def _told(refused: Sequence[Member]) -> str:
    """Return the first refusal with its reason; the others are as a rule refused for the same one."""
    if not refused:
        return ""
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return _REQUEST.sub("", f"{refused[0].name}{more}: {refused[0].message or refused[0].failure}")


def _starved(status: Mapping[str, Any]) -> str:
    for item in status.get("conditions") or []:
        if item.get("type") == "CapacityUnavailable" and item.get("status") == "True":
            return _REQUEST.sub("", str(item.get("message") or item.get("reason") or "AWS has no capacity"))
    return ""
