"""A NodePool as the Autoscaler sees it: what a new node offers, and how many nodes are on their way. Pure.

A node that goes on purpose counts neither as room nor as missing; one that starts counts as room that is coming.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import (
    HOSTNAME,
    REGION,
    ZONE,
    Node,
    Place,
    is_cordoned,
    is_ready,
    place_of,
    unready_since,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pod_requests import requests_of
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Pod, node_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import (
    INSTANCE_TYPE_LABEL,
    belongs_to,
    is_leaving,
    labels_for_nodes,
)
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import LARGEST, Amounts, amounts, less, total
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import is_selected, untolerated
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age

GIB = 2**30
_UNSAID = {"cpu": LARGEST, "memory": LARGEST, "ephemeral-storage": LARGEST, "pods": 110}
_BOOT_LABELS = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}
_ARCHITECTURE = "kubernetes.io/arch"
_DRIVER_ZONE = "topology.ebs.csi.aws.com/zone"
# A core costs about as much as nine GiB of memory in AWS's general families.
_GIB_PER_CORE = 9


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
    """What the Autoscaler reads besides the pools."""

    nodes: Sequence[Node]
    now: datetime
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
    """Seconds after which a node that isn't Ready no longer counts as starting."""


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
    unclear: str = ""
    """Why nobody knows what a new node offers, empty where it is known."""
    vague: frozenset[str] = frozenset()

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
    types = instance_types(spec)
    zones = facts.zones.get(name) or ()
    labels = _labels(obj, types=types, zones=zones, facts=facts)
    taints = spec.get("taints") or []
    alike = [node for node in mine if is_ready(node) and _type_of(node) in types]
    whole = _seen(alike) or _guessed(spec, facts=facts, types=types)
    daemons = [_daemon_requests(item, labels, taints=taints) for item in facts.daemon_sets]
    target, maximum = int(spec.get("targetNodes") or 0), int(spec.get("maxNodes", LARGEST))
    minimum = int(spec.get("minNodes") or 0)
    starved = _starved(status)
    allowed = max(minimum, min(target, maximum))
    launched = min(allowed, int(status.get("currentNodes") or 0)) if starved else allowed
    return Pool(
        name=name,
        labels=labels,
        taints=taints,
        offers=less(whole, total(daemons)),
        target=target,
        minimum=minimum,
        maximum=maximum,
        coming=coming_nodes(mine, expected=launched, facts=facts),
        rank=rank,
        cost=cost_of(whole),
        starved=starved,
        unclear="" if alike else facts.unclear.get(name, ""),
        vague=frozenset() if len(zones) == 1 else frozenset({ZONE, _DRIVER_ZONE}),
    )


def places_of(facts: Facts, pods: Iterable[Pod], *, pools: Iterable[Mapping[str, Any]]) -> list[Place]:
    """Return all nodes with their pods; open to new ones are those that are Ready and stay."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(node_of(pod), []).append(pod)
    objects = list(pools)
    return [
        place_of(
            node,
            pods=by_node.get(node["metadata"]["name"], ()),
            pool=next((str(obj["metadata"]["name"]) for obj in objects if belongs_to(node, obj)), ""),
            is_leaving=is_leaving(node),
        )
        for node in facts.nodes
    ]


def instance_types(spec: Mapping[str, Any]) -> list[str]:
    """Return the pool's instance types in order of preference."""
    named = [spec.get("instanceType"), *(spec.get("instanceTypes") or [])]
    return list(dict.fromkeys(str(item) for item in named if item))


def coming_nodes(nodes: Iterable[Node], *, expected: int, facts: Facts) -> int:
    """Return how many of the *expected* nodes of a pool bring room that isn't there yet (A1).

    A node that goes on purpose isn't one of the expected. One that a person cordoned, or that has been unready for
    long, is: it brings no room, and nobody makes up for it.
    """
    expecting = [node for node in nodes if not is_leaving(node)]
    starting = [node for node in expecting if is_starting(node, facts=facts)]
    return max(0, expected - len(expecting)) + len(starting)


def is_starting(node: Node, *, facts: Facts) -> bool:
    """Return whether a node that isn't Ready may still become so."""
    fresh = age(unready_since(node), now=facts.now) < facts.patience
    return not is_ready(node) and not is_cordoned(node) and not is_leaving(node) and fresh


def cost_of(offers: Amounts) -> float:
    """Return an estimate to compare pools by: cores, and memory in what costs as much as a core."""
    cores = min(offers.get("cpu", 0), 10**6) / 1000
    return float(cores + min(offers.get("memory", 0), 2**50) / GIB / _GIB_PER_CORE)


def _labels(obj: Mapping[str, Any], *, types: Sequence[str], zones: Sequence[str], facts: Facts) -> dict[str, str]:
    """Return the labels that are known before a node is there."""
    sure = {**_BOOT_LABELS, **labels_for_nodes(obj)}
    architectures = {facts.architectures.get(name, "") for name in types}
    if len(architectures) == 1 and "" not in architectures:
        sure[_ARCHITECTURE] = architectures.pop()
    if len(types) == 1:
        sure[INSTANCE_TYPE_LABEL] = types[0]
    if len(zones) == 1:
        sure |= {ZONE: zones[0], _DRIVER_ZONE: zones[0], REGION: zones[0].rstrip("abcdefghijklmnopqrstuvwxyz")}
    return sure


def _type_of(node: Node) -> str:
    return str((node["metadata"].get("labels") or {}).get(INSTANCE_TYPE_LABEL) or "")


def _seen(nodes: Sequence[Node]) -> dict[str, int]:
    """Return what every one of the pool's nodes offers."""
    offers = [amounts((node.get("status") or {}).get("allocatable")) for node in nodes]
    names = set.intersection(*(set(each) for each in offers)) if offers else set()
    return {name: min(each[name] for each in offers) for name in sorted(names)}


def _guessed(spec: Mapping[str, Any], *, facts: Facts, types: Sequence[str]) -> dict[str, int]:
    """Return what the spec says, else what the smallest of the instance types has, without the reserve."""
    known = [amounts(facts.capacities[item]) for item in types if item in facts.capacities]
    names = sorted({name for each in known for name in each})
    whole = {**_UNSAID, **{name: min(each.get(name, 0) for each in known) for name in names}}
    if spec.get("memoryGiB"):
        whole["memory"] = int(float(spec["memoryGiB"]) * GIB)
    if spec.get("cpu"):
        whole |= amounts({"cpu": spec["cpu"]})
    kept = {
        "cpu": facts.reserve.cpu,
        "memory": int(whole["memory"] * facts.reserve.memory_share) + facts.reserve.memory,
    }
    return {name: max(0, value) for name, value in less(whole, kept).items()}


def _daemon_requests(daemon_set: Mapping[str, Any], labels: Mapping[str, str], *, taints: Sequence[Any]) -> Amounts:
    """Return what a DaemonSet's pod takes of every new node of the pool, nothing where it doesn't run there."""
    template = (daemon_set.get("spec") or {}).get("template") or {}
    spec = template.get("spec") or {}
    runs = is_selected(spec, labels, name="") and untolerated(taints, spec.get("tolerations") or []) is None
    return requests_of(template) if runs else {}


def _starved(status: Mapping[str, Any]) -> str:
    for item in status.get("conditions") or []:
        if item.get("type") == "CapacityUnavailable" and item.get("status") == "True":
            return str(item.get("message") or item.get("reason") or "AWS has no capacity")
    return ""
