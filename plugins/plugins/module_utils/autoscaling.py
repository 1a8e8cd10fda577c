"""One evaluation of an Autoscaler: object, pools, nodes and pods in; targets to write and status out. Pure.

The role reads, asks here, writes NodePool's scale subresource where a target differs, and asks again for the status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils import packing as growing
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaler_status import (
    Findings,
    events_of,
    is_changed,
    ready_of,
    status_of,
)
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaler_view import AutoscalerView, Decision
from ansible_collections.aws_operator.core.plugins.module_utils.conditions import dated
from ansible_collections.aws_operator.core.plugins.module_utils.durations import seconds
from ansible_collections.aws_operator.core.plugins.module_utils.packing import Limits, Packing, pack
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import lodged
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Pool, places_of, pool_of
from ansible_collections.aws_operator.core.plugins.module_utils.promises import (
    Promise,
    judged,
    promises_of,
    renewed,
)
from ansible_collections.aws_operator.core.plugins.module_utils.shrinking import Shrinking, Thrift, cooling, shrink
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

__all__ = ["AutoscalerView", "Evaluation", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What to do, and what to write."""

    targets: Sequence[Decision]
    """The scale writes: pool, from, to and why; empty with `dryRun`."""
    status: Mapping[str, Any]
    conditions: Sequence[Mapping[str, str]]
    events: Sequence[Mapping[str, str]]
    changed: bool
    """Whether more than the times of an evaluation moves in the status."""
    made: Sequence[Decision]
    """What this run has written by now, where every target that isn't refused was."""


def evaluate(view: AutoscalerView) -> Evaluation:
    """Decide."""
    findings = _find(view)
    ready = ready_of(view, findings)
    status = status_of(view, findings)
    conditions = dated([ready], before=view.status.get("conditions") or [], now=view.facts.now)
    return Evaluation(
        targets=[] if view.is_dry else findings.decisions,
        status=status,
        conditions=conditions,
        events=events_of(view, findings, ready=ready),
        changed=is_changed(view, status, conditions=conditions),
        made=[] if view.is_dry else findings.told(view),
    )


def _find(view: AutoscalerView) -> Findings:
    objects = view.claimed()
    facts = replace(view.facts, lodged=lodged(view.pods))
    pools = [pool_of(obj, facts) for obj in objects]
    pending = view.pending()
    places = places_of(facts, view.pods, pools=objects)
    known = _promises(view, pools=pools, places=places)
    packing: Packing = pack(
        pending,
        pools=pools,
        places=places,
        volumes=view.volumes,
        limits=_limits(view),
        broken={(item.pool, item.likeness): item.unfit for item in known if item.unfit},
    )
    shrinking: Shrinking = shrink(
        packing,
        pools=pools,
        now=view.facts.now,
        since={item["node"]: item["since"] for item in view.status.get("unneededNodes") or []},
        thrift=_thrift(view),
        volumes=view.volumes,
        budgets=view.budgets,
    )
    decided = [
        _merged(pool, packing, shrinking=shrinking) for pool in pools if shrinking.targets[pool.name] != pool.target
    ]
    return Findings(
        packing=packing,
        unneeded=shrinking.unneeded,
        pending=len(pending),
        decisions=[_entry(item, view) for item in decided],
        unclear={pool.name: pool.unclear for pool in pools if pool.unclear},
        promises=renewed(known, _promised(view, packing, pools=pools)),
        refused_launches={pool.name: pool.refused for pool in pools if pool.refused},
    )


def _promises(view: AutoscalerView, *, pools: Sequence[Pool], places: Sequence[Place]) -> list[Promise]:
    """Return for which pods nodes were coming before, and what has become of it."""
    kept = promises_of(view.status)
    guests = growing.waiting(view.pending(), view.volumes)[0] if kept else []
    revisions = {pool.name: pool.revision for pool in pools}
    found: list[Promise] = judged(
        kept, guests=guests, revisions=revisions, places=places, volumes=view.volumes, now=view.facts.now
    )
    return found


def _promised(view: AutoscalerView, packing: Packing, *, pools: Sequence[Pool]) -> list[Promise]:
    """Return for which pods nodes are coming now, whoever asked for them, so that no crash or second round loses it."""
    revisions = {pool.name: pool.revision for pool in pools}
    return [
        Promise(
            pool=item.pool,
            likeness=item.likeness,
            pod=item.pod,
            since=render(view.facts.now),
            revision=revisions[item.pool],
        )
        for item in reversed(packing.verdicts)
        if item.outcome == "Coming" or (item.outcome == "Grows" and not view.is_dry and item.pool not in view.refused)
    ]


def _limits(view: AutoscalerView) -> Limits:
    up = view.spec.get("scaleUp") or {}
    most = int(up.get("maxNodesPerStep") or 0)
    added = sum(max(0, item["to"] - item["from"]) for item in view.made)
    if most and added >= most:
        return Limits(paused=f"this evaluation already adds {most} nodes (maxNodesPerStep); the next one goes on")
    last, pause = view.status.get("lastScaleUpTime"), seconds(up.get("cooldown"))
    paused = cooling(what="scale-up", last=last, seconds=pause, now=view.facts.now)
    return Limits(max_nodes_per_step=most and most - added, paused=paused)


def _thrift(view: AutoscalerView) -> Thrift:
    """Return the rules of shrinking; a growth starts the cooldown too, or nodes would come and go."""
    down, default = view.spec.get("scaleDown") or {}, Thrift()
    pause = seconds(down.get("cooldown"))
    waits = [
        cooling(what=what, last=view.status.get(name), seconds=pause, now=view.facts.now)
        for what, name in (("scale-up", "lastScaleUpTime"), ("scale-down", "lastScaleDownTime"))
    ]
    if view.made:
        waits.append("this evaluation has changed a pool already")
    return Thrift(
        enabled=bool(down.get("enabled", True)),
        utilization_threshold=_share(down.get("utilizationThreshold"), default=default.utilization_threshold),
        unneeded_for=seconds(down.get("unneededFor"), default=default.unneeded_for),
        paused="; ".join(item for item in waits if item),
    )


def _share(given: Any, *, default: float) -> float:
    """Return a percentage (50) as a share."""
    return default if given is None else float(given) / 100


def _merged(pool: Pool, packing: Packing, *, shrinking: Shrinking) -> growing.Decision:
    """Return the one decision about a pool; its reasons are those of both halves."""
    found = [item for item in [*packing.decisions, *shrinking.decisions] if item.pool == pool.name]
    why = "; ".join(item.why for item in found)
    return growing.Decision(pool=pool.name, before=pool.target, after=shrinking.targets[pool.name], why=why)


def _entry(decision: growing.Decision, view: AutoscalerView) -> dict[str, Any]:
    entry = {
        "time": render(view.facts.now),
        "pool": decision.pool,
        "from": decision.before,
        "to": decision.after,
        "why": decision.why,
    }
    return {**entry, "dryRun": True} if view.is_dry else entry
