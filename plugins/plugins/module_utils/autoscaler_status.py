"""An evaluation told to people: an Autoscaler's status, its `Ready`, and the Events of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.autoscaler_view import AutoscalerView, Decision
from ansible_collections.aws_operator.core.plugins.module_utils.conditions import Condition, condition, cut
from ansible_collections.aws_operator.core.plugins.module_utils.packing import Packing
from ansible_collections.aws_operator.core.plugins.module_utils.promises import Promise
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

_DECISIONS_KEPT = 10
_PODS_TOLD = 50
_BROKEN_TOLD = 3
_MOVES_ALWAYS = ("lastEvaluationTime", "lastCheckedAt")


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What an evaluation found."""

    packing: Packing
    unneeded: Mapping[str, str]
    """By node: since when it isn't needed."""
    pending: int
    decisions: Sequence[Decision]
    unclear: Mapping[str, str]
    """By pool: why nobody knows what its nodes offer."""
    promises: Sequence[Promise] = ()
    refused_launches: Mapping[str, str] = field(default_factory=dict)
    """By pool: which machines AWS refuses for good, and why."""

    def told(self, view: AutoscalerView) -> list[Decision]:
        """Return the decisions of the whole run that are news: written ones, and dry ones that weren't told yet."""
        if view.is_dry:
            return [item for item in self.decisions if not _is_old(item, view.status)]
        return [*view.made, *(item for item in self.decisions if item["pool"] not in view.refused)]


def status_of(view: AutoscalerView, findings: Findings) -> dict[str, Any]:
    """Return the fields to write; None takes one away."""
    now = render(view.facts.now)
    left = [item for item in findings.packing.verdicts if item.outcome in {"LeftOut", "Waits"}]
    told = findings.told(view)
    status: dict[str, Any] = {
        "lastEvaluationTime": now,
        "lastCheckedAt": now,
        "pendingPods": findings.pending,
        "unschedulablePods": findings.packing.unschedulable,
        "leftOutPods": [{"pod": item.pod, "reason": cut(item.reason)} for item in left][:_PODS_TOLD] or None,
        "unneededNodes": [{"node": name, "since": since} for name, since in sorted(findings.unneeded.items())] or None,
        "grownFor": [item.entry() for item in findings.promises] or None,
        "catalogue": view.catalogue.entry(view.claimed()),
        "observedGeneration": view.obj["metadata"].get("generation"),
    }
    if told:
        status["lastDecision"] = ", ".join(f"{item['pool']} {item['from']} -> {item['to']}" for item in told)
        status["decisions"] = [*(view.status.get("decisions") or []), *told][-_DECISIONS_KEPT:]
    if any(item["to"] > item["from"] for item in told if not item.get("dryRun")):
        status["lastScaleUpTime"] = now
    if any(item["to"] < item["from"] for item in told if not item.get("dryRun")):
        status["lastScaleDownTime"] = now
    return status


def is_changed(view: AutoscalerView, status: Mapping[str, Any], *, conditions: Sequence[Mapping[str, str]]) -> bool:
    """Return whether more than the times of an evaluation moves."""
    moved = [
        name
        for name, value in status.items()
        if name not in _MOVES_ALWAYS and (value or None) != (view.status.get(name) or None)
    ]
    kept = view.status.get("conditions") or []
    return bool(moved) or any(item not in kept for item in conditions)


def ready_of(view: AutoscalerView, findings: Findings) -> Condition:
    """Return what keeps the Autoscaler from deciding about its pools, the gravest first."""
    for reason, message in (
        ("ScaleRefused", _by_pool(view.refused)),
        ("NodePoolNotFound", _missing(view)),
        ("NodePoolClaimed", "; ".join(f"pool {name} is the Autoscaler {by}'s" for name, by in view.taken().items())),
        ("NoNodePools", "" if view.claimed() else "no NodePool of this namespace is selected"),
        *((trouble.reason, f"pool {trouble.pool}: {trouble.message}") for trouble in view.catalogue.troubles),
        ("LaunchRefused", _by_pool(findings.refused_launches)),
        ("CapacityUnknown", _by_pool(findings.unclear)),
        ("GrowthDidNotHelp", _broken(findings.promises)),
    ):
        if message:
            return condition("Ready", holds=False, reason=reason, message=message)
    names = ", ".join(sorted(str(pool["metadata"]["name"]) for pool in view.claimed()))
    told = "" if not view.is_dry else "; with dryRun off it would scale " + (_moves(findings) or "nothing")
    message = f"it decides about {names}{told}{_left_out(findings)}"
    return condition("Ready", holds=True, reason="Evaluated", message=message)


def _left_out(findings: Findings) -> str:
    """Return for which pods no pool can grow, and why: the first one, and how many more there are."""
    left = [item for item in findings.packing.verdicts if item.outcome == "LeftOut"]
    if not left:
        return ""
    more = f", and for {len(left) - 1} more (status.leftOutPods)" if len(left) > 1 else ""
    return f"; it does nothing for {left[0].pod} ({cut(left[0].reason)}){more}"


def _by_pool(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"pool {name}: {why}" for name, why in sorted(reasons.items()))


def _broken(promises: Sequence[Promise]) -> str:
    """Return which growth was in vain, and what ends that."""
    told = [
        f"pool {item.pool} was grown for {item.pod}, and {item.unfit}"
        for item in promises
        if item.unfit and item.is_waited_for
    ]
    more = f"; and {len(told) - _BROKEN_TOLD} more" if len(told) > _BROKEN_TOLD else ""
    end = "; it isn't grown for such pods again until they, or the pool's spec, are changed"
    return f"{'; '.join(told[:_BROKEN_TOLD])}{more}{end}" if told else ""


def _moves(findings: Findings) -> str:
    return "; ".join(
        f"{item['pool']} from {item['from']} to {item['to']} ({item['why']})" for item in findings.decisions
    )


def events_of(view: AutoscalerView, findings: Findings, *, ready: Condition) -> list[dict[str, str]]:
    """Return the Events: each decision that is news, and why the Autoscaler can't decide where that is."""
    events = [_event(item) for item in findings.told(view)]
    known = any(
        item.get("type") == "Ready" and item.get("reason") == ready.reason
        for item in view.status.get("conditions") or []
    )
    if ready.status != "True" and not known:
        events.append({"type": "Warning", "reason": ready.reason, "message": ready.message})
    return events


def _event(decision: Decision) -> dict[str, str]:
    move = f"pool {decision['pool']} from {decision['from']} to {decision['to']}: {decision['why']}"
    if decision.get("dryRun"):
        return {"type": "Normal", "reason": "DryRun", "message": f"would scale {move}"}
    grows = decision["to"] > decision["from"]
    return {"type": "Normal", "reason": "ScaledUp" if grows else "ScaledDown", "message": f"scaled {move}"}


def _is_old(decision: Decision, status: Mapping[str, Any]) -> bool:
    """Return whether the last decision about the pool was the same: a dry one isn't told at every evaluation."""
    mine = [item for item in status.get("decisions") or [] if item.get("pool") == decision["pool"]]
    return bool(mine) and all(mine[-1].get(key) == decision.get(key) for key in ("from", "to", "dryRun"))


def _missing(view: AutoscalerView) -> str:
    found = {pool["metadata"]["name"] for pool in view.pools}
    missing = sorted(set(view.spec.get("nodePools") or []) - found)
    return f"there is no NodePool {', '.join(missing)} in this namespace" if missing else ""
