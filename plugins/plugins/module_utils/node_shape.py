"""What a new node of a pool will look like: as its nodes that are there do, else as spec and AWS let one guess. Pure.

Labels of type and zone come from a cloud controller or from the bootstrap, and there are clusters with neither: a label
that the pool's nodes lack is promised to nobody. A pool without a node has only the guess; whether that held is
remembered (`promises`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import (
    HOSTNAME,
    REGION,
    ZONE,
    Node,
    is_cordoned,
    is_ready,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pod_requests import requests_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import (
    Facts,
    is_kubernetes_own,
    is_starting,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import Member
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import (
    INSTANCE_TYPE_LABEL,
    is_leaving,
    labels_for_nodes,
)
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import LARGEST, Amounts, amounts, less, total
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import REPELLING, is_selected, untolerated

GIB = 2**30
_UNSAID = {"cpu": LARGEST, "memory": LARGEST, "ephemeral-storage": LARGEST, "pods": 110}
_BOOT_LABELS = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}
_ARCHITECTURE = "kubernetes.io/arch"
_DRIVER_ZONE = "topology.ebs.csi.aws.com/zone"
_OF_ZONES = (ZONE, _DRIVER_ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.k8s.aws/zone-id")
_OF_TYPES = (INSTANCE_TYPE_LABEL, "beta.kubernetes.io/instance-type")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A node that isn't there yet."""

    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    whole: Amounts
    """What it has for pods, DaemonSets' pods not yet counted."""
    offers: Amounts
    """The same without them."""
    is_seen: bool
    """Whether nodes of the pool tell it."""
    vague: frozenset[str]
    """Labels that it will have with values that nobody knows yet."""


def shape_of(
    pool: Mapping[str, Any], *, nodes: Sequence[Node], members: Iterable[Member], types: Sequence[str], facts: Facts
) -> Shape:
    """Return the shape of the pool's next node; *nodes* and *members* are the pool's own."""
    spec = pool.get("spec") or {}
    wanted = spec.get("taints") or []
    zones = facts.zones.get(str(pool["metadata"]["name"])) or ()
    alike = _alike(nodes, members=members, types=types, facts=facts, taints=wanted)
    if alike:
        labels, vague = _seen_labels(pool, alike, types=types, zones=zones)
        taints, whole = [*wanted, *_lasting_taints(alike, wanted=wanted)], _seen(alike)
    else:
        labels, vague = _guessed_labels(pool, types=types, zones=zones, facts=facts)
        taints, whole = list(wanted), _guessed(spec, facts=facts, types=types)
    daemons = [_daemon_requests(item, labels, taints=taints) for item in facts.daemon_sets]
    return Shape(
        labels=labels,
        taints=taints,
        whole=whole,
        offers=less(whole, total(daemons)),
        is_seen=bool(alike),
        vague=vague,
    )


def _alike(
    nodes: Iterable[Node],
    *,
    members: Iterable[Member],
    types: Sequence[str],
    facts: Facts,
    taints: Sequence[Mapping[str, Any]],
) -> list[Node]:
    """Return the nodes that started and are of one of the pool's types today, as their label or EC2Instance says."""
    launched = {member.node_name: member.offering[0] for member in members if member.node_name}
    settled = [node for node in nodes if is_ready(node) and not is_starting(node, taints=taints, facts=facts)]
    return [node for node in settled if (_type_of(node) or launched.get(str(node["metadata"]["name"]))) in {*types}]


def _type_of(node: Node) -> str:
    return str((node["metadata"].get("labels") or {}).get(INSTANCE_TYPE_LABEL) or "")


def _seen_labels(
    pool: Mapping[str, Any], nodes: Sequence[Node], *, types: Sequence[str], zones: Sequence[str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the labels that all nodes have with one value, and the names of those that all have with several.

    What changes from machine to machine is known only where the pool leaves no choice.
    """
    each: list[Mapping[str, str]] = [node["metadata"].get("labels") or {} for node in nodes]
    shared = set.intersection(*(set(labels) for labels in each)) - {HOSTNAME}
    open_ones = {*(_OF_ZONES if len(zones) != 1 else ()), *(_OF_TYPES if len(types) != 1 else ())}
    sure = {name: each[0][name] for name in shared - open_ones if all(labels[name] == each[0][name] for labels in each)}
    if len(zones) == 1:
        sure |= {name: zones[0] for name in (ZONE, _DRIVER_ZONE) if name in shared}
    vague = frozenset(shared - {*sure} - {*(_OF_TYPES)})
    return {**sure, **labels_for_nodes(pool)}, vague


def _guessed_labels(
    pool: Mapping[str, Any], *, types: Sequence[str], zones: Sequence[str], facts: Facts
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the labels that most clusters' nodes have."""
    sure = {**_BOOT_LABELS, **labels_for_nodes(pool)}
    architectures = {facts.architectures.get(name, "") for name in types}
    if len(architectures) == 1 and "" not in architectures:
        sure[_ARCHITECTURE] = architectures.pop()
    if len(types) == 1:
        sure[INSTANCE_TYPE_LABEL] = types[0]
    if len(zones) == 1:
        sure |= {ZONE: zones[0], _DRIVER_ZONE: zones[0], REGION: zones[0].rstrip("abcdefghijklmnopqrstuvwxyz")}
    return sure, frozenset() if len(zones) == 1 else frozenset({ZONE, _DRIVER_ZONE})


def _lasting_taints(nodes: Sequence[Node], *, wanted: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the taints that all nodes have though the pool's spec doesn't ask for them: the bootstrap sets them.

    A node that takes no pods on purpose is no witness, nor is a taint that Kubernetes sets by itself: a cordon or a
    pressure of the nodes that are there says nothing about the next one.
    """
    known = {(item.get("key"), item.get("effect")) for item in wanted}
    witnesses = [node for node in nodes if not (is_cordoned(node) or is_leaving(node))]
    first, *others = [(node.get("spec") or {}).get("taints") or [] for node in witnesses] or [[]]
    return [
        item
        for item in first
        if item.get("effect") in REPELLING
        and not is_kubernetes_own(item)
        and (item.get("key"), item.get("effect")) not in known
        and all(_has(taints, item) for taints in others)
    ]


def _has(taints: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> bool:
    names = ("key", "value", "effect")
    return any(all((item.get(name) or "") == (wanted.get(name) or "") for name in names) for item in taints)


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
