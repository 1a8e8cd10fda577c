"""One evaluation of an Autoscaler: object, pools, nodes and pods in; targets to write and status out. Pure.

The role reads, asks here, writes NodePool's scale subresource where a target differs, and writes the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.conditions import Condition, condition, dated
from ansible_collections.aws_operator.core.plugins.module_utils.durations import seconds
from ansible_collections.aws_operator.core.plugins.module_utils.packing import Decision, Limits, Packing, pack
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Pod
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Facts, Pool, places_of, pool_of
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import matches_labels
from ansible_collections.aws_operator.core.plugins.module_utils.shrinking import Shrinking, Thrift, cooling, shrink
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

_DECISIONS_KEPT = 10
_PODS_TOLD = 50


@dataclass(frozen=True, kw_only=True)
class AutoscalerView:
    """What is known at the start of an evaluation."""

    obj: Mapping[str, Any]
    pools: Sequence[Mapping[str, Any]]
    """The NodePools of the Autoscaler's namespace."""
    pods: Sequence[Pod]
    """All pods: those that wait and those that take room."""
    facts: Facts
    volumes: Volumes = field(default_factory=Volumes)

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return the object's spec."""
        return self.obj.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the object's status as of the start of the evaluation."""
        return self.obj.get("status") or {}

    def claimed(self) -> list[Mapping[str, Any]]:
        """Return the pools that the Autoscaler decides about; never one that is being deleted."""
        names, selector = set(self.spec.get("nodePools") or []), self.spec.get("nodePoolSelector")
        return [
            pool
            for pool in self.pools
            if (pool["metadata"]["name"] in names or matches_labels(selector, pool["metadata"].get("labels") or {}))
            and not pool["metadata"].get("deletionTimestamp")
        ]

    def pending(self) -> list[Pod]:
        """Return the pending pods of the named namespaces."""
        namespaces = set(self.spec.get("namespaces") or [])
        return [
            pod
            for pod in self.pods
            if pod["metadata"].get("namespace") in namespaces and (pod.get("status") or {}).get("phase") == "Pending"
        ]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What to do, and what to write."""

    targets: Sequence[Mapping[str, Any]]
    """The scale writes: pool, from, to and why; empty with `dryRun`."""
    status: Mapping[str, Any]
    conditions: Sequence[Mapping[str, str]]


def evaluate(view: AutoscalerView) -> Evaluation:
    """Decide."""
    objects = view.claimed()
    pools = [pool_of(obj, view.facts) for obj in objects]
    pending = view.pending()
    places = places_of(view.facts, view.pods, pools=objects)
    packing: Packing = pack(pending, pools=pools, places=places, volumes=view.volumes, limits=_limits(view))
    shrinking: Shrinking = shrink(
        packing,
        pools=pools,
        now=view.facts.now,
        since={item["node"]: item["since"] for item in view.status.get("unneededNodes") or []},
        thrift=_thrift(view),
        volumes=view.volumes,
    )
    decisions = [
        _merged(pool, packing, shrinking=shrinking) for pool in pools if shrinking.targets[pool.name] != pool.target
    ]
    entries = [_entry(item, view) for item in decisions]
    dry = bool(view.spec.get("dryRun"))
    return Evaluation(
        targets=[] if dry else entries,
        status=_status(view, packing, unneeded=shrinking.unneeded, decisions=entries) | {"pendingPods": len(pending)},
        conditions=dated([_ready(view, decisions)], before=view.status.get("conditions") or [], now=view.facts.now),
    )


def _limits(view: AutoscalerView) -> Limits:
    up = view.spec.get("scaleUp") or {}
    last, pause = view.status.get("lastScaleUpTime"), seconds(up.get("cooldown"))
    paused = cooling(what="scale-up", last=last, seconds=pause, now=view.facts.now)
    return Limits(max_nodes_per_step=int(up.get("maxNodesPerStep") or 0), paused=paused)


def _thrift(view: AutoscalerView) -> Thrift:
    """Return the rules of shrinking; a growth starts the cooldown too, or nodes would come and go."""
    down, default = view.spec.get("scaleDown") or {}, Thrift()
    pause = seconds(down.get("cooldown"))
    waits = [
        cooling(what=what, last=view.status.get(name), seconds=pause, now=view.facts.now)
        for what, name in (("scale-up", "lastScaleUpTime"), ("scale-down", "lastScaleDownTime"))
    ]
    return Thrift(
        enabled=bool(down.get("enabled", True)),
        utilization_threshold=_share(down.get("utilizationThreshold"), default=default.utilization_threshold),
        unneeded_for=seconds(down.get("unneededFor"), default=default.unneeded_for),
        paused="; ".join(item for item in waits if item),
    )


def _share(given: Any, *, default: float) -> float:
    """Return a percentage (50) as a share."""
    return default if given is None else float(given) / 100


def _merged(pool: Pool, packing: Packing, *, shrinking: Shrinking) -> Decision:
    """Return the one decision about a pool; its reasons are those of both halves."""
    found = [item for item in [*packing.decisions, *shrinking.decisions] if item.pool == pool.name]
    why = "; ".join(item.why for item in found)
    return Decision(pool=pool.name, before=pool.target, after=shrinking.targets[pool.name], why=why)


def _entry(decision: Decision, view: AutoscalerView) -> dict[str, Any]:
    entry = {
        "time": render(view.facts.now),
        "pool": decision.pool,
        "from": decision.before,
        "to": decision.after,
        "why": decision.why,
    }
    return {**entry, "dryRun": True} if view.spec.get("dryRun") else entry


def _status(
    view: AutoscalerView,
    packing: Packing,
    *,
    unneeded: Mapping[str, str],
    decisions: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    now = render(view.facts.now)
    left = [item for item in packing.verdicts if item.outcome in {"LeftOut", "Waits"}]
    made = [] if view.spec.get("dryRun") else decisions
    status: dict[str, Any] = {
        "lastEvaluationTime": now,
        "unschedulablePods": packing.unschedulable,
        "leftOutPods": [{"pod": item.pod, "reason": item.reason} for item in left][:_PODS_TOLD] or None,
        "unneededNodes": [{"node": name, "since": since} for name, since in sorted(unneeded.items())] or None,
        "observedGeneration": view.obj["metadata"].get("generation"),
    }
    if decisions:
        status["lastDecision"] = ", ".join(f"{item['pool']} {item['from']} -> {item['to']}" for item in decisions)
        status["decisions"] = [*(view.status.get("decisions") or []), *decisions][-_DECISIONS_KEPT:]
    if any(item["to"] > item["from"] for item in made):
        status["lastScaleUpTime"] = now
    if any(item["to"] < item["from"] for item in made):
        status["lastScaleDownTime"] = now
    return status


def _ready(view: AutoscalerView, decisions: Iterable[Decision]) -> Condition:
    found = {pool["metadata"]["name"] for pool in view.pools}
    missing = sorted(set(view.spec.get("nodePools") or []) - found)
    if missing:
        message = f"there is no NodePool {', '.join(missing)} in this namespace"
        return condition("Ready", holds=False, reason="NodePoolNotFound", message=message)
    if not view.claimed():
        message = "no NodePool of this namespace is selected"
        return condition("Ready", holds=False, reason="NoNodePools", message=message)
    said = "; ".join(f"{item.pool} from {item.before} to {item.after} ({item.why})" for item in decisions)
    return condition("Ready", holds=True, reason="Evaluated", message=said or "no pool has to change")
