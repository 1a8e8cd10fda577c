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


@pytest.mark.parametrize("asked", ["", INSTANCE_ID])
def test_attachment_of_somebody_else_is_never_taken_away(asked: str) -> None:
    """A volume that somebody else attached stays there though the spec names another instance, and that is told."""
    hook = hook_of(SPEC, hanging(OTHER), asked=asked, instance=make_machine())
    assert (hook.attach, hook.detach) == ({}, {})
    assert hook.waits is not None
    assert hook.waits.reason == "AttachedElsewhere"


@pytest.mark.parametrize(("spec", "asked"), [(SPEC, ""), ({}, INSTANCE_ID)])
def test_own_attachment_counts_among_several(spec: dict[str, Any], asked: str) -> None:
    """Of several attachments, as Multi-Attach has them, that at the instance of the spec counts, or the one we made."""
    attachments = [{"instance_id": one, "device": "/dev/sdf", "state": "attached"} for one in (OTHER, INSTANCE_ID)]
    volume = make_volume(state="in-use", attachments=attachments)
    hook = hook_of(spec, volume, asked=asked, instance=make_machine() if spec else None)
    assert hook.current["instance_id"] == INSTANCE_ID
    assert hook.detach == ({"instance_id": INSTANCE_ID} if asked else {})


@pytest.mark.parametrize("spec", [SPEC, {}])
def test_volume_in_use_without_an_attachment_is_between_two_states(spec: dict[str, Any]) -> None:
    """A volume that AWS shows as in use, and nowhere attached, is looked at again and never called available."""
    hook = hook_of(spec, make_volume(state="in-use"), asked="", instance=make_machine() if spec else None)
    assert (hook.attach, hook.detach) == ({}, {})
    assert hook.waits is not None
    assert hook.waits.reason == "Detaching"


@pytest.mark.parametrize("spec", [SPEC, {}])
def test_attachment_that_may_be_hidden_is_waited_for(spec: dict[str, Any]) -> None:
    """Within the grace period a volume that seems free may hang where we asked for: it's neither moved nor let go."""
    hook = hook_of(spec, make_volume(), asked=OTHER, instance=make_machine() if spec else None, lately=True)
    assert hook.attach == {}
    assert hook.waits is not None
    assert hook.waits.reason == "Detaching"


def test_lost_request_to_attach_is_repeated() -> None:
    """A free volume is asked for again at the instance that was asked for: AWS may never have got the request."""
    assert hook_of(SPEC, make_volume(), asked=INSTANCE_ID, instance=make_machine(), lately=True).attach


def test_detaching_is_asked_for_once() -> None:
    """An attachment that is on its way out is waited for, whether the volume is released or moves on."""
    released = hook_of({}, hanging(state="detaching"), asked=INSTANCE_ID, instance=None)
    moved = hook_of(SPEC, hanging(OTHER, state="detaching"), asked=OTHER, instance=make_machine())
    for hook in (released, moved):
        assert (hook.attach, hook.detach) == ({}, {})
        assert hook.waits is not None
        assert hook.waits.reason == "Detaching"
