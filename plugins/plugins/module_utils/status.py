"""The status of an EC2Instance object: its fields and `Ready`; `updates` makes the smallest patch of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.failures import Failure
from ansible_collections.aws_operator.core.plugins.module_utils.instances import Drift, Instance, state_of
from ansible_collections.aws_operator.core.plugins.module_utils.plan import Plan, View
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import normal, render
from ansible_collections.aws_operator.core.plugins.module_utils.updates import Ready, Update, update

_MOVING = ("pending", "stopping", "shutting-down", "")


def update_of(view: View, plan: Plan, *, instance: Instance) -> Update:
    """Return the write that ends a run; *instance* is as the run left it."""
    ready = ready_of(view, plan, instance=instance)
    settled = plan.phase in ("Present", "Hold") and state_of(instance) not in _MOVING and not _acted(plan)
    return _update(
        view, fields=_fields(view, plan, instance=instance), ready=ready, settled=settled or plan.phase == "Hold"
    )


def failed_update_of(view: View, failure: Failure, *, plan: Plan | None) -> Update:
    """Return the write that ends a run early; a spent client token moves the attempt on."""
    fields: dict[str, Any] = {}
    if failure.error_code == "IdempotentInstanceTerminated" and plan is not None:
        fields = {"launchAttempt": plan.attempt + 1, "missingSince": None}
    if failure.error_code == "IdempotentParameterMismatch":
        fields = {"missingSince": view.status.get("missingSince") or render(view.now)}
    ready = Ready(status="False", reason=failure.reason, message=failure.message)
    return _update(view, fields=fields, ready=ready, settled=False, checked=False)


def waiting_update_of(view: View, *, reason: str, message: str) -> Update:
    """Return the write of a finalizer that has to look again."""
    return _update(view, fields={}, ready=Ready(status="False", reason=reason, message=message), settled=False)


def ready_of(view: View, plan: Plan, *, instance: Instance) -> Ready:
    """Return the condition: what keeps the object from being as its spec says, the gravest first."""
    if plan.phase == "Wait":
        message = f"instance {view.recorded_id} isn't visible in DescribeInstances; waiting {view.grace:.0f} s for it"
        return Ready(status="False", reason="NotVisible", message=message)
    if plan.phase == "Hold":
        message = f"instance {view.recorded_id} was terminated; powerState Stopped doesn't replace it"
        return Ready(status="False", reason="Terminated", message=message)
    blocked = _blocked(plan)
    return blocked or _power_ready(view, instance)


def _blocked(plan: Plan) -> Ready | None:
    for action, reason in (("Immutable", "ImmutableFieldChanged"), ("StopRequired", "StopRequired")):
        found = [item.sentence() for item in plan.drift if item.action == action]
        if not found:
            continue
        if plan.phase == "Replace":
            return Ready(status="False", reason="Replacing", message="; ".join(found))
        remedy = (
            "change it back, or set replacementPolicy: OnImmutableChange"
            if action == "Immutable"
            else "set powerState: Stopped to let it be changed"
        )
        return Ready(status="False", reason=reason, message=f"{'; '.join(found)}; {remedy}")
    if plan.surplus:
        others = ", ".join(plan.surplus)
        message = f"other instances carry this object's UID tag and are left alone: {others}"
        return Ready(status="False", reason="SurplusInstances", message=message)
    return None


def _power_ready(view: View, instance: Instance) -> Ready:
    state, wanted = state_of(instance), "running" if view.wants_running else "stopped"
    name = instance.get("instance_id") or "the instance"
    if state == wanted:
        return Ready(status="True", reason=state.capitalize(), message=f"{name} is {state}, as the spec says")
    reason = {"pending": "Pending", "stopping": "Stopping", "running": "Stopping", "stopped": "Starting"}.get(state)
    return Ready(status="False", reason=reason or "Unknown", message=f"{name} is {state}, on its way to {wanted}")


def _acted(plan: Plan) -> bool:
    changes = plan.tag_changes
    return bool(plan.power or plan.changes or changes.add or changes.remove)


def _fields(view: View, plan: Plan, *, instance: Instance) -> dict[str, Any]:
    common = {
        "clusterId": view.cluster_id,
        "drift": [_drift_entry(item) for item in plan.drift] or None,
        "launchAttempt": plan.attempt,
    }
    if plan.phase == "Wait":
        return {**common, "missingSince": view.status.get("missingSince") or render(view.now)}
    if plan.phase == "Hold":
        gone = dict.fromkeys(("publicIp", "privateIp", "publicDnsName"))
        return {**common, **gone, "state": state_of(instance) or "terminated", "missingSince": None}
    return {**common, **_instance_fields(instance), "tagKeys": sorted(plan.tags), "missingSince": None}


def _instance_fields(instance: Instance) -> dict[str, Any]:
    return {
        "instanceId": instance.get("instance_id"),
        "state": state_of(instance) or None,
        "publicIp": instance.get("public_ip_address"),
        "privateIp": instance.get("private_ip_address"),
        "publicDnsName": instance.get("public_dns_name"),
        "availabilityZone": (instance.get("placement") or {}).get("availability_zone"),
        "launchTime": normal(instance.get("launch_time")),
    }


def _drift_entry(item: Drift) -> dict[str, str]:
    return {key: str(value) for key, value in asdict(item).items()}


def _update(view: View, *, fields: Mapping[str, Any], ready: Ready, settled: bool, checked: bool = True) -> Update:
    return update(view.obj, now=view.now, fields=fields, ready=ready, settled=settled, checked=checked)
