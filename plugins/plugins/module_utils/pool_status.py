"""The status of a NodePool: counts, `scaleOperation`, conditions and when to look again. Pure.

It ends a run: the view is what the run began with, the plan what it did, `blocked` and `refused` what evictions met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.conditions import Condition, condition, dated
from ansible_collections.aws_operator.core.plugins.module_utils.drain import WAIT
from ansible_collections.aws_operator.core.plugins.module_utils.offerings import shown
from ansible_collections.aws_operator.core.plugins.module_utils.pool_events import events_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import (
    BOOTING,
    DRAINING,
    JOINING,
    LAUNCH_FAILED,
    LOST,
    NOT_READY,
    READY,
    TERMINATING,
    Member,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import POOL_UID_LABEL
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import PoolPlan
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import PoolView
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import age, render

SOON, LATER = 5.0, 60.0
_STANDING = (READY, NOT_READY)
_HOW_KNOWN = (
    "; bootstrap.userDataTemplate has to give the kubelet ${labels} or its provider id, or the Node has to have the "
    "machine's private address or host name"
)
_NAMED = 3
"""Refused evictions, or machines that don't join, that a message tells."""
_BOOT_TAKES = 180.0
"""Seconds after its launch in which a machine without a Node is nothing to tell."""
_ON_ITS_WAY = ("", "Pending", "StillTerminating", "Terminated")
"""What an EC2Instance says while nothing holds up the end of its machine."""


