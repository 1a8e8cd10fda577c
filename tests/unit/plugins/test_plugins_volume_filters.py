"""The filters of the role `ebs_volume`: what a finalizer takes away, what keeps it, and how fast the next look is."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.aws_operator.core.plugins.filter.ebs_volume import FilterModule
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import boto3_filters, is_boundless
from ansible_collections.aws_operator.core.plugins.modules.ebs_modify import came_late

from tests.unit.plugins.plugin_builders import ago
from tests.unit.plugins.volume_builders import INSTANCE_ID, VOLUME_ID, hanging, known, make_volume, make_volume_object

FILTERS = FilterModule().filters()
OTHER = "vol-00000001"
NOTHING = {"reason": "", "message": ""}
YOUNG: dict[str, Any] = {"createRequestedAt": ago(10)}


def seen(*volumes: dict[str, Any], grace: float = 60.0) -> dict[str, Any]:
    """Return what a run has seen."""
    return {"volumes": list(volumes), "now": ago(0), "cluster_id": "c1", "grace": grace}


def doomed_of(obj: dict[str, Any], *volumes: dict[str, Any]) -> dict[str, Any]:
    """Return what a finalizer has to do with what it sees."""
    doomed: dict[str, Any] = FILTERS["ebs_doomed"](obj, seen(*volumes))
    return doomed


def reason_of(obj: dict[str, Any], doomed: dict[str, Any], **looked: Any) -> str:
    """Return what keeps the finalizer after *looked*, empty where nothing does."""
    parts: dict[str, Any] = {"hooked": [], "deletions": [], "going": [], **looked}
    return str(FILTERS["ebs_remaining"](obj, doomed, **parts)["reason"])


def deletion(volume_id: str = VOLUME_ID, *, existed: bool = True) -> dict[str, Any]:
    """Return the result of deleting a volume."""
    return {"item": volume_id, "existed": existed}


def test_volume_object_without_uid_is_refused() -> None:
    """Without a UID no volume is ever looked for."""
    with pytest.raises(AnsibleFilterError, match=r"no metadata\.uid"):
        FILTERS["ebs_plan"]({"metadata": {"name": "web"}, "spec": {}}, seen())


def test_plan_comes_with_what_to_store() -> None:
    """The attempt, its time and the cluster come out as the status that is written before the creation."""
    plan = FILTERS["ebs_plan"](make_volume_object(), seen())
    stored = {"createAttempt": 1, "createRequestedAt": ago(0), "clusterId": "c1", "missingSince": None}
    assert plan["record"] == stored


def test_finalizer_deletes_a_recorded_volume_that_is_not_shown() -> None:
    """A recorded id that AWS doesn't show is deleted all the same; an empty one is never sent."""
    assert doomed_of(known())["delete"] == [VOLUME_ID]
    assert doomed_of(make_volume_object(createAttempt=1))["delete"] == []


@pytest.mark.parametrize(
    ("volume", "parts"),
    [
        (make_volume(), {"delete": [VOLUME_ID]}),
        (make_volume(state="error"), {"delete": [VOLUME_ID]}),
        (make_volume(tags={}), {"delete": [VOLUME_ID]}),
        (make_volume(state="deleting"), {"going": [VOLUME_ID]}),
        (make_volume(state="deleted"), {}),
        (make_volume(state="creating"), {}),
        (make_volume(state="in-use"), {"hooked": [VOLUME_ID]}),
        (make_volume(tags={"ansible-operator.io/uid": "another"}), {}),
        (make_volume(snapshot_id="snap-00000001"), {}),
    ],
)
def test_finalizer_takes_only_what_is_its_own_and_can_go(volume: dict[str, Any], parts: dict[str, Any]) -> None:
    """A volume is deleted once it's free; one that goes already, is in use, is new or isn't ours is not."""
    doomed = doomed_of(known(), volume)
    assert {key: doomed[key] for key in ("delete", "going", "hooked") if doomed[key]} == parts


def test_finalizer_takes_a_second_volume_along_but_no_copy() -> None:
    """Another free volume with the UID tag goes with the object; one that was restored from a backup stays."""
    copy = make_volume(volume_id="vol-00000002", snapshot_id="snap-00000001")
    doomed = doomed_of(known(), make_volume(), make_volume(volume_id=OTHER), copy)
    assert doomed["delete"] == [VOLUME_ID, OTHER]


def test_finalizer_detaches_only_what_we_attached() -> None:
    """Our own attachment is taken away; somebody else's keeps the object, with a reason that says where."""
    ours = doomed_of(known(attachRequestedFor=INSTANCE_ID), hanging())
    assert (ours["detach"], ours["stays"]) == ([{"volume_id": VOLUME_ID, "instance_id": INSTANCE_ID}], NOTHING)
    theirs = doomed_of(known(), hanging())
    assert (theirs["detach"], theirs["hooked"], theirs["delete"]) == ([], [VOLUME_ID], [])
    assert reason_of(known(), theirs, hooked=[hanging()]) == "AttachedElsewhere"
    assert INSTANCE_ID in theirs["stays"]["message"]


