"""What an EBSVolume is attached to, what it has to be attached to, and which one step comes next. Pure.

An attachment that somebody else made is left alone, whatever the spec says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.updates import Ready, not_ready
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import Volume, attachment_of, state_of

Step = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Hook:
    """The next step of attaching: at most one of `attach` and `detach` is given."""

    attach: Step = field(default_factory=dict)
    """`instance_id`, and `device` where the spec names one."""
    detach: Step = field(default_factory=dict)
    """`instance_id`."""
    waits: Ready | None = None
    """What keeps the volume from hanging where the spec says."""
    current: Step = field(default_factory=dict)
    """The attachment that matters: at the instance that the spec names, at the one that we asked for, or any."""


def reference_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reference to an EC2Instance, empty where the volume has to be free."""
    reference: Mapping[str, Any] = (spec.get("attachTo") or {}).get("ec2InstanceRef") or {}
    return reference


def hook_of(
    spec: Mapping[str, Any], volume: Volume, *, asked: str, instance: Mapping[str, Any] | None, lately: bool = False
) -> Hook:
    """Decide; *asked* is the instance that we asked AWS to attach to, *instance* the EC2Instance that spec names.

    *lately* says that AWS may still hide the attachment that we asked for.
    """
    reference, named = reference_of(spec), _id_of(instance)
    current = attachment_of(volume, at=[named, asked] if reference else [asked])
    if current:
        return _moved(spec, volume, current=current, asked=asked, instance=instance)
    if state_of(volume) != "available":
        name = volume.get("volume_id")
        return Hook(waits=not_ready("Detaching", f"{name} is {state_of(volume)}, and AWS doesn't show where it hangs"))
    if lately and asked != (named if reference else ""):
        return Hook(waits=not_ready("Detaching", f"waiting whether what was asked for, {asked}, takes the volume"))
    return _attach(reference, volume, instance=instance) if reference else Hook()


def _id_of(instance: Mapping[str, Any] | None) -> str:
    return str(((instance or {}).get("status") or {}).get("instanceId") or "")


def _moved(
    spec: Mapping[str, Any],
    volume: Volume,
    *,
    current: Mapping[str, Any],
    asked: str,
    instance: Mapping[str, Any] | None,
) -> Hook:
    """Decide for a volume that hangs somewhere."""
    reference, hangs_on = reference_of(spec), str(current.get("instance_id") or "")
    if reference and hangs_on == _id_of(instance):
        return Hook(waits=_attached(reference, current), current=current)
    if hangs_on != asked:
        waits = _leaving(current) if current.get("state") == "detaching" else elsewhere(current)
        return Hook(waits=waits if reference else None, current=current)
    if reference and not _moves(current):
        _target_id, waits = _target(reference, volume, instance=instance)
        if waits:
            return Hook(waits=waits, current=current)
    detach = {} if _moves(current) else {"instance_id": hangs_on}
    return Hook(detach=detach, waits=_leaving(current), current=current)


def _attach(reference: Mapping[str, Any], volume: Volume, *, instance: Mapping[str, Any] | None) -> Hook:
    """Decide for a free volume."""
    target, waits = _target(reference, volume, instance=instance)
    if waits:
        return Hook(waits=waits)
    device = str(reference.get("deviceName") or "")
    message = f"attaching the volume to {target} of EC2Instance {reference['name']}"
    return Hook(attach={"instance_id": target, "device": device}, waits=not_ready("Attaching", message))


def elsewhere(current: Mapping[str, Any]) -> Ready:
    """Return that the volume hangs where somebody else attached it."""
    where = f"{current.get('instance_id')} as {current.get('device')}"
    message = f"the volume is attached to {where}, and not by the operator, which leaves it there: detach it"
    return not_ready("AttachedElsewhere", message)


def _moves(current: Mapping[str, Any]) -> bool:
    return current.get("state") in {"attaching", "detaching", "busy"}


def _leaving(current: Mapping[str, Any]) -> Ready:
    where = f"{current.get('instance_id')} ({current.get('device')})"
    if current.get("state") == "busy":
        return not_ready("DetachBusy", f"{where} still uses the volume: unmount it there")
    return not_ready("Detaching", f"waiting for {where} to let the volume go")


def _attached(reference: Mapping[str, Any], current: Mapping[str, Any]) -> Ready | None:
    state, device = current.get("state"), str(current.get("device") or "")
    if state in {"detaching", "busy"}:
        return _leaving(current)
    if state == "attaching":
        return not_ready("Attaching", f"{current['instance_id']} ({device}) is taking the volume")
    wanted = str(reference.get("deviceName") or "")
    if wanted and wanted != device:
        message = f"the volume is attached as {device}, not as {wanted}; take attachTo away and set it again to move it"
        return not_ready("DeviceNameDiffers", message)
    return None


def _target(
    reference: Mapping[str, Any], volume: Volume, *, instance: Mapping[str, Any] | None
) -> tuple[str, Ready | None]:
    """Return the instance to hang on, and why that can't be at the moment."""
    name = reference["name"]
    if instance is None:
        message = f"there is no EC2Instance {name} in this namespace; create it, or correct attachTo.ec2InstanceRef"
        return "", not_ready("InstanceNotFound", message)
    status = instance.get("status") or {}
    instance_id, state = _id_of(instance), str(status.get("state") or "")
    if not instance_id or state != "running" or (instance.get("metadata") or {}).get("deletionTimestamp"):
        doing = f"{instance_id} is {state or 'unknown'}" if instance_id else "has no instance yet"
        return "", not_ready("InstanceNotReady", f"EC2Instance {name}: {doing}; attached once it runs")
    zone, own = str(status.get("availabilityZone") or ""), str(volume.get("availability_zone") or "")
    if zone != own:
        message = f"EC2Instance {name} runs in {zone or 'an unknown zone'} and the volume is in {own}; a volume can't"
        return "", not_ready("ZoneMismatch", f"{message} leave its zone")
    return instance_id, None
