"""The status of an EBSVolume object and the Events of a run: what `volume_plan` decided, told to people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import normal, render
from ansible_collections.aws_operator.core.plugins.module_utils.updates import Ready, Update, not_ready, update
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import VolumePlan, VolumeView
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import (
    USABLE,
    Volume,
    attachment_of,
    modification_of,
    state_of,
)

Refusal = Mapping[str, str]
"""`error_code`, `request_id` and `message` of a change that AWS refused for being too early."""
_TOLD = frozenset({
    "VolumeLost",
    "InstanceNotFound",
    "InstanceNotReady",
    "ZoneMismatch",
    "DetachBusy",
    "ModificationRefused",
})
"""Reasons of `Ready` that become an Event when they begin."""


def update_of(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None = None) -> Update:
    """Return the write that ends a run; *volume* is as the run left it."""
    ready = ready_of(view, plan, volume=volume, refusal=refusal)
    settled = plan.phase == "Lost" or (ready.status == "True" and not plan.acts) or _needs_a_person(ready)
    fields = _fields(view, plan, volume=volume, refusal=refusal)
    return update(view.obj, now=view.now, fields=fields, ready=ready, settled=settled)


def _needs_a_person(ready: Ready) -> bool:
    """Return whether looking again soon can't help: the spec, or AWS's clock, has to move first."""
    return ready.reason in {"ModificationRefused", "VolumeTooLarge", "DeviceNameDiffers", "SurplusVolumes"}


def ready_of(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None = None) -> Ready:
    """Return the condition: what keeps the object from being as its spec says, the gravest first."""
    if plan.phase == "Wait":
        message = f"volume {view.recorded_id} isn't visible in DescribeVolumes; waiting {view.grace:.0f} s for it"
        return not_ready("NotVisible", message)
    if plan.phase == "Lost":
        message = f"volume {view.recorded_id} was deleted in AWS and its data with it; it isn't replaced by an empty"
        return not_ready("VolumeLost", f"{message} one: delete this object and create another")
    name, state = volume.get("volume_id") or "the volume", state_of(volume)
    if plan.phase == "Create" or state not in USABLE:  # what a new volume hangs on is the next run's business
        reason = "VolumeError" if state == "error" else "Creating"
        return not_ready(reason, f"{name} is {state or 'being created'}")
    return _blocked(plan) or _changing(view, plan, volume=volume, refusal=refusal) or _hangs(plan, volume)


def _blocked(plan: VolumePlan) -> Ready | None:
    blocked = [item.sentence() for item in plan.drift if item.action == "Blocked"]
    if blocked:
        return not_ready("VolumeTooLarge", f"{'; '.join(blocked)}; EBS can't shrink a volume: correct sizeGiB")
    if plan.surplus:
        others = ", ".join(plan.surplus)
        return not_ready("SurplusVolumes", f"other volumes carry this object's UID tag and are left alone: {others}")
    return None


def _changing(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None) -> Ready | None:
    differs = "; ".join(item.sentence() for item in plan.drift if item.action == "Repair" and item.field != "tags")
    if not differs:
        return None
    if refusal:
        text = f"AWS answered {refusal['error_code']}: {refusal['message']} (request id {refusal['request_id']})"
        message = f"{differs}; {text}; AWS modifies a volume once in 6 hours, it's asked again every"
        return not_ready("ModificationRefused", f"{message} {view.pause / 60:.0f} min")
    if view.holds_changes:
        before = [item for item in view.status.get("conditions") or [] if item.get("type") == "Ready"]
        kept = before and before[0].get("reason") == "ModificationRefused"
        return not_ready("ModificationRefused", before[0]["message"] if kept else differs)
    progress = (volume.get("modification") or {}).get("progress")
    far = f" ({progress} %)" if progress not in {None, ""} and not plan.changes else ""
    return not_ready("Modifying", f"AWS is changing the volume{far}: {differs}")


def _hangs(plan: VolumePlan, volume: Volume) -> Ready:
    if plan.hook.waits:
        return plan.hook.waits
    name, current = volume.get("volume_id"), attachment_of(volume)
    if current:
        message = f"{name} is attached to {current.get('instance_id')} as {current.get('device')}"
        return Ready(status="True", reason="Attached", message=message)
    return Ready(status="True", reason="Available", message=f"{name} is available, as the spec says")


def _fields(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None) -> dict[str, Any]:
    common = {
        "clusterId": view.cluster_id,
        "drift": [{key: str(value) for key, value in asdict(item).items()} for item in plan.drift] or None,
        "createAttempt": plan.attempt,
    }
    if plan.phase == "Wait":
        return {**common, "missingSince": view.status.get("missingSince") or render(view.now)}
    if plan.phase == "Lost":
        gone = dict.fromkeys(("instanceId", "device", "attachmentState", "modificationState", "attachRequestedFor"))
        return {**common, **gone, "state": "deleted"}
    refused_at = render(view.now) if refusal else view.status.get("modificationRefusedAt")
    return {
        **common,
        **_volume_fields(volume),
        "tagKeys": sorted(plan.tags),
        "missingSince": None,
        "modificationState": "modifying" if plan.changes and not refusal else modification_of(volume) or None,
        "modificationRefusedAt": refused_at if refusal or (view.holds_changes and _differs(plan)) else None,
        "attachRequestedFor": _asked(view, plan, volume=volume),
    }


def _differs(plan: VolumePlan) -> bool:
    return any(item.action == "Repair" and item.field != "tags" for item in plan.drift)


def _asked(view: VolumeView, plan: VolumePlan, *, volume: Volume) -> str | None:
    """Return the instance that we asked to attach to, as long as the volume hangs there or has to."""
    if plan.hook.attach:
        return str(plan.hook.attach["instance_id"])
    asked = str(view.status.get("attachRequestedFor") or "")
    hangs_on = str(attachment_of(volume).get("instance_id") or "")
    adopted = hangs_on and plan.hook.waits is None and (view.spec.get("attachTo") or {}).get("ec2InstanceRef")
    return hangs_on if adopted else asked if asked == hangs_on else None


def _volume_fields(volume: Volume) -> dict[str, Any]:
    current = attachment_of(volume)
    return {
        "volumeId": volume.get("volume_id"),
        "state": state_of(volume) or None,
        "sizeGiB": volume.get("size"),
        "volumeType": volume.get("volume_type"),
        "iops": volume.get("iops"),
        "throughput": volume.get("throughput"),
        "encrypted": volume.get("encrypted"),
        "availabilityZone": volume.get("availability_zone"),
        "createTime": normal(volume.get("create_time")),
        "instanceId": current.get("instance_id"),
        "device": current.get("device"),
        "attachmentState": current.get("state"),
    }


def events_of(view: VolumeView, plan: VolumePlan, *, volume: Volume, ready: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what a run has to tell."""
    name, sentences = volume.get("volume_id"), "; ".join(item.sentence() for item in plan.drift)
    tags, hook = plan.tag_changes, plan.hook
    found = []
    if plan.phase == "Create":
        found.append(_event("Created", f"created {name} (attempt {plan.attempt})"))
    if plan.out_of_band:
        found.append(_event("DriftFound", sentences, kind="Warning"))
    if (plan.changes or tags.add or tags.remove) and ready["reason"] != "ModificationRefused":
        found.append(_event("DriftRepaired" if plan.out_of_band else "Updated", f"changed {name}: {sentences}"))
    if hook.detach:
        found.append(_event("Detached", f"asked {hook.detach['instance_id']} to let {name} go"))
    if hook.attach:
        found.append(_event("Attached", f"attached {name} to {hook.attach['instance_id']}"))
    if ready["reason"] in _TOLD and ready["reason"] != _reason_before(view):
        found.append(_event(ready["reason"], ready["message"], kind="Warning"))
    return found


def _event(reason: str, message: str, *, kind: str = "Normal") -> dict[str, str]:
    return {"type": kind, "reason": reason, "message": message}


def _reason_before(view: VolumeView) -> str:
    found = [item.get("reason") for item in view.status.get("conditions") or [] if item.get("type") == "Ready"]
    return str(found[0]) if found else ""
