"""What an EBSVolume's status and Events say at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.updates import Update
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.volume_status import events_of, update_of

from tests.unit.plugins.plugin_builders import ago
from tests.unit.plugins.volume_builders import (
    INSTANCE_ID,
    VOLUME_ID,
    hanging,
    known,
    make_machine,
    make_volume,
    make_volume_object,
    volume_view,
)

REFUSAL = {"error_code": "VolumeModificationRateExceeded", "request_id": "r-1", "message": "too early"}


def outcome(obj: Mapping[str, Any], *volumes: Mapping[str, Any], **parts: Any) -> tuple[Update, list[str]]:
    """Return update and reasons of Events of a run that sees *volumes*."""
    refusal = parts.pop("refusal", None)
    view = volume_view(obj, *volumes, **parts)
    plan = make_plan(view)
    volume = plan.volume or make_volume()
    update = update_of(view, plan, volume=volume, refusal=refusal)
    events = events_of(view, plan, volume=volume, ready=update.conditions[0])
    return update, [event["reason"] for event in events]


@pytest.mark.parametrize(
    ("obj", "volume", "reason", "settled"),
    [
        (known(), make_volume(), "Available", True),
        (known(), make_volume(state="creating"), "Creating", False),
        (known(), make_volume(state="error"), "VolumeError", False),
        (known(), hanging(), "Attached", True),
        (known(spec={"sizeGiB": 5}), make_volume(), "VolumeTooLarge", True),
        (known(spec={"sizeGiB": 20}), make_volume(), "Modifying", False),
    ],
)
def test_ready_says_how_it_stands(*, obj: dict[str, Any], volume: dict[str, Any], reason: str, settled: bool) -> None:
    """The condition names the state, and only one that moves by itself is looked at again soon."""
    update, _events = outcome(obj, volume)
    assert (update.conditions[0]["reason"], update.settled) == (reason, settled)
    assert update.conditions[0]["status"] == ("True" if reason in {"Available", "Attached"} else "False")


def test_creation_is_told() -> None:
    """The run that creates records the volume's id and tells it."""
    update, events = outcome(make_volume_object())
    assert (update.conditions[0]["reason"], update.settled) == ("Creating", False)
    assert (update.status["volumeId"], update.status["createAttempt"], events) == (VOLUME_ID, 1, ["Created"])


def test_refused_change_is_told_once_and_kept() -> None:
    """A refusal's code and request id stay in the condition until the change is asked for again."""
    first, events = outcome(known(spec={"sizeGiB": 20}, observedGeneration=2), make_volume(), refusal=REFUSAL)
    message = first.conditions[0]["message"]
    assert (first.conditions[0]["reason"], events) == ("ModificationRefused", ["ModificationRefused"])
    assert "VolumeModificationRateExceeded: too early (request id r-1)" in message
    held = known(spec={"sizeGiB": 20}, conditions=first.conditions, modificationRefusedAt=ago(60))
    second, again = outcome(held, make_volume())
    assert (second.conditions[0]["message"], again) == (message, [])
    assert "modificationRefusedAt" not in second.status


def test_waiting_for_an_instance_is_told_once() -> None:
    """The reason why a volume isn't attached becomes an Event when it begins, not at each look."""
    spec = {"attachTo": {"ec2InstanceRef": {"name": "web"}}}
    update, events = outcome(known(spec=spec), make_volume())
    assert (update.conditions[0]["reason"], events) == ("InstanceNotFound", ["InstanceNotFound"])
    _update, again = outcome(known(spec=spec, conditions=update.conditions), make_volume())
    assert again == []


def test_attachment_is_recorded_until_it_is_gone() -> None:
    """What we asked to attach to is remembered as long as the volume hangs there."""
    spec = {"attachTo": {"ec2InstanceRef": {"name": "web"}}}
    asked, events = outcome(known(spec=spec), make_volume(), instance=make_machine())
    assert (asked.status["attachRequestedFor"], events) == (INSTANCE_ID, ["Attached"])
    gone, _events = outcome(known(attachRequestedFor=INSTANCE_ID), make_volume())
    assert gone.status["attachRequestedFor"] is None
    leaving, events = outcome(known(attachRequestedFor=INSTANCE_ID), hanging())
    assert "attachRequestedFor" not in leaving.status
    assert events == ["Detached"]


def test_lost_volume_says_what_to_do() -> None:
    """A volume that was deleted is told as lost, with the remedy, and its attachment is taken out of the status."""
    obj = known(instanceId=INSTANCE_ID, missingSince=ago(61), createRequestedAt=ago(600))
    update, events = outcome(obj)
    assert (update.conditions[0]["reason"], update.settled, events) == ("VolumeLost", True, ["VolumeLost"])
    assert (update.status["state"], update.status["instanceId"]) == ("deleted", None)
    assert "delete this object and create another" in update.conditions[0]["message"]
