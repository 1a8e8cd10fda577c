"""How many nodes the unschedulable pods need: the Autoscaler's decision to grow, as a pure function.

First fit, the greatest pod first: into nodes that are there, then into those on their way, then into new ones of the
cheapest pool that fits. The same input always gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.aws_operator.core.plugins.module_utils.neighbours import Rules, rules_for
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pod_fit import Misfit, fits, misfit, why_nowhere
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes, why_volumes_hold
from ansible_collections.aws_operator.core.plugins.module_utils.pods import (
    Guest,
    Pod,
    guest_of,
    key_of,
    why_not_waiting_for_room,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Pool
from ansible_collections.aws_operator.core.plugins.module_utils.promises import likeness_of
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import LARGEST, QuantityError

_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one evaluation may do."""

    max_nodes_per_step: int = 0
    """Over all pools; 0 for no limit."""
    paused: str = ""
    """Why no node may be added this time (a cooldown), empty where one may."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was decided about one pod."""

    pod: str
    """`namespace/name`."""
    outcome: str
    """`Fits` (a node has room), `Coming` (one on its way will), `Grows` (a new one), `Waits` (a limit), `LeftOut`."""
    place: str = ""
    pool: str = ""
    reason: str = ""
    likeness: str = ""
    """Of a pod for which a node is coming."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A new target for one pool."""

    pool: str
    before: int
    after: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The answer."""

    targets: Mapping[str, int]
    """By pool; within its limits."""
    decisions: Sequence[Decision]
    """The pools whose target changes."""
    verdicts: Sequence[Verdict]
    places: Sequence[Place]
    """All nodes with the pods put on them, for the question what isn't needed."""

    @property
    def unschedulable(self) -> int:
        """Return how many pods wait for room, wherever they may find it."""
        return sum(verdict.outcome != "LeftOut" for verdict in self.verdicts)


