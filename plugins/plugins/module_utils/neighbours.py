"""What the pods that are placed already mean for one more: affinities between pods, topology spread, host ports. Pure.

`rules_for` looks at all places once per pod; judging a place is then a look-up. A label that a node will have with a
value that nobody knows yet (`Place.vague`) isn't judged. Preferences never count, nor do namespace selectors: a term
with one is taken for every namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import is_selected, matches_labels

_ANY = ("0.0.0.0", "::", "")  # noqa: S104 - values compared, nothing listens

Term = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One topology spread constraint with the pods counted."""

    key: str
    counts: Mapping[str, int]
    """Matching pods by domain, of the nodes that the pod's node selection takes."""
    most: int
    own: int
    least_domains: int

    def allows(self, domain: str) -> bool:
        """Return whether one more pod in *domain* keeps the skew."""
        counts = {domain: 0, **self.counts}
        least = min(counts.values()) if len(counts) >= self.least_domains else 0
        return counts[domain] + self.own - least <= self.most


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Where one pod may not be, or has to be, because of others."""

    closed: Collection[tuple[str, str]]
    """Label and value of the domains that anti-affinity closes."""
    only: Mapping[str, Collection[str]]
    """By label: the domains that affinity leaves."""
    anywhere: Collection[str]
    """Labels that a node just has to have: the pod is the first of its group."""
    spreads: Sequence[Spread]

    def broken(self, place: Place) -> str:
        """Return what forbids the place, empty where nothing does."""
        labels = place.labels
        if any(labels.get(key) == value for key, value in self.closed if key not in place.vague):
            return "its pod anti-affinity"
        missed = [key for key, domains in self.only.items() if labels.get(key) not in domains]
        missed += [key for key in self.anywhere if key not in labels]
        if any(key not in place.vague for key in missed):
            return "its pod affinity"
        judged = [spread for spread in self.spreads if spread.key not in place.vague]
        if any(spread.key not in labels or not spread.allows(labels[spread.key]) for spread in judged):
            return "its topology spread constraint"
        return ""


def rules_for(guest: Guest, places: Sequence[Place]) -> Rules:
    """Look at everybody who is there."""
    only, anywhere = _affinity(guest, places)
    return Rules(closed=_closed(guest, places), only=only, anywhere=anywhere, spreads=_spreads(guest, places))


def port_conflict(guest: Guest, place: Place) -> str:
    """Return the host port that another pod of the place has, empty for none."""
    for protocol, address, number in sorted(guest.ports):
        for other in place.guests:
            if any(_same_port((protocol, address, number), taken) for taken in other.ports):
                return f"{number}/{protocol}"
    return ""


def _same_port(mine: tuple[str, str, int], theirs: tuple[str, str, int]) -> bool:
    alike = (mine[0], mine[2]) == (theirs[0], theirs[2])
    return alike and (mine[1] == theirs[1] or mine[1] in _ANY or theirs[1] in _ANY)


def _closed(guest: Guest, places: Iterable[Place]) -> set[tuple[str, str]]:
    """Return the domains that the pod's own anti-affinity closes, and those that others' closes to it."""
    found = set()
    for place in places:
        for other in place.guests:
            if not guest.repels and not other.repels:
                continue
            terms = [term for term in guest.repels if _meets(term, of=guest, other=other)]
            terms += [term for term in other.repels if _meets(term, of=other, other=guest)]
            found |= {(key, place.labels[key]) for key in map(_topology, terms) if key in place.labels}
    return found


def _affinity(guest: Guest, places: Iterable[Place]) -> tuple[dict[str, set[str]], list[str]]:
    """Return the domains of the pods that satisfy every affinity term; the first of a group may be anywhere."""
    keys = [_topology(term) for term in guest.follows]
    domains: dict[str, set[str]] = {key: set() for key in keys}
    for place in places if guest.follows else ():
        if any(_meets_all(guest, other) for other in place.guests):
            for key in domains.keys() & place.labels.keys():
                domains[key].add(place.labels[key])
    if not any(domains.values()) and _meets_all(guest, guest):
        return {}, keys
    return domains, []


def _spreads(guest: Guest, places: Sequence[Place]) -> list[Spread]:
    hard = [
        item
        for item in guest.spec.get("topologySpreadConstraints") or []
        if item.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    keys = {_topology(item) for item in hard}
    counted = [place for place in places if keys <= place.labels.keys()] if hard else []
    return [_spread(item, guest, places=counted) for item in hard]


def _spread(item: Term, guest: Guest, *, places: Iterable[Place]) -> Spread:
    key = _topology(item)
    same = {name: guest.labels[name] for name in item.get("matchLabelKeys") or [] if name in guest.labels}
    ignores = item.get("nodeAffinityPolicy") == "Ignore"
    counts: dict[str, int] = {}
    for place in places:
        if ignores or is_selected(guest.spec, place.labels, name=place.known_name):
            matching = sum(_spreads_with(item, other, of=guest, same=same) for other in place.guests)
            counts[place.labels[key]] = counts.get(place.labels[key], 0) + matching
    return Spread(
        key=key,
        counts=counts,
        most=int(item.get("maxSkew") or 1),
        own=int(_spreads_with(item, guest, of=guest, same=same)),
        least_domains=int(item.get("minDomains") or 1),
    )


def _spreads_with(item: Term, other: Guest, *, of: Guest, same: Mapping[str, str]) -> bool:
    alike = other.namespace == of.namespace and same.items() <= other.labels.items()
    return bool(alike and matches_labels(item.get("labelSelector"), other.labels))


def _topology(term: Term) -> str:
    return str(term.get("topologyKey") or "")


def _meets(term: Term, *, of: Guest, other: Guest) -> bool:
    """Return whether a term of the pod *of* speaks of the pod *other*."""
    everywhere = term.get("namespaceSelector") is not None
    namespaces = term.get("namespaces") or [of.namespace]
    meant = everywhere or other.namespace in namespaces
    return bool(meant and matches_labels(term.get("labelSelector"), other.labels))


def _meets_all(guest: Guest, other: Guest) -> bool:
    return all(_meets(term, of=guest, other=other) for term in guest.follows)
