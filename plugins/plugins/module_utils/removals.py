"""Which of a pool's machines go, one step each, and the brake on terminations. Pure; a part of the pool's plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils import drain
from ansible_collections.aws_operator.core.plugins.module_utils.places import Node, is_ready, place_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import DRAINING, LOST, TERMINATING, Member
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import (
    EVICTING,
    REMOVING,
    evicting_since,
    removing_since,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import (
    CORDON,
    EVICT,
    UNCORDON,
    Action,
    PoolView,
    delete_action,
)
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, render
from ansible_collections.aws_operator.core.plugins.module_utils.victims import Candidate, candidate_of, in_order

_OWED = timedelta(seconds=30)
"""What pods that came while a cordon was off have for their eviction, at the least; runs of a drain come more often."""

HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is done about the machines that there are too many of."""

    actions: Sequence[Action]
    staying: Sequence[Member]
    steps: Mapping[str, drain.Step]
    """The step of each machine that goes, by its name."""


@dataclass(frozen=True, kw_only=True)
class Braked:
    """What is left of actions under `maxTerminationsPerHour`."""

    actions: Sequence[Action]
    terminations: Sequence[Mapping[str, str]]
    """Name and time of the terminations within the last hour, those of this run included."""
    held: int
    """Actions that wait."""


def looks_at_pods(view: PoolView) -> list[str]:
    """Return the nodes whose pods decide what goes, empty where nothing does."""
    alive = [item for item in view.members if item.phase != TERMINATING]
    draining = [item for item in alive if _is_going(view, item)]
    chosen = alive if len(alive) - len(draining) > view.wanted else draining
    names = [item.node_name or item.last_node for item in chosen]
    return [name for name in names if name]


def remove(view: PoolView, *, given_up: Collection[str]) -> Removal:
    """Go on with removals that began, and begin as many as needed; members that are *given_up* are somebody else's."""
    alive = [item for item in view.members if item.phase != TERMINATING and item.name not in given_up]
    going = [item for item in alive if _is_going(view, item)]
    staying = [item for item in alive if item not in going]
    surplus = len(staying) - view.wanted
    back = _called_back(going, number=-surplus)
    chosen = _victims(view, staying, number=surplus, allowed=_allowed(view, going))
    going = [item for item in [*going, *chosen] if item not in back]
    steps = {item.name: _next_step(view, item) for item in going}
    actions = [_action(view, item, step=steps[item.name]) for item in going]
    return Removal(
        actions=[*map(_uncordon, back), *(action for action in actions if action)],
        staying=[item for item in alive if item not in going],
        steps=steps,
    )


def _is_going(view: PoolView, member: Member) -> bool:
    return bool(member.phase == DRAINING or member.is_lost_for_good(view.now))


def brake(view: PoolView, actions: Iterable[Action]) -> Braked:
    """Let through what the limit allows; a drain only begins where its termination would be allowed now."""
    recent = _recent(view)
    asked = list(actions)
    limit = int(view.spec.get("maxTerminationsPerHour") or 0)
    allowed = max(0, limit - len(recent)) if limit else len(asked)
    ended = [item for item in asked if item.is_termination][:allowed]
    names = {item.name for item in ended}
    begun = [item for item in view.members if item.phase == DRAINING and item.name not in names]
    room = max(0, allowed - len(ended) - len(begun)) if limit else len(asked)
    # A drain that has begun is counted already: its Node, if somebody took the cordon off, is cordoned again.
    again = {item.node_name for item in begun}
    new = [item for item in asked if item.kind == CORDON and item.name not in again][:room]
    cordoned = [*new, *(item for item in asked if item.kind == CORDON and item.name in again)]
    passed = [item for item in asked if item in ended or item in cordoned or not _is_braked(item)]
    now = [{"name": item.name, "time": render(view.now)} for item in ended]
    return Braked(actions=passed, terminations=[*recent, *now], held=len(asked) - len(passed))


def _is_braked(action: Action) -> bool:
    return bool(action.is_termination or action.kind == CORDON)


def _recent(view: PoolView) -> list[Mapping[str, str]]:
    """Return the terminations of the last hour: as the status remembers them, and as they're seen under way."""
    kept = {item["name"]: item for item in view.status.get("terminations") or [] if item.get("name")}
    for member in view.members:
        if member.phase == TERMINATING and member.instance_id:
            kept.setdefault(member.name, {"name": member.name, "time": member.obj["metadata"]["deletionTimestamp"]})
    return [item for _, item in sorted(kept.items()) if age(item.get("time"), now=view.now) < HOUR]


