"""Which nodes nobody needs: the Autoscaler's decision to shrink, as a pure function.

Nodes are taken away in thought, one after the other in the order in which NodePool would take them, and the pods of
each have to find room in what is left; so two that could go one by one, but not together, are told apart. The order is
that of the pods that are on the nodes now, and one drain is over before the next one begins. Times come in as values:
since when a node isn't needed is kept by the caller in a status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

from ansible_collections.aws_operator.core.plugins.module_utils.budgets import Budget, Budgets
from ansible_collections.aws_operator.core.plugins.module_utils.neighbours import rules_for
from ansible_collections.aws_operator.core.plugins.module_utils.packing import Decision, Packing
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pod_fit import fits
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Pool
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, parse, render
from ansible_collections.aws_operator.core.plugins.module_utils.victims import (
    Candidate,
    candidate_of,
    in_order,
    load_of,
)


@dataclass(frozen=True, kw_only=True)
class Thrift:
    """When a node counts as not needed."""

    enabled: bool = True
    utilization_threshold: float = 0.5
    """A node whose movable pods hold at least this share of its cores or memory is needed."""
    unneeded_for: float = 600.0
    """Seconds for which it must not have been needed."""
    paused: str = ""
    """Why no pool may shrink this time (a cooldown), empty where one may."""


@dataclass(frozen=True, kw_only=True)
class Shrinking:
    """The answer."""

    targets: Mapping[str, int]
    """By pool; at most what the packing says, and at least minNodes."""
    decisions: Sequence[Decision]
    unneeded: Mapping[str, str]
    """By node: since when it isn't needed. To be kept, and handed in next time."""
    needed: Mapping[str, str]
    """By node: why it's needed. Nodes behind the first such one of a pool aren't judged."""


@dataclass(kw_only=True)
class _Trial:
    """The nodes that are left, as pods move."""

    places: list[Place]
    volumes: Volumes
    thrift: Thrift
    now: datetime
    since: Mapping[str, str]
    budgets: Budgets
    real: Mapping[str, Place]
    """The nodes by name with the pods that are on them now: by these NodePool chooses."""
    unneeded: dict[str, str] = field(default_factory=dict)
    needed: dict[str, str] = field(default_factory=dict)
    moves_pods: bool = False
    """Whether a node goes whose pods have to go elsewhere."""

    def settle_the_homeless(self) -> None:
        """Give the pods of closed nodes room elsewhere, so that it isn't promised twice."""
        for place in [place for place in self.places if not place.is_open]:
            for guest in _greatest_first(place):
                place.guests = [other for other in place.guests if other is not guest]
                if not self._move(guest, self.places):
                    place.guests.append(guest)

    def candidates(self, pool: Pool) -> list[Candidate]:
        """Return the pool's nodes in the order in which NodePool would take them now."""
        mine = [place for place in self.real.values() if place.pool == pool.name and not place.is_leaving]
        ordered: list[Candidate] = in_order(map(candidate_of, mine))
        return ordered

    def take_away(self, candidate: Candidate) -> bool:
        """Take a node away for good where nobody needs it; its pods have moved then."""
        place = next(place for place in self.places if place.name == candidate.name)
        reason = self._why_needed(place, candidate)
        if reason:
            self.needed[place.name] = reason
            return False
        self.budgets.take(self.real[place.name].guests)
        self.unneeded[place.name] = self.since.get(place.name) or render(self.now)
        return True

    def _why_needed(self, place: Place, candidate: Candidate) -> str:
        """Return why a node has to stay; what is on it counts, also where it has been given room elsewhere already."""
        threshold = self.thrift.utilization_threshold
        load = max(candidate.load, load_of(place))
        if candidate.keeps:
            return str(candidate.keeps)
        if place.is_ready and load >= threshold:
            return f"{load:.0%} of it is asked for, and the threshold is {threshold:.0%}"
        held = self.budgets.why_held(self.real[place.name].guests)
        if held:
            return str(held)
        left = [other.copy() for other in self.places if other is not place]
        for guest in _greatest_first(place):
            if not self._move(guest, left):
                return f"{guest.key} fits nowhere else"
        self.places = left
        return ""

    def at_once(self, names: Iterable[str]) -> list[str]:
        """Return those that go now: empty ones, and one whose pods have to move.

        Where those end up changes the order in which NodePool takes the next ones, so the rest is judged anew.
        """
        found = []
        for name in names:
            moves_pods = any(guest.moves for guest in self.real[name].guests)
            if moves_pods and self.moves_pods:
                break
            found.append(name)
            if moves_pods:
                self.moves_pods = True
                break
        return found

    def _move(self, guest: Guest, places: Sequence[Place]) -> bool:
        rules = rules_for(guest, places)
        for place in places:
            if place.is_open and place.is_there and fits(guest, place, rules=rules, volumes=self.volumes):
                place.put(guest)
                return True
        return False


