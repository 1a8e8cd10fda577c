"""The status of an EBSVolume object and the Events of a run: what `volume_plan` decided, told to people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import normal, render
from ansible_collections.aws_operator.core.plugins.module_utils.updates import Ready, Update, not_ready, update
from ansible_collections.aws_operator.core.plugins.module_utils.volume_hook import reference_of
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import VolumePlan, VolumeView
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import (
    USABLE,
    Volume,
    attachments_of,
    modification_of,
    state_of,
)

Refusal = Mapping[str, str]
"""`error_code`, `request_id` and `message` of a change that AWS refused for being too early."""
_BUSY = "IncorrectModificationState"
"""AWS's code where the last change is still under way: no refusal to wait half an hour for."""
_WAITS_FOR_A_PERSON = frozenset({
    "VolumeLost",
    "NotOurs",
    "VolumeError",
    "VolumeTooLarge",
    "SurplusVolumes",
    "ModificationRefused",
    "ZoneMismatch",
    "AttachedElsewhere",
    "DeviceNameDiffers",
})
"""Reasons of `Ready` for which looking again soon can't help: a person, or AWS's clock, has to move first."""
_WAITS_FOR_AN_INSTANCE = frozenset({"InstanceNotFound", "InstanceNotReady"})
_TOLD = _WAITS_FOR_A_PERSON - {"DeviceNameDiffers"} | _WAITS_FOR_AN_INSTANCE | {"DetachBusy"}
"""Reasons of `Ready` that become an Event when they begin."""


def update_of(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None = None) -> Update:
    """Return the write that ends a run; *volume* is as the run left it."""
    ready = ready_of(view, plan, volume=volume, refusal=refusal)
    fields = _fields(view, plan, volume=volume, refusal=refusal)
    settled = _settled(plan, ready, refusal=refusal)
    return update(view.obj, now=view.now, fields=fields, ready=ready, settled=settled)


def is_slow(plan: VolumePlan, ready: Mapping[str, Any]) -> bool:
    """Return whether what is waited for takes long: the EC2Instance of the spec, or AWS that optimizes the volume."""
    if plan.acts:
        return False
    waits = plan.hook.waits is not None and plan.hook.waits.reason in _WAITS_FOR_AN_INSTANCE
    optimizes = ready["reason"] == "Modifying" and modification_of(plan.volume) == "optimizing"
    return optimizes or (waits and ready["reason"] in _WAITS_FOR_AN_INSTANCE | _WAITS_FOR_A_PERSON)


def _settled(plan: VolumePlan, ready: Ready, *, refusal: Refusal | None) -> bool:
    """Return whether nothing is under way that looking again soon would show."""
    if plan.acts_otherwise or (plan.changes and not _is_refused(refusal)):
        return False
    waits = plan.hook.waits
    if waits is not None and waits.reason not in _WAITS_FOR_A_PERSON:
        return False
    return ready.status == "True" or ready.reason in _WAITS_FOR_A_PERSON


def _is_refused(refusal: Refusal | None) -> bool:
    return bool(refusal) and (refusal or {}).get("error_code") != _BUSY


def ready_of(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None = None) -> Ready:
    """Return the condition: what keeps the object from being as its spec says, the gravest first."""
    if plan.phase == "Wait":
        message = f"volume {view.recorded_id} isn't visible in DescribeVolumes; waiting {view.grace:.0f} s for it"
        return not_ready("NotVisible", message)
    if plan.phase == "Lost":
        message = f"volume {view.recorded_id} isn't there for these credentials in this region; if it was deleted, its"
        remedy = "data is gone, so that no empty one takes its place: delete this object and create another"
        return not_ready("VolumeLost", f"{message} {remedy}{_others(plan)}")
    if plan.phase == "NotOurs":
        message = (
            f"volume {view.recorded_id} carries the UID tag of another object, or is a copy of another volume; it's"
        )
        return not_ready("NotOurs", f"{message} neither changed nor deleted: delete this object and create another")
    name, state = volume.get("volume_id") or "the volume", state_of(volume)
    if plan.phase == "Create" or state not in USABLE:  # what a new volume hangs on is the next run's business
        reason = "VolumeError" if state == "error" else "Creating"
        return not_ready(reason, f"{name} is {state or 'being created'}")
    return _blocked(plan) or _changing(view, plan, volume=volume, refusal=refusal) or _hangs(plan, volume=volume)


def _blocked(plan: VolumePlan) -> Ready | None:
    blocked = [item.sentence() for item in plan.drift if item.action == "Blocked"]
    if blocked:
        return not_ready("VolumeTooLarge", f"{'; '.join(blocked)}; EBS can't shrink a volume: correct sizeGiB")
    return not_ready("SurplusVolumes", _others(plan).removeprefix("; ")) if plan.surplus else None


def _others(plan: VolumePlan) -> str:
    if not plan.surplus:
        return ""
    message = f"; other volumes carry this object's UID tag: {', '.join(plan.surplus)}; they're left alone until the"
    return (
        f"{message} object is deleted: deletionPolicy Delete takes them along, unless they're copies or hang elsewhere"
    )