def test_finalizer_asks_once_to_detach() -> None:
    """An attachment of ours that is on its way out is waited for."""
    doomed = doomed_of(known(attachRequestedFor=INSTANCE_ID), hanging(state="detaching"))
    assert (doomed["detach"], doomed["hooked"]) == ([], [VOLUME_ID])


def test_finalizer_waits_for_a_volume_that_is_being_created() -> None:
    """A volume that AWS is still creating can't be deleted yet, and keeps the object."""
    new = make_volume(state="creating")
    assert reason_of(known(), doomed_of(known(), new)) == "Creating"


@pytest.mark.parametrize(
    ("freed", "reason"),
    [
        ([hanging(state="detaching")], "Detaching"),
        ([hanging(state="busy")], "DetachBusy"),
        ([make_volume(state="in-use")], "Detaching"),
        ([], "Detaching"),
    ],
)
def test_volume_that_still_hangs_keeps_the_object(freed: list[dict[str, Any]], reason: str) -> None:
    """What hung and wasn't deleted keeps the finalizer, also where AWS doesn't show it at the moment."""
    obj = known(attachRequestedFor=INSTANCE_ID)
    doomed = doomed_of(obj, hanging())
    assert reason_of(obj, doomed, hooked=freed) == reason
    assert reason_of(obj, doomed, hooked=[make_volume()], deletions=[deletion()]) == ""


def test_volume_that_is_being_deleted_keeps_the_object() -> None:
    """The finalizer ends when AWS shows the volume as deleted, or not at all."""
    doomed = doomed_of(known(), make_volume())
    going = make_volume(state="deleting")
    assert reason_of(known(), doomed, deletions=[deletion()], going=[going]) == "StillDeleting"
    assert reason_of(known(), doomed, deletions=[deletion()], going=[make_volume(state="deleted")]) == ""
    assert reason_of(known(), doomed, deletions=[deletion()]) == ""


@pytest.mark.parametrize(
    ("obj", "deletions", "reason"),
    [
        (make_volume_object(createAttempt=1, **YOUNG), [], "CreationUndecided"),
        (make_volume_object(createAttempt=1, createRequestedAt=ago(61)), [], ""),
        (make_volume_object(), [], ""),
        (known(**YOUNG), [deletion(existed=False)], "CreationUndecided"),
        (known(**YOUNG), [deletion(existed=True)], ""),
        (known(**YOUNG), [deletion(existed=False), deletion(OTHER)], "CreationUndecided"),
        (known(createRequestedAt=ago(61)), [deletion(existed=False)], ""),
    ],
)
def test_creation_that_shows_nothing_keeps_the_object_for_a_while(
    obj: dict[str, Any], deletions: list[dict[str, Any]], reason: str
) -> None:
    """Within the grace period only a deletion that met the volume ends the finalizer: AWS may hide what it creates."""
    assert reason_of(obj, doomed_of(obj), deletions=deletions) == reason


@pytest.mark.parametrize("state", ["deleting", "deleted"])
def test_volume_seen_going_decides_the_creation(state: str) -> None:
    """A volume that is seen on its way out, or gone, is all that its creation will bring."""
    assert doomed_of(known(**YOUNG), make_volume(state=state))["undecided"] is False


def test_other_volume_seen_going_decides_nothing() -> None:
    """The end of another volume with the tag says nothing of the recorded one."""
    other = make_volume(volume_id=OTHER, state="deleting")
    assert doomed_of(known(**YOUNG), other)["undecided"] is True


def test_status_says_how_fast_the_next_look_is() -> None:
    """A volume that waits for its EC2Instance is looked at slowly, one that AWS creates soon."""
    waits = FILTERS["ebs_status"](known(spec={"attachTo": {"ec2InstanceRef": {"name": "web"}}}), seen(make_volume()))
    assert (waits["settled"], waits["slow"]) == (False, True)
    created = FILTERS["ebs_status"](make_volume_object(), seen(), created=make_volume(state="creating"))
    assert (created["settled"], created["slow"], created["status"]["volumeId"]) == (False, False, VOLUME_ID)


@pytest.mark.parametrize(
    ("filters", "boundless"),
    [({}, True), ({"volume-id": []}, True), ({"tag:uid": ""}, True), ({"volume-id": [VOLUME_ID]}, False)],
)
def test_describing_needs_something_to_look_for(*, filters: dict[str, Any], boundless: bool) -> None:
    """A filter without a value is refused, as AWS could answer it with everybody's volumes."""
    assert is_boundless(boto3_filters(filters)) is boundless


@pytest.mark.parametrize(
    ("code", "message", "chosen", "late"),
    [
        ("VolumeInUse", "vol-1 is already attached to an instance", False, True),
        ("InvalidParameterValue", "Attachment point /dev/sdf is already in use", True, True),
        ("InvalidParameterValue", "Attachment point /dev/sdf is already in use", False, False),
        ("InvalidParameterValue", "unknown device", True, False),
        ("IncorrectState", "Instance 'i-1' is not 'running'.", True, False),
    ],
)
def test_attachment_that_came_late_is_no_failure(*, code: str, message: str, chosen: bool, late: bool) -> None:
    """A volume in use by now, or a device that nobody named, is looked at again; anything else fails."""
    assert came_late({"error_code": code, "message": message}, device_chosen=chosen) is late
