"""What to do for an EBSVolume and the volumes that AWS shows."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.identity import client_token
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.volumes import DEVICES, free_device

from tests.unit.plugins.plugin_builders import UID, ago
from tests.unit.plugins.volume_builders import VOLUME_ID, known, make_volume, make_volume_object, volume_view


def test_first_creation() -> None:
    """An object without any attempt creates the first volume, with its tags."""
    plan = make_plan(volume_view(make_volume_object()))
    assert (plan.phase, plan.attempt, plan.token) == ("Create", 1, client_token(uid=UID, attempt=1))
    assert plan.tags["ansible-operator.io/uid"] == UID


def test_creation_without_an_answer_is_repeated_with_its_token() -> None:
    """An attempt that is recorded without a volume is asked for again, never as a new one."""
    plan = make_plan(volume_view(make_volume_object(createAttempt=4, createRequestedAt=ago(3600))))
    assert (plan.phase, plan.attempt) == ("Create", 4)


@pytest.mark.parametrize(("since", "attempt"), [(30, 1), (61, 2)])
def test_token_of_another_request_is_given_up_after_the_grace_period(since: int, attempt: int) -> None:
    """A token that AWS holds for another request is left only after its volume stayed invisible for long enough."""
    plan = make_plan(volume_view(make_volume_object(createAttempt=1, missingSince=ago(since))))
    assert (plan.phase, plan.attempt) == ("Create", attempt)


def test_created_volume_is_found_by_its_tag() -> None:
    """A volume that carries the UID tag is the object's, though its id was never recorded."""
    plan = make_plan(volume_view(make_volume_object(createAttempt=1), make_volume()))
    assert (plan.phase, plan.volume["volume_id"], plan.acts) == ("Present", VOLUME_ID, False)


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({}, "Wait"),
        ({"missingSince": ago(30)}, "Wait"),
        ({"missingSince": ago(600), "createRequestedAt": ago(10)}, "Wait"),
        ({"missingSince": ago(61), "createRequestedAt": ago(600)}, "Lost"),
    ],
)
def test_vanished_volume_is_waited_for_and_then_lost(status: dict[str, Any], phase: str) -> None:
    """A volume that AWS doesn't show is waited for, then told as lost; another one is never created by itself."""
    assert make_plan(volume_view(known(**status))).phase == phase


def test_volume_that_is_being_deleted_is_lost() -> None:
    """A recorded volume that is seen going away is lost at once."""
    assert make_plan(volume_view(known(), make_volume(state="deleting"))).phase == "Lost"


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        ({}, {}),
        ({"sizeGiB": 20}, {"size_gib": 20}),
        ({"sizeGiB": 5}, {}),
        ({"volumeType": "io2", "iops": 4000}, {"volume_type": "io2", "iops": 4000}),
        ({"throughput": 250}, {"throughput": 250}),
    ],
)
def test_only_what_differs_is_changed(spec: dict[str, Any], changes: dict[str, Any]) -> None:
    """A field that differs is changed in place, a smaller size never."""
    assert make_plan(volume_view(known(spec=spec), make_volume())).changes == changes


@pytest.mark.parametrize("state", ["modifying", "optimizing"])
def test_change_waits_for_the_one_under_way(state: str) -> None:
    """No change is asked for while AWS is still busy with the last one."""
    busy = make_volume(modification={"modification_state": state})
    plan = make_plan(volume_view(known(spec={"sizeGiB": 20}), busy))
    assert (plan.changes, plan.asks_modification) == ({}, True)


@pytest.mark.parametrize(("refused", "generation", "asks"), [(60, 3, False), (1801, 3, True), (60, 2, True)])
def test_refused_change_is_asked_for_again_after_a_pause_or_an_edit(
    *, refused: int, generation: int, asks: bool
) -> None:
    """A change that came too early isn't repeated at each look, but after the pause, or when the spec moves."""
    obj = known(spec={"sizeGiB": 20}, modificationRefusedAt=ago(refused), modificationRefusedGeneration=generation)
    assert bool(make_plan(volume_view(obj, make_volume())).changes) is asks


