"""What a volume hangs on, and the one step that brings it where the spec says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.volume_hook import hook_of

from tests.unit.plugins.volume_builders import INSTANCE_ID, hanging, make_machine, make_volume

OTHER = "i-00000000000000001"
SPEC: dict[str, Any] = {"attachTo": {"ec2InstanceRef": {"name": "web"}}}


def named(device: str) -> dict[str, Any]:
    """Return a spec that names the device."""
    return {"attachTo": {"ec2InstanceRef": {"name": "web", "deviceName": device}}}


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (None, "InstanceNotFound"),
        (make_machine(instance_id=""), "InstanceNotReady"),
        (make_machine(state="pending"), "InstanceNotReady"),
        (make_machine(deletionTimestamp="2026-11-29T12:00:00Z"), "InstanceNotReady"),
        (make_machine(zone="us-east-1b"), "ZoneMismatch"),
    ],
)
def test_volume_waits_for_what_is_missing(machine: dict[str, Any] | None, reason: str) -> None:
    """Nothing is attached before the instance runs in the volume's zone, and the reason says what is missing."""
    hook = hook_of(SPEC, make_volume(), asked="", instance=machine)
    assert (hook.attach, hook.detach) == ({}, {})
    assert hook.waits is not None
    assert hook.waits.reason == reason


@pytest.mark.parametrize(("spec", "device"), [(SPEC, ""), (named("/dev/sdk"), "/dev/sdk")])
def test_free_volume_is_attached(spec: dict[str, Any], device: str) -> None:
    """A free volume is attached to the instance that runs, as the device that the spec names."""
    hook = hook_of(spec, make_volume(), asked="", instance=make_machine())
    assert hook.attach == {"instance_id": INSTANCE_ID, "device": device}


@pytest.mark.parametrize(
    ("spec", "state", "reason"),
    [
        (SPEC, "attached", None),
        (named("/dev/sdk"), "attached", "DeviceNameDiffers"),
        (SPEC, "attaching", "Attaching"),
        (SPEC, "busy", "DetachBusy"),
    ],
)
def test_attached_volume_stays(spec: dict[str, Any], state: str, reason: str | None) -> None:
    """A volume that hangs where it has to is never moved; what isn't right yet has its reason."""
    hook = hook_of(spec, hanging(state=state), asked=INSTANCE_ID, instance=make_machine(state="stopped"))
    assert (hook.attach, hook.detach) == ({}, {})
    assert (hook.waits.reason if hook.waits else None) == reason


@pytest.mark.parametrize(("asked", "detaches"), [(INSTANCE_ID, True), (OTHER, False), ("", False)])
def test_only_our_own_attachment_is_taken_away(*, asked: str, detaches: bool) -> None:
    """Without a reference, a volume is detached from where we attached it, and left where others did."""
    hook = hook_of({}, hanging(), asked=asked, instance=None)
    assert bool(hook.detach) is detaches


def test_volume_moves_to_another_instance_once_that_runs() -> None:
    """A volume leaves the old instance only when the new one is ready to take it."""
    early = hook_of(SPEC, hanging(OTHER), asked=OTHER, instance=make_machine(state="pending"))
    assert (early.detach, early.attach) == ({}, {})
    ready = hook_of(SPEC, hanging(OTHER), asked=OTHER, instance=make_machine())
    assert (ready.detach, ready.attach) == ({"instance_id": OTHER}, {})


def test_detaching_is_asked_for_once() -> None:
    """An attachment that is on its way out is waited for, whether the volume is released or moves on."""
    released = hook_of({}, hanging(state="detaching"), asked=INSTANCE_ID, instance=None)
    moved = hook_of(SPEC, hanging(OTHER, state="detaching"), asked=OTHER, instance=make_machine())
    for hook in (released, moved):
        assert (hook.attach, hook.detach) == ({}, {})
        assert hook.waits is not None
        assert hook.waits.reason == "Detaching"