@dataclass(kw_only=True)
class _Board:
    """The places as they fill up."""

    pools: Sequence[Pool]
    volumes: Volumes
    limits: Limits
    broken: Mapping[tuple[str, str], str]
    places: list[Place]
    added: set[str] = field(default_factory=set)
    grown_for: dict[str, list[str]] = field(default_factory=dict)

    def settle(self, guest: Guest) -> Verdict:
        """Put one pod somewhere, or say why not."""
        rules = rules_for(guest, self.places)
        for place in self.places:
            if place.is_open and fits(guest, place, rules=rules, volumes=self.volumes):
                return self._put(guest, place)
        return self._grow(guest, rules)

    def _put(self, guest: Guest, place: Place) -> Verdict:
        place.put(guest)
        if place.is_there:
            return Verdict(pod=guest.key, outcome="Fits", place=place.name, pool=place.pool)
        outcome = "Coming"
        if place.name in self.added:
            outcome = "Grows"
            self.grown_for[place.pool].append(guest.key)
        likeness = likeness_of(guest)
        return Verdict(pod=guest.key, outcome=outcome, place=place.name, pool=place.pool, likeness=likeness)

    def _grow(self, guest: Guest, rules: Rules) -> Verdict:
        unfit: dict[str, Misfit] = {}
        blocked: list[str] = []
        for pool in self.pools:
            number = sum(place.pool == pool.name and not place.is_there for place in self.places) + 1
            place = pool.template(f"{pool.name} (new {number})")
            found = misfit(guest, place, rules=rules, volumes=self.volumes) or self._tried(guest, pool)
            reason = "" if found else self._blocked(pool)
            if found:
                unfit[pool.name] = found
            elif reason:
                blocked.append(reason)
            else:
                self._open(pool, place)
                return self._put(guest, place)
        if blocked:
            return Verdict(pod=guest.key, outcome="Waits", reason="; ".join(dict.fromkeys(blocked)))
        return Verdict(pod=guest.key, outcome="LeftOut", reason=why_nowhere(unfit))

    def _tried(self, guest: Guest, pool: Pool) -> Misfit | None:
        """Return what keeps such pods from the nodes that were added for them, whatever a new one should be like."""
        why = self.broken.get((pool.name, likeness_of(guest))) if self.broken else None
        return Misfit(kind="Tried", what=why) if why else None

    def _open(self, pool: Pool, place: Place) -> None:
        self.places.append(place)
        self.added.add(place.name)
        self.grown_for.setdefault(pool.name, [])

    def grown(self, pool: Pool) -> int:
        """Return how many nodes this evaluation adds to the pool."""
        return sum(place.name in self.added for place in self.places if place.pool == pool.name)

    def _blocked(self, pool: Pool) -> str:
        """Return why the pool can't grow now though its nodes would do, the most lasting reason first."""
        most = self.limits.max_nodes_per_step
        reasons = {
            f"pool {pool.name} is at its maxNodes of {pool.maximum}": (
                pool.allowed_target + self.grown(pool) >= pool.maximum
            ),
            f"nobody knows what nodes of pool {pool.name} offer: {pool.unclear}": bool(pool.unclear),
            f"AWS refuses the launches of pool {pool.name}: {pool.refused}": bool(pool.refused),
            f"pool {pool.name} gets no machines at the moment: {pool.starved}": bool(pool.starved),
            self.limits.paused: bool(self.limits.paused),
            f"this evaluation already adds {most} nodes (maxNodesPerStep); the next one goes on": (
                0 < most <= len(self.added)
            ),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


def pack(
    pods: Iterable[Pod],
    *,
    pools: Iterable[Pool],
    places: Iterable[Place] = (),
    volumes: Volumes | None = None,
    limits: Limits | None = None,
    broken: Mapping[tuple[str, str], str] | None = None,
) -> Packing:
    """Decide for the pending *pods*; *places* are the nodes that are there, with the pods on them.

    *broken* says by pool and likeness why nodes that were added for such pods don't take them.
    """
    known = volumes or Volumes()
    ordered = sorted(pools, key=lambda pool: (pool.rank, pool.cost, pool.name))
    there = [place.copy() for place in sorted(places, key=lambda place: place.name)]
    board = _Board(
        pools=ordered,
        volumes=known,
        limits=limits or Limits(),
        broken=broken or {},
        places=[*there, *_coming(ordered)],
    )
    guests, left_out = waiting(pods, known)
    settled = [board.settle(guest) for guest in _greatest_first(guests, board)]
    targets = {pool.name: pool.allowed_target + board.grown(pool) for pool in ordered}
    return Packing(
        targets=targets,
        decisions=[_decision(pool, board) for pool in ordered if targets[pool.name] != pool.target],
        verdicts=sorted([*left_out, *settled], key=lambda verdict: verdict.pod),
        places=board.places,
    )


def _coming(pools: Iterable[Pool]) -> list[Place]:
    """Return the nodes on their way, as empty places."""
    return [pool.template(f"{pool.name} (new {number})") for pool in pools for number in range(1, pool.coming + 1)]


def waiting(pods: Iterable[Pod], volumes: Volumes) -> tuple[list[Guest], list[Verdict]]:
    """Tell those that wait for room from those that no node helps."""
    guests, left_out = [], []
    for pod in pods:
        reason = why_not_waiting_for_room(pod)
        try:
            guest = guest_of(pod)
        except QuantityError as error:
            reason = reason or f"what it asks for can't be read: {error}"
        else:
            reason = reason or why_volumes_hold(guest, volumes)
        if reason:
            left_out.append(Verdict(pod=key_of(pod), outcome="LeftOut", reason=reason))
        else:
            guests.append(guest)
    return guests, left_out


def _greatest_first(guests: Sequence[Guest], board: _Board) -> list[Guest]:
    """Return the pods by priority, as the scheduler takes them, then by their greatest share of the greatest node."""
    greatest: dict[str, int] = {}
    for offers in [*(pool.offers for pool in board.pools), *(place.offers for place in board.places)]:
        for name, value in offers.items():
            if value < LARGEST // 2:  # else nobody said how much of it there is
                greatest[name] = max(greatest.get(name, 1), value)

    def rank(guest: Guest) -> tuple[int, float, str, str]:
        share = max(asked / greatest.get(name, LARGEST) for name, asked in guest.requests.items())
        return (-guest.priority, -share, guest.key, guest.uid)

    return sorted(guests, key=rank)


def _decision(pool: Pool, board: _Board) -> Decision:
    names = sorted(board.grown_for.get(pool.name) or [])
    after = pool.allowed_target + board.grown(pool)
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        why = f"room for {len(names)} pod{'s' if len(names) > 1 else ''}: {', '.join(names[:_NAMED])}{more}"
    else:
        why = f"minNodes is {pool.minimum}" if after > pool.target else f"maxNodes is {pool.maximum}"
    return Decision(pool=pool.name, before=pool.target, after=after, why=why)