def test_difference_that_nobody_edited_is_drift() -> None:
    """A difference counts as made by others only where this very spec was fulfilled before."""
    drifted, edited = known(spec={"sizeGiB": 20}), known(spec={"sizeGiB": 20}, observedGeneration=2)
    assert make_plan(volume_view(drifted, make_volume())).out_of_band
    assert not make_plan(volume_view(edited, make_volume())).out_of_band


def test_second_volume_with_the_tag_is_surplus() -> None:
    """The recorded volume is kept; another live one with the UID tag is named, a deleted one isn't."""
    others = [make_volume(volume_id="vol-00000001"), make_volume(volume_id="vol-00000002", state="deleting")]
    plan = make_plan(volume_view(known(), make_volume(), *others))
    assert (plan.volume["volume_id"], plan.surplus) == (VOLUME_ID, ["vol-00000001"])


def test_recorded_volume_is_never_exchanged_for_another() -> None:
    """Where the recorded volume isn't seen, one that only carries the tag is named and not taken."""
    other = make_volume(volume_id="vol-00000001")
    for volumes, phase in (([other], "Wait"), ([other, make_volume(state="deleting")], "Lost")):
        plan = make_plan(volume_view(known(), *volumes))
        assert (plan.phase, plan.volume, plan.surplus, plan.acts) == (phase, {}, ["vol-00000001"], False)


@pytest.mark.parametrize("origin", [{"snapshot_id": "snap-00000001"}, {"source_volume_id": "vol-00000009"}])
def test_copy_that_carries_the_tag_is_not_taken(origin: dict[str, str]) -> None:
    """A volume that was restored or cloned with the tags of ours is somebody else's, also before an id is recorded."""
    plan = make_plan(volume_view(make_volume_object(createAttempt=1), make_volume(**origin)))
    assert (plan.phase, plan.attempt, plan.surplus) == ("Create", 1, [VOLUME_ID])


def test_recorded_volume_of_another_object_is_not_written() -> None:
    """A recorded volume with another UID tag is left as it is; one without the tag gets it back."""
    foreign = make_volume(tags={"ansible-operator.io/uid": "another"}, size=5)
    plan = make_plan(volume_view(known(), foreign))
    assert (plan.phase, plan.volume, plan.acts) == ("NotOurs", {}, False)
    stripped = make_plan(volume_view(known(), make_volume(tags={})))
    assert (stripped.phase, stripped.tag_changes.add["ansible-operator.io/uid"]) == ("Present", UID)


def test_recorded_id_is_enough_not_to_create() -> None:
    """An object that names a volume never creates another one, even where its attempt was lost."""
    assert make_plan(volume_view(make_volume_object(volumeId=VOLUME_ID))).phase == "Wait"


@pytest.mark.parametrize(
    ("since", "recorded"),
    [(30, {"createAttempt": 1}), (61, {"createAttempt": 2, "missingSince": None})],
)
def test_next_attempt_begins_without_the_last_ones_time(since: int, recorded: dict[str, Any]) -> None:
    """Since when a volume is missing is kept for one attempt, and cleared with the next: each has its own grace."""
    plan = make_plan(volume_view(make_volume_object(createAttempt=1, missingSince=ago(since))))
    assert plan.record == {"createRequestedAt": ago(0), "clusterId": "c1", **recorded}


def test_change_of_type_takes_performance_along() -> None:
    """IOPS and throughput that the spec names are sent with another type, though the volume has them already."""
    spec = {"volumeType": "gp3", "iops": 4000, "throughput": 250}
    plan = make_plan(volume_view(known(spec=spec), make_volume(volume_type="io2", iops=4000)))
    assert plan.changes == {"volume_type": "gp3", "iops": 4000, "throughput": 250}


@pytest.mark.parametrize(
    ("used", "device"),
    [
        ([], "/dev/sdf"),
        (["/dev/xvda", "/dev/sdf"], "/dev/sdg"),
        (["/dev/xvdf", "/dev/sdh"], "/dev/sdg"),
        (["xvdf", "/dev/sdg1", "/dev/xvdbh"], "/dev/sdh"),
        (list(DEVICES), ""),
    ],
)
def test_first_free_device_is_taken(used: list[str], device: str) -> None:
    """A device name in use is passed over, also under the name that Xen gives it; none is left where all are taken."""
    instance = {"block_device_mappings": [{"device_name": name} for name in used]}
    assert free_device([instance]) == device