def shrink(
    packing: Packing,
    *,
    pools: Sequence[Pool],
    now: datetime,
    since: Mapping[str, str] | None = None,
    thrift: Thrift | None = None,
    volumes: Volumes | None = None,
    budgets: Sequence[Budget] = (),
) -> Shrinking:
    """Decide after *packing* has put the pods that wait; *since* is what the last evaluation returned as unneeded."""
    rules = thrift or Thrift()
    trial = _Trial(
        places=[place.copy() for place in packing.places],
        volumes=volumes or Volumes(),
        thrift=rules,
        now=now,
        since=since or {},
        budgets=Budgets(budgets),
        real={place.name: place.copy(only_bound=True) for place in packing.places if place.is_there},
    )
    trial.settle_the_homeless()
    ordered = sorted(pools, key=lambda pool: (-pool.rank, -pool.cost, pool.name))
    busy = bool(rules.paused) or _is_under_way(trial, pools=pools, packing=packing)
    lowered = {pool.name: _lower(pool, packing, trial=trial, busy=busy) for pool in ordered if rules.enabled}
    targets = {pool.name: packing.targets[pool.name] - len(lowered.get(pool.name) or ()) for pool in pools}
    return Shrinking(
        targets=targets,
        decisions=[_decision(pool, targets, nodes=lowered[pool.name]) for pool in pools if lowered.get(pool.name)],
        unneeded=trial.unneeded,
        needed=trial.needed,
    )


def _lower(pool: Pool, packing: Packing, *, trial: _Trial, busy: bool) -> list[str]:
    """Return the nodes by which the pool's target goes down now."""
    spare = max(0, packing.targets[pool.name] - pool.minimum)
    gone = [item.name for item in takewhile(trial.take_away, trial.candidates(pool)[:spare])]
    if busy or pool.coming:
        return []
    if pool.refused:  # NodePool takes machines that are no nodes before any node
        return _refusals(pool, packing, trial=trial)[:spare]

    def is_ripe(name: str) -> bool:
        return bool(age(trial.unneeded[name], now=trial.now) >= trial.thrift.unneeded_for)

    found: list[str] = trial.at_once(takewhile(is_ripe, gone))
    return found


def _refusals(pool: Pool, packing: Packing, *, trial: _Trial) -> list[str]:
    """Return the refused launches that nobody waits for; none while NodePool might take an unready node first."""
    waits = any(item.outcome == "Waits" for item in packing.verdicts)
    if waits or not all(item.is_ready for item in trial.candidates(pool)):
        return []
    limit = trial.thrift.unneeded_for
    lasting = [name for name, since in sorted(pool.refusals.items()) if age(since, now=trial.now) >= limit]
    return [f"{name} (AWS refuses its launch)" for name in lasting]


def _is_under_way(trial: _Trial, *, pools: Iterable[Pool], packing: Packing) -> bool:
    """Return whether the cluster changes already: a pool grows, is about to drain a surplus, or a drain hasn't ended.

    A node that is on its way out without any pod that has to leave it is as good as gone.
    """
    if any(decision.after > decision.before for decision in packing.decisions):
        return True
    leaving = [place for place in trial.real.values() if place.is_leaving]
    if any(not guest.stays for place in leaving for guest in place.guests):
        return True
    return any(len(trial.candidates(pool)) > packing.targets[pool.name] for pool in pools)


def _greatest_first(place: Place) -> list[Guest]:
    moving = [guest for guest in place.guests if guest.moves]
    return sorted(
        moving, key=lambda guest: (-guest.requests.get("memory", 0), -guest.requests.get("cpu", 0), guest.key)
    )


def _decision(pool: Pool, targets: Mapping[str, int], *, nodes: Sequence[str]) -> Decision:
    why = f"not needed: {', '.join(nodes)}"
    return Decision(pool=pool.name, before=pool.target, after=targets[pool.name], why=why)


def cooling(*, what: str, last: object, seconds: float, now: datetime) -> str:
    """Return why a pool isn't changed yet after the *last* change, empty where the cooldown is over."""
    changed = parse(last)
    left = seconds - (now - changed).total_seconds() if changed else 0.0
    # A time and not what is left of it: a status that counts down would change at every evaluation.
    return f"cooling down after the last {what} until {render(now + timedelta(seconds=left))}" if left > 0 else ""
