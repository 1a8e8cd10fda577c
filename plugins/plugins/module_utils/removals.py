"""Which of a pool's machines go, one step each, and the brake on terminations. Pure; a part of the pool's plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils import drain
from ansible_collections.aws_operator.core.plugins.module_utils.places import is_ready, place_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import DRAINING, TERMINATING, Member
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import REMOVING, removing_since
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

HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is done about the machines that there are too many of."""

    actions: Sequence[Action]
    staying: Sequence[Member]


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
    draining = [item for item in alive if item.phase == DRAINING]
    chosen = alive if len(alive) - len(draining) > view.wanted else draining
    return [item.node_name for item in chosen if item.node_name]


def remove(view: PoolView, *, given_up: Collection[str]) -> Removal:
    """Go on with removals that began, and begin as many as needed; members that are *given_up* are somebody else's."""
    alive = [item for item in view.members if item.phase != TERMINATING and item.name not in given_up]
    going = [item for item in alive if item.phase == DRAINING]
    staying = [item for item in alive if item.phase != DRAINING]
    surplus = len(staying) - view.wanted
    back = _called_back(going, number=-surplus)
    chosen = _victims(view, staying, number=surplus, allowed=_allowed(view, going))
    going = [item for item in [*going, *chosen] if item not in back]
    steps = [_step(view, item) for item in going]
    return Removal(
        actions=[*map(_uncordon, back), *(step for step in steps if step)],
        staying=[item for item in alive if item not in going],
    )


def brake(view: PoolView, actions: Iterable[Action]) -> Braked:
    """Let through what the limit allows; a drain only begins where its termination would be allowed now."""
    recent = _recent(view)
    asked = list(actions)
    limit = int(view.spec.get("maxTerminationsPerHour") or 0)
    allowed = max(0, limit - len(recent)) if limit else len(asked)
    ended = [item for item in asked if item.is_termination][:allowed]
    names = {item.name for item in ended}
    begun = sum(item.phase == DRAINING and item.name not in names for item in view.members)
    room = max(0, allowed - len(ended) - begun) if limit else len(asked)
    cordoned = [item for item in asked if item.kind == CORDON][:room]
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


def _step(view: PoolView, member: Member) -> Action | None:
    step = drain.next_step(member.node, view.pods, spec=view.spec, now=view.now)
    if step.kind == drain.TERMINATE:
        if member.node is not None and not view.pods_read:
            return None
        return delete_action(member, why=step.why)
    if step.kind == drain.CORDON:
        since = (removing_since(member.node) if member.node else "") or render(view.now)
        body = {"metadata": {"annotations": {REMOVING: since}}, "spec": {"unschedulable": True}}
        return Action(kind=CORDON, name=member.node_name, why=step.why, body=body)
    if step.kind == drain.EVICT:
        pods = [_reference(pod) for pod in step.pods]
        return Action(kind=EVICT, name=member.node_name, why=step.why, pods=pods)
    return None


def _reference(pod: Mapping[str, Any]) -> dict[str, str]:
    meta = pod["metadata"]
    return {"namespace": meta.get("namespace") or "default", "name": meta["name"], "uid": meta.get("uid") or ""}


def _uncordon(member: Member) -> Action:
    body: Mapping[str, Any] = {"metadata": {"annotations": {REMOVING: None}}, "spec": {"unschedulable": None}}
    return Action(kind=UNCORDON, name=member.node_name, why="the pool has to have it after all", body=body)
