"""Where pods can be: nodes that are there, and nodes that a pool would bring. Pure.

A `Place` is mutable on purpose: packing puts guests on it, and a trial works on copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest, Pod, guest_of, has_ended, node_of
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import Amounts, amounts, less

Node = Mapping[str, Any]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
_STAYS = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(kw_only=True)
class Place:
    """A node with the pods on it, or one that doesn't exist yet."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    offers: Amounts
    """What the node has for pods in all."""
    pool: str = ""
    is_there: bool = True
    """Whether the node exists; one that doesn't has no name that a pod could ask for."""
    is_open: bool = True
    """Whether new pods may come; of a node on its way out only the pods that are on it count."""
    is_leaving: bool = False
    """Whether the node goes on purpose."""
    is_ready: bool = True
    created: str = ""
    ready_since: str = ""
    """When its Ready condition changed last."""
    keeps: str = ""
    """Why the node itself isn't to be taken away, empty where it may be."""
    vague: frozenset[str] = frozenset()
    """Labels that the node will have, with values that nobody knows yet: the zone, in a pool of several subnets."""
    guests: list[Guest] = field(default_factory=list)
    free: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count the room that the first guests leave."""
        self.free = dict(self.offers)
        for guest in self.guests:
            self.free = less(self.free, guest.requests)

    @property
    def known_name(self) -> str:
        """Return the name that a pod could ask for, empty for a node that doesn't exist yet."""
        return self.name if self.is_there else ""

    def put(self, guest: Guest) -> None:
        """Let a guest in."""
        self.guests.append(guest)
        self.free = less(self.free, guest.requests)

    def clear(self) -> None:
        """Send all guests away but those that every node of its kind has."""
        self.guests = [guest for guest in self.guests if guest.stays]
        self.__post_init__()

    def copy(self, *, only_bound: bool = False) -> Place:
        """Return the same place for a trial; *only_bound* leaves out the pods that were put there in thought."""
        return Place(
            name=self.name,
            labels=self.labels,
            taints=self.taints,
            offers=self.offers,
            pool=self.pool,
            is_there=self.is_there,
            is_open=self.is_open,
            is_leaving=self.is_leaving,
            is_ready=self.is_ready,
            created=self.created,
            ready_since=self.ready_since,
            keeps=self.keeps,
            vague=self.vague,
            guests=[guest for guest in self.guests if guest.is_bound] if only_bound else list(self.guests),
        )


def place_of(node: Node, *, pods: Iterable[Pod] = (), pool: str = "", is_leaving: bool = False) -> Place:
    """Return a node that is there with those of *pods* that take room on it; open to more if it's Ready and stays."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    cordoned, ready = is_cordoned(node), is_ready(node)
    return Place(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=[*(spec.get("taints") or []), *([_CORDON] if cordoned else [])],
        offers=amounts(status.get("allocatable") or status.get("capacity")),
        pool=pool,
        is_open=ready and not cordoned and not is_leaving,
        is_leaving=is_leaving,
        is_ready=ready,
        created=str(meta.get("creationTimestamp") or ""),
        ready_since=unready_since(node),
        keeps=f"it's annotated {_STAYS}: true" if (meta.get("annotations") or {}).get(_STAYS) == "true" else "",
        guests=[guest_of(pod) for pod in pods if node_of(pod) == meta["name"] and not has_ended(pod)],
    )


def is_ready(node: Node) -> bool:
    """Return whether the node's Ready condition is True."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def is_cordoned(node: Node) -> bool:
    """Return whether no new pods are put on the node."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def unready_since(node: Node) -> str:
    """Return since when the node isn't Ready, or is where it is, as its condition or its creation says."""
    conditions = (node.get("status") or {}).get("conditions") or []
    moved = next((item.get("lastTransitionTime") for item in conditions if item.get("type") == "Ready"), None)
    return str(moved or node["metadata"].get("creationTimestamp") or "")
