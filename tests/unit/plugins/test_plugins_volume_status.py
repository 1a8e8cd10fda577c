"""What an EBSVolume's status and Events say at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.updates import Update
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.volume_status import events_of, is_slow, update_of

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

ATTACHED = {"attachTo": {"ec2InstanceRef": {"name": "web"}}}
REFUSAL = {"error_code": "VolumeModificationRateExceeded", "request_id": "r-1", "message": "too early"}


def outcome(obj: Mapping[str, Any], *volumes: Mapping[str, Any], **parts: Any) -> tuple[Update, list[str]]:
    """Return update and reasons of Events of a run that sees *volumes*."""
    refusal, postponed = parts.pop("refusal", None), parts.pop("postponed", False)
    view = volume_view(obj, *volumes, **parts)
    plan = make_plan(view)
    volume = plan.volume or make_volume()
    update = update_of(view, plan, volume=volume, refusal=refusal)
    told = {"ready": update.conditions[0], "refusal": refusal, "postponed": postponed}
    events = events_of(view, plan, volume=volume, **told)
    return update, [event["reason"] for event in events]


@pytest.mark.parametrize(
    ("obj", "volume", "reason", "settled"),
    [
        (known(), make_volume(), "Available", True),
        (known(), make_volume(state="creating"), "Creating", False),
        (known(), make_volume(state="error"), "VolumeError", True),
        (known(), make_volume(state="in-use"), "Detaching", False),
        (known(), make_volume(tags={"ansible-operator.io/uid": "another"}), "NotOurs", True),
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
    assert first.status["modificationRefusedGeneration"] == 3
    refused = {"modificationRefusedAt": ago(60), "modificationRefusedGeneration": 3}
    held = known(spec={"sizeGiB": 20}, conditions=first.conditions, **refused)
    second, again = outcome(held, make_volume())
    assert (second.conditions[0]["message"], again) == (message, [])
    assert "modificationRefusedAt" not in second.status
    assert (first.settled, second.settled) == (True, True)


def test_change_under_way_is_told_before_a_refusal() -> None:
    """While AWS is changing the volume that is told, and a refusal for just that reason is no pause of half an hour."""
    refused = {"modificationRefusedAt": ago(60), "modificationRefusedGeneration": 3}
    held = known(spec={"sizeGiB": 20}, **refused)
    update, _events = outcome(held, make_volume(modification={"modification_state": "modifying", "progress": 40}))
    assert (update.conditions[0]["reason"], update.settled) == ("Modifying", False)
    assert "(40 %)" in update.conditions[0]["message"]
    busy = {**REFUSAL, "error_code": "IncorrectModificationState"}
    update, events = outcome(known(spec={"sizeGiB": 20}), make_volume(), refusal=busy)
    assert (update.conditions[0]["reason"], update.settled) == ("Modifying", False)
    assert "modificationRefusedAt" not in update.status
    assert "Updated" not in events


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
    assert asked.status["attachRequestedAt"] == ago(0)
    gone, _events = outcome(known(attachRequestedFor=INSTANCE_ID, attachRequestedAt=ago(61)), make_volume())
    assert (gone.status["attachRequestedFor"], gone.status["attachRequestedAt"]) == (None, None)
    leaving, events = outcome(known(attachRequestedFor=INSTANCE_ID, attachRequestedAt=ago(5)), hanging())
    assert ("attachRequestedFor" not in leaving.status, leaving.status["attachRequestedAt"]) == (True, None)
    assert events == ["Detached"]


@pytest.mark.parametrize("volume", [make_volume(), make_volume(state="in-use"), hanging("i-00000000000000001")])
def test_attachment_that_one_look_missed_is_not_forgotten(volume: dict[str, Any]) -> None:
    """What we asked for within the grace period stays recorded, whatever AWS shows."""
    update, _events = outcome(known(attachRequestedFor=INSTANCE_ID, attachRequestedAt=ago(30)), volume)
    assert not {"attachRequestedFor", "attachRequestedAt"} & set(update.status)


def test_attachment_that_came_too_late_is_no_event() -> None:
    """An attachment that AWS didn't take, as something else is in use by now, isn't told as made."""
    spec = {"attachTo": {"ec2InstanceRef": {"name": "web"}}}
    update, events = outcome(known(spec=spec), make_volume(), instance=make_machine(), postponed=True)
    assert (update.settled, events) == (False, [])


@pytest.mark.parametrize(
    ("spec", "volume", "machine", "pace"),
    [
        ({"sizeGiB": 5}, make_volume(tags={}), None, (False, False)),
        ({"sizeGiB": 5, **ATTACHED}, make_volume(), make_machine(), (False, False)),
        (ATTACHED, make_volume(), None, (False, True)),
        (ATTACHED, make_volume(), make_machine(state="pending"), (False, True)),
        ({"sizeGiB": 5, **ATTACHED}, make_volume(), None, (False, True)),
        (ATTACHED, make_volume(), make_machine(zone="us-east-1b"), (True, False)),
        (ATTACHED, hanging("i-00000000000000001"), make_machine(), (True, False)),
        ({"sizeGiB": 20}, make_volume(modification={"modification_state": "optimizing"}), None, (False, True)),
    ],
)
def test_pace_is_that_of_what_is_waited_for(
    spec: dict[str, Any], volume: dict[str, Any], machine: dict[str, Any] | None, pace: tuple[bool, bool]
) -> None:
    """What a person has to mend is looked at by checkInterval, an instance less often than AWS, what was done soon."""
    view = volume_view(known(spec=spec), volume, instance=machine)
    plan = make_plan(view)
    update = update_of(view, plan, volume=volume)
    assert (update.settled, is_slow(plan, update.conditions[0])) == pace


def test_refused_change_beside_another_is_looked_at_soon() -> None:
    """A refusal waits for half an hour by itself, and not where the same run attached the volume."""
    spec = {"sizeGiB": 20, **ATTACHED}
    update, _events = outcome(known(spec=spec), make_volume(), instance=make_machine(), refusal=REFUSAL)
    assert (update.conditions[0]["reason"], update.settled) == ("ModificationRefused", False)


def test_surplus_volume_is_told_with_its_fate() -> None:
    """Another volume with the tag makes the object not ready, and the message says what deleting the object does."""
    update, events = outcome(known(), make_volume(), make_volume(volume_id="vol-00000001"))
    assert (update.conditions[0]["reason"], update.settled, events) == ("SurplusVolumes", True, ["SurplusVolumes"])
    assert "vol-00000001; they're left alone until the object is deleted" in update.conditions[0]["message"]
    lost, _events = outcome(known(), make_volume(state="deleting"), make_volume(volume_id="vol-00000001"))
    assert "carry this object's UID tag: vol-00000001" in lost.conditions[0]["message"]


def test_lost_volume_says_what_to_do() -> None:
    """A volume that was deleted is told as lost, with the remedy, and its attachment is taken out of the status."""
    asked: dict[str, Any] = {"attachRequestedFor": INSTANCE_ID, "instanceId": INSTANCE_ID}
    obj = known(**asked, missingSince=ago(61), createRequestedAt=ago(600))
    update, events = outcome(obj)
    assert (update.conditions[0]["reason"], update.settled, events) == ("VolumeLost", True, ["VolumeLost"])
    assert (update.status["state"], update.status["instanceId"]) == ("deleted", None)
    assert "attachRequestedFor" not in update.status
    assert "isn't there for these credentials in this region" in update.conditions[0]["message"]
    assert "delete this object and create another" in update.conditions[0]["message"]
