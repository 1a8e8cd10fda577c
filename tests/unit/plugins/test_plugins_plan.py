"""What to do for an object and the instances that AWS shows."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.identity import client_token
from ansible_collections.aws_operator.core.plugins.module_utils.instances import launch_digests
from ansible_collections.aws_operator.core.plugins.module_utils.plan import make_plan, record_of

from tests.unit.plugins.plugin_builders import SPEC, UID, ago, make_instance, make_object, make_view


def test_first_launch() -> None:
    """An object without any attempt launches the first one, with its tags."""
    plan = make_plan(make_view(make_object()))
    assert (plan.phase, plan.attempt, plan.token) == ("Launch", 1, client_token(uid=UID, attempt=1))
    assert plan.tags["ansible-operator.io/uid"] == UID


def test_launch_without_an_answer_is_repeated_with_its_token() -> None:
    """An attempt that is recorded without an instance is asked for again, never as a new one (E1)."""
    plan = make_plan(make_view(make_object(launchAttempt=4, launchRequestedAt=ago(3600))))
    assert (plan.phase, plan.attempt) == ("Launch", 4)


def test_launched_instance_is_adopted_by_its_tag() -> None:
    """An instance that carries the UID tag is the object's, though its id was never recorded (E1)."""
    plan = make_plan(make_view(make_object(launchAttempt=1), instances=[make_instance()]))
    assert (plan.phase, plan.instance["instance_id"]) == ("Present", make_instance()["instance_id"])


@pytest.mark.parametrize(
    ("status", "instances", "attempt", "cleared"),
    [
        ({}, [], 1, True),
        ({"launchAttempt": 1}, [], 1, False),
        ({"launchAttempt": 1, "missingSince": ago(61)}, [], 2, True),
        (
            {"launchAttempt": 1, "missingSince": ago(61), "launchRequestedAt": ago(99), "instanceId": "i-00000001"},
            [],
            2,
            True,
        ),
        ({"launchAttempt": 1, "missingSince": ago(30)}, [make_instance(attempt=2, state="terminated")], 3, True),
    ],
)
def test_next_launch_begins_without_the_last_ones_time(
    *, status: dict[str, Any], instances: list[dict[str, Any]], attempt: int, cleared: bool
) -> None:
    """Since when an instance is missing is kept for one attempt, and cleared with the next: each has its own grace."""
    view = make_view(make_object(**status), instances=instances)
    record = record_of(view, attempt=make_plan(view).attempt)
    assert (record["launchAttempt"], "missingSince" in record) == (attempt, cleared)
    assert (record["launchRequestedAt"], record["clusterId"], record["instanceId"]) == (ago(0), "c1", None)
    assert record["launchDigests"] == launch_digests(SPEC)


@pytest.mark.parametrize("since", [None, 0, 30])
def test_invisible_instance_is_waited_for(since: int | None) -> None:
    """An instance that AWS doesn't show is waited for within the grace period, never launched anew (E1)."""
    status: dict[str, Any] = {"launchAttempt": 1, "instanceId": "i-00000001", "launchRequestedAt": ago(3600)}
    if since is not None:
        status["missingSince"] = ago(since)
    assert make_plan(make_view(make_object(**status))).phase == "Wait"


def test_fresh_instance_is_waited_for_though_missing_long() -> None:
    """A launch within the grace period outweighs an old mark of absence."""
    obj = make_object(launchAttempt=1, instanceId="i-00000001", launchRequestedAt=ago(10), missingSince=ago(600))
    assert make_plan(make_view(obj)).phase == "Wait"


def test_vanished_instance_is_replaced_after_the_grace_period() -> None:
    """An instance that stays invisible counts as gone and a new attempt begins (E2)."""
    obj = make_object(launchAttempt=1, instanceId="i-00000001", launchRequestedAt=ago(600), missingSince=ago(61))
    plan = make_plan(make_view(obj))
    assert (plan.phase, plan.attempt, plan.replaced_id) == ("Launch", 2, "i-00000001")


@pytest.mark.parametrize("state", ["terminated", "shutting-down"])
def test_terminated_instance_is_replaced_and_never_adopted(state: str) -> None:
    """An instance that has ended leads to the next attempt, though it still carries the tag (E2)."""
    ended = make_instance(state=state)
    obj = make_object(launchAttempt=1, instanceId=ended["instance_id"])
    plan = make_plan(make_view(obj, instances=[ended]))
    assert (plan.phase, plan.attempt, plan.replaced_id) == ("Launch", 2, ended["instance_id"])


def test_terminated_instance_of_a_stopped_object_is_not_replaced() -> None:
    """With powerState Stopped nothing replaces a terminated instance."""
    ended = make_instance(state="terminated")
    obj = make_object(spec={"powerState": "Stopped"}, launchAttempt=1, instanceId=ended["instance_id"])
    assert make_plan(make_view(obj, instances=[ended])).phase == "Hold"


def test_ended_instance_whose_id_was_never_recorded_spends_its_attempt() -> None:
    """A known token of an ended instance isn't used again, though the status lost the id and the attempt (E1)."""
    obj = make_object(launchAttempt=1)
    plan = make_plan(make_view(obj, instances=[make_instance(state="terminated", attempt=3)]))
    assert (plan.phase, plan.attempt) == ("Launch", 4)


def test_old_terminated_instance_does_not_spend_the_present_attempt() -> None:
    """While attempt 2 has no answer, the end of attempt 1 doesn't start attempt 3 (E1)."""
    plan = make_plan(make_view(make_object(launchAttempt=2), instances=[make_instance(state="terminated", attempt=1)]))
    assert (plan.phase, plan.attempt) == ("Launch", 2)