def _changing(view: VolumeView, plan: VolumePlan, *, volume: Volume, refusal: Refusal | None) -> Ready | None:
    differs = "; ".join(item.sentence() for item in plan.drift if item.action == "Repair" and item.field != "tags")
    if not differs:
        return None
    if modification_of(volume) == "modifying":
        return not_ready("Modifying", f"AWS is changing the volume{_far(volume)}: {differs}")
    if refusal and _is_refused(refusal):
        text = f"AWS answered {refusal['error_code']}: {refusal['message']} (request id {refusal['request_id']})"
        message = f"{differs}; {text}; AWS modifies a volume once in 6 hours, it's asked again every"
        return not_ready("ModificationRefused", f"{message} {view.pause / 60:.0f} min")
    if view.holds_changes:
        before = [item for item in view.status.get("conditions") or [] if item.get("type") == "Ready"]
        kept = before and before[0].get("reason") == "ModificationRefused"
        return not_ready("ModificationRefused", before[0]["message"] if kept else differs)
    return not_ready("Modifying", f"AWS is changing the volume{'' if plan.changes else _far(volume)}: {differs}")


def _far(volume: Volume) -> str:
    progress = (volume.get("modification") or {}).get("progress")
    return "" if progress in {None, ""} else f" ({progress} %)"


def _hangs(plan: VolumePlan, *, volume: Volume) -> Ready:
    if plan.hook.waits:
        return plan.hook.waits
    name, current = volume.get("volume_id"), plan.hook.current
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
        # What was asked for stays: with other credentials the volume may be there again, as it was.
        gone = dict.fromkeys(("instanceId", "device", "attachmentState", "modificationState"))
        return {**common, **gone, "state": "deleted"}
    if plan.phase == "NotOurs":
        return common
    return {
        **common,
        **_volume_fields(volume, plan.hook.current),
        "tagKeys": sorted(plan.tags),
        "missingSince": None,
        "modificationState": "modifying" if plan.changes and not refusal else modification_of(volume) or None,
        **_refusal_fields(view, plan, refusal=refusal),
        **_asked(view, plan, volume=volume),
    }


def _refusal_fields(view: VolumeView, plan: VolumePlan, *, refusal: Refusal | None) -> dict[str, Any]:
    """Return when which spec's change was refused, as long as that matters."""
    if _is_refused(refusal):
        return {"modificationRefusedAt": render(view.now), "modificationRefusedGeneration": view.generation}
    names = ("modificationRefusedAt", "modificationRefusedGeneration")
    holds = view.holds_changes and _differs(plan)
    return {name: view.status.get(name) if holds else None for name in names}


def _differs(plan: VolumePlan) -> bool:
    return any(item.action == "Repair" and item.field != "tags" for item in plan.drift)


def _asked(view: VolumeView, plan: VolumePlan, *, volume: Volume) -> dict[str, Any]:
    """Return for which instance we asked and when, as long as the volume hangs there, has to, or may do so unseen."""
    hook = plan.hook
    if hook.attach:
        return _request(hook.attach["instance_id"], render(view.now))
    adopted = hook.current and hook.waits is None and reference_of(view.spec)
    if adopted and hook.current["instance_id"] != view.asked:
        return _request(hook.current["instance_id"], None)
    hangs = any(item.get("instance_id") == view.asked for item in attachments_of(volume))
    # In use with nothing to see: AWS is between two states.
    unclear = state_of(volume) != "available" and not hook.current
    if not view.asked or not (hangs or unclear or view.asked_lately):
        return _request(None, None)
    # An attachment that is being taken away was there: nothing of it is hidden any more.
    return _request(view.asked, None if hook.detach else view.status.get("attachRequestedAt"))


def _request(instance_id: str | None, moment: Any) -> dict[str, Any]:
    return {"attachRequestedFor": instance_id, "attachRequestedAt": moment}


def _volume_fields(volume: Volume, current: Mapping[str, Any]) -> dict[str, Any]:
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


def events_of(
    view: VolumeView,
    plan: VolumePlan,
    *,
    volume: Volume,
    ready: Mapping[str, str],
    refusal: Refusal | None = None,
    postponed: bool = False,
) -> list[dict[str, str]]:
    """Return what a run has to tell; *postponed* says that AWS didn't take the attachment yet."""
    name, sentences = volume.get("volume_id"), "; ".join(item.sentence() for item in plan.drift)
    done = "; ".join(item.sentence() for item in plan.drift if item.field == "tags") if refusal else sentences
    tags, hook = plan.tag_changes, plan.hook
    found = []
    if plan.phase == "Create":
        found.append(_event("Created", f"created {name} (attempt {plan.attempt})"))
    if plan.out_of_band:
        found.append(_event("DriftFound", sentences, kind="Warning"))
    if (plan.changes and not refusal) or tags.add or tags.remove:
        found.append(_event("DriftRepaired" if plan.out_of_band else "Updated", f"changed {name}: {done}"))
    if hook.detach:
        found.append(_event("Detached", f"asked {hook.detach['instance_id']} to let {name} go"))
    if hook.attach and not postponed:
        found.append(_event("Attached", f"attached {name} to {hook.attach['instance_id']}"))
    if ready["reason"] in _TOLD and ready["reason"] != _reason_before(view):
        found.append(_event(ready["reason"], ready["message"], kind="Warning"))
    return found


def _event(reason: str, message: str, *, kind: str = "Normal") -> dict[str, str]:
    return {"type": kind, "reason": reason, "message": message}


def _reason_before(view: VolumeView) -> str:
    found = [item.get("reason") for item in view.status.get("conditions") or [] if item.get("type") == "Ready"]
    return str(found[0]) if found else ""
