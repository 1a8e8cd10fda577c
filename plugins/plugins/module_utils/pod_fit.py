"""Whether a pod can be placed on a node, judged by what both say and never by the scheduler's message. Pure.

Judged: requests, node selector, required node affinity, taints, volume claims, host ports, required affinities between
pods, hard topology spread. Not judged: preferences, preemption, dynamic resource allocation, limits on the number of
attached volumes, another scheduler's plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.aws_operator.core.plugins.module_utils.neighbours import Rules, port_conflict
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes, why_not_here
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import shown
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import (
    is_selected,
    missing_labels,
    required_affinity,
    shown_labels,
    shown_taint,
    shown_terms,
    untolerated,
)

# What is said of one pool, and of all of them.
_SENTENCES = {
    "NodeSelector": ("doesn't satisfy its node selector {}", "no pool satisfies its node selector {}"),
    "NodeAffinity": ("doesn't satisfy its node affinity {}", "no pool satisfies its node affinity {}"),
    "Taint": ("has the taint {}, which it doesn't tolerate", "every pool has the taint {}, which it doesn't tolerate"),
    "Volume": ("can't reach the volume of its claim {}", "no pool can reach the volume of its claim {}"),
    "HostPort": ("has its host port {} taken", "every pool has its host port {} taken"),
    "Neighbours": ("doesn't satisfy {}", "no pool satisfies {}"),
    "Tried": ("was grown for such a pod already, and {}", "a pool was grown for such a pod already, and {}"),
    "Room": ("is too small for it: {}", "no pool has nodes that are big enough: {}"),
}


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """Why one pod can't be on one node."""

    kind: str
    """One word for a program, a key of the sentences."""
    what: str

    @property
    def text(self) -> str:
        """Return it as said of a pool or node."""
        return _SENTENCES[self.kind][0].format(self.what)


def misfit(guest: Guest, place: Place, *, rules: Rules, volumes: Volumes) -> Misfit | None:
    """Return what keeps the pod from the place, the most lasting reason first; None where it fits."""
    found = _lasting(guest, place, volumes=volumes)
    if found:
        return found
    port = port_conflict(guest, place)
    if port:
        return Misfit(kind="HostPort", what=port)
    broken = rules.broken(place)
    if broken:
        return Misfit(kind="Neighbours", what=broken)
    short = _short(guest, place)
    return Misfit(kind="Room", what=short) if short else None


def fits(guest: Guest, place: Place, *, rules: Rules, volumes: Volumes) -> bool:
    """Return whether the pod can be on the place; the cheapest question comes first."""
    return not _short(guest, place) and misfit(guest, place, rules=rules, volumes=volumes) is None


def why_nowhere(by_pool: Mapping[str, Misfit]) -> str:
    """Return one sentence for a status on why no pool's nodes can take a pod."""
    if not by_pool:
        return "there is no pool to grow"
    kinds = {found.kind for found in by_pool.values()}
    whats = sorted({found.what for found in by_pool.values()})
    if len(kinds) == 1 and len(whats) == 1:
        return _SENTENCES[kinds.pop()][1].format(whats[0])
    return "no pool fits: " + "; ".join(f"{name} {found.text}" for name, found in sorted(by_pool.items()))


def _lasting(guest: Guest, place: Place, *, volumes: Volumes) -> Misfit | None:
    """Return what the node's kind says, whoever else is on it."""
    missing = missing_labels(guest.spec, place.labels)
    if missing:
        return Misfit(kind="NodeSelector", what=shown_labels(missing))
    if not is_selected(guest.spec, place.labels, name=place.known_name):
        return Misfit(kind="NodeAffinity", what=f"({shown_terms(required_affinity(guest.spec) or {})})")
    taint = untolerated(place.taints, guest.spec.get("tolerations") or [])
    if taint:
        return Misfit(kind="Taint", what=shown_taint(taint))
    claim = why_not_here(guest, place, known=volumes)
    return Misfit(kind="Volume", what=claim) if claim else None


def _short(guest: Guest, place: Place) -> str:
    """Return of which resource the place has too little free, empty for none."""
    for name, asked in guest.requests.items():
        if asked > place.free.get(name, 0):
            return f"it asks for {shown(name, asked)}, a node has {shown(name, max(place.free.get(name, 0), 0))}"
    return ""