def test_spent_token_moves_on_after_the_grace_period() -> None:
    """A token that AWS knows for another request is given up once nothing of it has shown up."""
    refused = make_object(launchAttempt=2, launchRequestedAt=ago(90), missingSince=ago(90))
    assert make_plan(make_view(refused)).attempt == 3
    assert make_plan(make_view(make_object(launchAttempt=2, missingSince=ago(5)))).attempt == 2


def test_recorded_instance_is_preferred_and_others_are_reported() -> None:
    """Of several live instances the recorded one is used and the others are named, not touched."""
    first, second = make_instance(attempt=1), make_instance(attempt=2)
    obj = make_object(launchAttempt=2, instanceId=second["instance_id"])
    plan = make_plan(make_view(obj, instances=[first, second]))
    assert plan.instance["instance_id"] == second["instance_id"]
    assert list(plan.surplus) == [first["instance_id"]]


@pytest.mark.parametrize(
    ("state", "wanted", "power"),
    [
        ("running", "Running", ""),
        ("stopped", "Running", "start"),
        ("running", "Stopped", "stop"),
        ("stopped", "Stopped", ""),
        ("pending", "Stopped", ""),
        ("stopping", "Running", ""),
    ],
)
def test_power(state: str, wanted: str, power: str) -> None:
    """Start and stop are asked for only of an instance that stands still."""
    obj = make_object(spec={"powerState": wanted}, launchAttempt=1)
    assert make_plan(make_view(obj, instances=[make_instance(state=state)])).power == power


def test_right_instance_needs_nothing() -> None:
    """An instance that is as the spec says leads to no call."""
    obj = make_object(launchAttempt=1, launchDigests=launch_digests(SPEC), tagKeys=["Name"])
    plan = make_plan(make_view(obj, instances=[make_instance()]))
    assert (plan.phase, plan.power, plan.changes, list(plan.drift)) == ("Present", "", {}, [])
    assert (plan.tag_changes.add, plan.tag_changes.remove) == ({}, {})


@pytest.mark.parametrize(
    ("spec", "parts", "field"),
    [
        ({"imageId": "ami-0c0ffee0000000002"}, {}, "imageId"),
        ({"keyName": "mine"}, {"key_name": "theirs"}, "keyName"),
        ({"subnetId": "subnet-00000001"}, {"subnet_id": "subnet-00000002"}, "subnetId"),
        ({"userData": "#!/bin/sh"}, {}, "userData"),
        ({"storage": [{"deviceName": "/dev/xvda", "sizeGiB": 9}]}, {}, "storage"),
        ({"associatePublicIp": False}, {}, "associatePublicIp"),
    ],
)
@pytest.mark.parametrize(("policy", "phase"), [("Never", "Present"), ("OnImmutableChange", "Replace")])
def test_immutable_change(spec: dict[str, Any], parts: dict[str, Any], field: str, policy: str, phase: str) -> None:
    """A changed field that is fixed at the launch is named, and leads to a replacement where the policy says so."""
    obj = make_object(spec={**spec, "replacementPolicy": policy}, launchAttempt=1, launchDigests=[])
    plan = make_plan(make_view(obj, instances=[make_instance(**parts)]))
    assert plan.phase == phase
    assert [(item.field, item.action) for item in plan.drift] == [(field, "Immutable")]


def test_fields_without_a_digest_are_not_compared() -> None:
    """An adopted instance whose launch is unknown isn't called outdated for fields that AWS doesn't show."""
    obj = make_object(spec={"userData": "#!/bin/sh"}, launchAttempt=1)
    assert list(make_plan(make_view(obj, instances=[make_instance()])).drift) == []


@pytest.mark.parametrize(("state", "action"), [("stopped", "Repair"), ("running", "StopRequired")])
def test_type_change_needs_a_stopped_instance(state: str, action: str) -> None:
    """The type is changed while the instance is stopped, and waits otherwise."""
    obj = make_object(spec={"instanceType": "t3.large"}, launchAttempt=1)
    plan = make_plan(make_view(obj, instances=[make_instance(state=state)]))
    assert [(item.field, item.action) for item in plan.drift] == [("instanceType", action)]
    assert plan.changes == ({"instance_type": "t3.large"} if action == "Repair" else {})


def test_groups_and_profile_are_repaired_in_place() -> None:
    """Security groups in any order and a profile by name or ARN are compared, and set where they differ."""
    groups = [{"group_id": "sg-00000002"}, {"group_id": "sg-00000001"}]
    arn = {"arn": "arn:aws:iam::1:instance-profile/web"}
    spec = {"securityGroupIds": ["sg-00000001", "sg-00000002"], "iamInstanceProfile": "web"}
    same = make_instance(security_groups=groups, iam_instance_profile=arn)
    assert make_plan(make_view(make_object(spec=spec, launchAttempt=1), instances=[same])).changes == {}
    other = {"securityGroupIds": ["sg-00000003"], "iamInstanceProfile": "db"}
    plan = make_plan(make_view(make_object(spec=other, launchAttempt=1), instances=[same]))
    assert plan.changes == {"security_group_ids": ["sg-00000003"], "iam_instance_profile": "db"}


@pytest.mark.parametrize(("generation", "out_of_band"), [(3, True), (2, False)])
def test_difference_is_from_outside_only_where_the_spec_is_the_same(generation: int, out_of_band: bool) -> None:  # noqa: FBT001
    """A stopped instance is a change from outside where the last run left this very spec fulfilled (E2)."""
    ready = [{"type": "Ready", "status": "True"}]
    obj = make_object(launchAttempt=1, observedGeneration=generation, conditions=ready)
    plan = make_plan(make_view(obj, instances=[make_instance(state="stopped")]))
    assert plan.out_of_band is out_of_band
    assert plan.power == "start"
