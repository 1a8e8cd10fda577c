"""The Events of one run of a NodePool: what it did, and what keeps it from its target since now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import PoolPlan
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import (
    CORDON,
    CREATE,
    DELETE,
    DELETE_NODE,
    UNCORDON,
    Action,
)

_TOLD = {
    CREATE: ("ScalingUp", "asks for"),
    CORDON: ("Cordoned", "cordoned"),
    UNCORDON: ("Uncordoned", "took back the cordon of"),
    DELETE: ("Terminating", "terminates"),
    DELETE_NODE: ("NodeRemoved", "removed the Node"),
}
_ORDINARY = ("AsWanted", "ScalingUp", "ScalingDown")
_NAMED = 5


def events_of(
    plan: PoolPlan, *, conditions: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the Events, one for each reason; *conditions* are the new ones, *before* those of the last run."""
    done = [_event(kind, [item for item in plan.actions if item.kind == kind]) for kind in _TOLD]
    return [*(event for event in done if event), *_turned(conditions, before)]


def _event(kind: str, actions: Sequence[Action]) -> dict[str, str] | None:
    if not actions:
        return None
    reason, verb = _TOLD[kind]
    named = [f"{item.name} ({item.why})" for item in actions[:_NAMED]]
    more = [f"{len(actions) - _NAMED} more"] if len(actions) > _NAMED else []
    return {"type": "Normal", "reason": reason, "message": f"{verb} {', '.join([*named, *more])}"}


def _turned(conditions: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return what is told because `Ready` has another reason than before."""
    ready: Mapping[str, Any] = next((item for item in conditions if item["type"] == "Ready"), {})
    old: Mapping[str, Any] = next((item for item in before if item.get("type") == "Ready"), {})
    reason = str(ready.get("reason") or "")
    if reason in {old.get("reason"), "ScalingUp", "ScalingDown"} or (reason == "AsWanted" and not old):
        return []
    kind = "Normal" if reason in _ORDINARY else "Warning"
    return [{"type": kind, "reason": reason, "message": str(ready.get("message") or "")}]