def _called_back(going: Iterable[Member], *, number: int) -> list[Member]:
    """Return the nodes to keep after all, where the pool has to have more again: the ones that were marked last."""
    usable = [item for item in going if item.node and is_ready(item.node)]
    latest = sorted(usable, key=lambda item: (removing_since(item.node), item.name), reverse=True)
    return latest[: max(0, number)]


def _allowed(view: PoolView, going: Iterable[Member]) -> int:
    """Return how many more Ready nodes may be drained at the same time."""
    draining = sum(bool(item.node and is_ready(item.node)) for item in going)
    return max(0, int(view.spec.get("maxUnavailable") or 1) - draining)


def _victims(view: PoolView, staying: Sequence[Member], *, number: int, allowed: int) -> list[Member]:
    """Return the newest unready first, then the least loaded, and no more Ready ones than may be missing at once."""
    if number <= 0:
        return []
    by_name = {member.name: member for member in staying}
    order = [by_name[item.name] for item in in_order(_candidate(view, member) for member in staying)]
    wanted = order[:number]
    ready = [member for member in wanted if member.node and is_ready(member.node)]
    return [member for member in wanted if member not in ready] + ready[:allowed]


def _candidate(view: PoolView, member: Member) -> Candidate:
    if member.node is None:
        return Candidate(name=member.name, is_ready=False, created=member.created)
    seen = candidate_of(place_of(member.node, pods=view.pods))
    return Candidate(name=member.name, is_ready=seen.is_ready, created=seen.created, load=seen.load, keeps=seen.keeps)


def _next_step(view: PoolView, member: Member) -> drain.Step:
    """Return the step; a machine that may be a Node without our knowledge waits."""
    was_node = bool(member.node) or member.phase == LOST
    if was_node and not view.pods_read:
        step = drain.Step(kind=drain.WAIT, why="its pods weren't read")
    elif member.node is not None:
        step = drain.next_step(member.node, view.pods, spec=view.spec, now=view.now)
    elif member.phase == LOST:
        step = drain.step_without_node(member.last_node, view.pods, now=view.now)
    elif view.may_be_a_node(member):
        step = drain.Step(kind=drain.WAIT, why="AWS was asked for it, and its instance id isn't known yet")
    else:
        step = drain.Step(kind=drain.TERMINATE, why="it never became a node")
    return step


def _action(view: PoolView, member: Member, *, step: drain.Step) -> Action | None:
    if step.kind == drain.TERMINATE:
        return delete_action(member, why=step.why)
    if step.kind == drain.CORDON and member.node:
        return Action(kind=CORDON, name=member.node_name, why=step.why, body=_cordon(view, member.node))
    if step.kind == drain.EVICT:
        pods = [_reference(pod) for pod in step.pods]
        first = member.node is not None and not evicting_since(member.node)
        body = {"metadata": {"annotations": {EVICTING: render(view.now)}}} if first else {}
        return Action(kind=EVICT, name=member.node_name or member.last_node, why=step.why, pods=pods, body=body)
    return None


def _cordon(view: PoolView, node: Node) -> dict[str, Any]:
    """Return the patch: a drain that goes on keeps its times, but for a time that is over or nearly so.

    Pods that came while the cordon was off are owed an eviction before anything ends them.
    """
    marks: dict[str, str | None] = {REMOVING: removing_since(node) or render(view.now)}
    asked = evicting_since(node)
    if asked and (not removing_since(node) or drain.is_overdue(asked, spec=view.spec, now=view.now + _OWED)):
        marks[EVICTING] = None
    return {"metadata": {"annotations": marks}, "spec": {"unschedulable": True}}


def _reference(pod: Mapping[str, Any]) -> dict[str, str]:
    meta = pod["metadata"]
    return {"namespace": meta.get("namespace") or "default", "name": meta["name"], "uid": meta.get("uid") or ""}


def _uncordon(member: Member) -> Action:
    marks = {REMOVING: None, EVICTING: None}
    body: Mapping[str, Any] = {"metadata": {"annotations": marks}, "spec": {"unschedulable": None}}
    return Action(kind=UNCORDON, name=member.node_name, why="the pool has to have it after all", body=body)