@dataclass(frozen=True, kw_only=True)
class PoolUpdate:
    """What to write."""

    status: Mapping[str, Any]
    conditions: Sequence[Mapping[str, str]]
    changed: bool
    """Whether anything but `lastCheckedAt` moves."""
    active: bool
    events: Sequence[Mapping[str, str]]
    """Type, reason and message of what a person looks for."""
    look_again: float
    """Seconds until the next run; 0 for the pool's ordinary period."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """The run, as the parts of the status see it."""

    view: PoolView
    plan: PoolPlan
    blocked: Sequence[Mapping[str, str]]
    refused: Sequence[Mapping[str, str]]
    live: Mapping[str, Any]
    """The pool as it is now: somebody may have edited it during the run."""

    @property
    def ready(self) -> int:
        """Return how many nodes are Ready and stay."""
        return sum(member.phase == READY for member in self.view.members)

    @property
    def active(self) -> bool:
        """Return whether the pool is on its way to another size, or a machine of it to or from being a node."""
        if self.view.retires:
            return False
        moving = any(member.phase not in _STANDING for member in self.view.members)
        wanted = {self.view.wanted, replace(self.view, pool=self.live).wanted}
        return moving or self.plan.scales or wanted != {len(self.view.members)}

    def failed(self) -> list[Member]:
        """Return the launches that failed for a reason that a person has to mend."""
        return [item for item in self.view.members if item.phase == LAUNCH_FAILED and not item.lacks_capacity]


def pool_update_of(
    view: PoolView,
    plan: PoolPlan,
    *,
    blocked: Sequence[Mapping[str, str]] = (),
    refused: Sequence[Mapping[str, str]] = (),
    live: Mapping[str, Any] | None = None,
) -> PoolUpdate:
    """Return the write that ends a run.

    *blocked* are evictions that budgets refused, `pod` and `message` of each, *refused* those that are refused for
    good; *live* is the pool as it is by now.
    """
    outcome = _Outcome(view=view, plan=plan, blocked=blocked, refused=refused, live=live or view.pool)
    fields = _fields(outcome)
    before = view.status.get("conditions") or []
    conditions = dated(_conditions(outcome), before=before, now=view.now)
    old = view.status
    patch = {name: value for name, value in fields.items() if (value or None) != (old.get(name) or None)}
    # A count is always there, 0 included: people and autoscalers read it.
    patch |= {name: fields[name] for name in ("currentNodes", "readyNodes") if old.get(name) != fields[name]}
    changed = bool(patch) or any(item not in before for item in conditions)
    patch["lastCheckedAt"] = render(view.now)
    return PoolUpdate(
        status=patch,
        conditions=conditions,
        changed=changed,
        active=outcome.active,
        events=events_of(plan, conditions=conditions, before=before),
        look_again=_look_again(outcome),
    )


def _fields(outcome: _Outcome) -> dict[str, Any]:
    view, plan = outcome.view, outcome.plan
    existing = [item for item in view.members if item.instance_id and item.phase != TERMINATING]
    return {
        "scaleOperation": "active" if outcome.active else "inactive",
        "currentNodes": len(existing),
        "readyNodes": outcome.ready,
        "nodes": [_node_entry(member, view) for member in view.members] or None,
        "lastScaleTime": render(view.now) if plan.scales else view.status.get("lastScaleTime"),
        "shortages": [item.entry() for item in plan.shortages] or None,
        "registrationFailures": plan.registration.failures or None,
        "lastRegistrationFailure": plan.registration.last or None,
        "terminations": list(plan.terminations) or None,
        "lastSerial": plan.serial or None,
        "selector": f"{POOL_UID_LABEL}={view.pool['metadata']['uid']}",
        "observedGeneration": view.pool["metadata"].get("generation"),
    }


def _node_entry(member: Member, view: PoolView) -> dict[str, str]:
    entry = {
        "name": member.name,
        "instanceId": member.instance_id,
        "node": member.node_name or member.last_node,
        "phase": member.phase,
        "lostSince": (member.lost_since or render(view.now)) if member.phase == LOST else "",
    }
    return {name: value for name, value in entry.items() if value}


def _conditions(outcome: _Outcome) -> list[Condition]:
    view, plan = outcome.view, outcome.plan
    going = {item.name for item in view.members if item.phase == DRAINING or item.is_lost_for_good(view.now)}
    staying = [item for item in view.members if item.phase != TERMINATING and item.name not in going]
    up = outcome.ready < view.wanted and outcome.active
    down = len(view.members) > len(staying) or len(staying) > view.wanted
    counts = f"{outcome.ready} of {view.wanted} nodes are ready{f' ({view.cut})' if view.cut else ''}"
    limit = view.spec.get("maxTerminationsPerHour")
    limited = f"{plan.held} steps wait: maxTerminationsPerHour is {limit}"
    return [
        _ready(outcome, counts),
        condition("ScalingUp", holds=up, reason="NodesMissing" if up else "EnoughNodes", message=counts),
        condition(
            "ScalingDown",
            holds=down,
            reason="NodesLeaving" if down else "NoNodesLeaving",
            message=_leaving(outcome) if down else "no node is on its way out",
        ),
        condition(
            "CapacityUnavailable",
            holds=plan.starved,
            reason="InsufficientCapacity" if plan.starved else "CapacityAvailable",
            message=_shortage(outcome) if plan.starved else "no launch of the pool waits for capacity",
        ),
        condition(
            "TerminationLimited",
            holds=plan.held > 0,
            reason="LimitReached" if plan.held else "WithinLimit",
            message=limited if plan.held else "no termination waits for maxTerminationsPerHour",
        ),
    ]


def _ready(outcome: _Outcome, counts: str) -> Condition:
    """Return the condition: what keeps the pool from being as its spec says, the gravest first."""
    found = _obstacle(outcome)
    if found:
        reason, message = found
        return condition("Ready", holds=False, reason=reason, message=f"{counts}; {message}")
    if outcome.active:
        grows = outcome.ready < outcome.view.wanted
        message = "; ".join([counts, *_not_joined(outcome)]) if grows else f"{counts}; {_leaving(outcome)}"
        return condition("Ready", holds=False, reason="ScalingUp" if grows else "ScalingDown", message=message)
    if outcome.ready < outcome.view.wanted:
        down = [item.node_name for item in outcome.view.members if item.phase == NOT_READY]
        return condition("Ready", holds=False, reason="NodesNotReady", message=f"{counts}; not: {', '.join(down)}")
    return condition("Ready", holds=True, reason="AsWanted", message=counts)


def _obstacle(outcome: _Outcome) -> tuple[str, str] | None:
    """Return what a person may have to do something about."""
    obstacle: tuple[str, str] | None = outcome.view.obstacle
    if obstacle and not outcome.view.finalizing:
        return obstacle
    failed = outcome.failed()
    if failed:
        return failed[0].failure, f"{failed[0].name}: {failed[0].message}"
    if outcome.plan.starved:
        return "CapacityUnavailable", _shortage(outcome)
    for reason, pods in (("EvictionRefused", outcome.refused), ("DrainBlocked", outcome.blocked)):
        if pods:
            return reason, _not_evicted(pods[0])
    pause = outcome.plan.registration.pause_ends()
    if pause and outcome.ready < outcome.view.wanted:
        times = outcome.plan.registration.failures
        message = f"{times} machines in a row never became a node; the next one may start at {render(pause)}"
        custom = (outcome.view.spec.get("bootstrap") or {}).get("type") == "custom"
        return "RegistrationFailed", f"{message}{_HOW_KNOWN if custom else ''}"
    return None


def _not_joined(outcome: _Outcome) -> list[str]:
    """Return what to look at for machines that run for longer than a boot takes, and are no ready Nodes."""
    now = outcome.view.now
    coming = (item for item in outcome.view.members if item.phase in {BOOTING, JOINING})
    return [_where_to_look(item) for item in coming if age(item.launched, now=now) >= _BOOT_TAKES][:_NAMED]


def _where_to_look(member: Member) -> str:
    since = f"{member.name} was launched at {member.launched}"
    if member.node:
        node = member.node_name
        return f"{since}, and its Node {node} isn't Ready yet: `kubectl describe node {node}` tells why"
    command = f"aws ec2 get-console-output --latest --output text --instance-id {member.instance_id}"
    return f"{since} and is no Node yet: `{command}` shows its boot"


def _not_evicted(item: Mapping[str, str]) -> str:
    return f"{item.get('pod', '')} can't be evicted: {item.get('message', '')}"


def _shortage(outcome: _Outcome) -> str:
    tried = [f"{shown(item.offering)} (again at {render(item.until)})" for item in outcome.plan.shortages]
    return f"AWS has no capacity for {', '.join(tried)}"


def _leaving(outcome: _Outcome) -> str:
    """Return which nodes go, and what each still waits for."""
    parts = []
    for member in outcome.view.members:
        step = outcome.plan.steps.get(member.name)
        if member.phase == TERMINATING:
            parts.append(f"{member.name} is terminating{_held_by(member)}")
        elif step and member.phase == DRAINING:
            parts.append(f"{member.node_name} is draining, {step.why}")
        elif step and member.phase == LOST:
            parts.append(f"the Node {member.last_node} of {member.name} is gone, {step.why}")
        elif step and step.kind == WAIT:
            parts.append(f"{member.name} waits: {step.why}")
    return "; ".join([*parts, *map(_not_evicted, outcome.refused[:_NAMED])]) or "more nodes than wanted"


def _held_by(member: Member) -> str:
    """Return why AWS doesn't end the machine, as its EC2Instance says: termination protection, a right that lacks."""
    return "" if member.obstacle in _ON_ITS_WAY else f" ({member.obstacle}: see EC2Instance {member.name})"


def _look_again(outcome: _Outcome) -> float:
    """Return when nothing but time may change what there is to do: soon while things move, later while AWS refuses."""
    if not outcome.active:
        return 0.0
    stuck = outcome.plan.starved or bool(outcome.failed() or outcome.view.obstacle or outcome.plan.waits)
    return LATER if stuck and not outcome.plan.scales else SOON
