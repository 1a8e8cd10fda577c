"""The status that a run writes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.failures import failure_of
from ansible_collections.aws_operator.core.plugins.module_utils.plan import make_plan
from ansible_collections.aws_operator.core.plugins.module_utils.status import Update, failed_update_of, update_of

from tests.unit.plugins.plugin_builders import ago, make_instance, make_object, make_view

NOW_TEXT = ago(0)


def write(obj: dict[str, Any], *instances: dict[str, Any]) -> Update:
    """Return the write for what AWS shows."""
    view = make_view(obj, instances=list(instances))
    plan = make_plan(view)
    update: Update = update_of(view, plan, instance=plan.instance)
    return update


def settle(obj: dict[str, Any], *instances: dict[str, Any]) -> dict[str, Any]:
    """Return the object after the write, as the API server would keep it."""
    update = write(obj, *instances)
    status = {**obj["status"], **update.status, "conditions": list(update.conditions)}
    return {**obj, "status": {key: value for key, value in status.items() if value is not None}}


def test_running_instance_is_ready() -> None:
    """A running instance that fits its spec is Ready, with its addresses in the status."""
    update = write(make_object(launchAttempt=1), make_instance())
    assert update.status["publicIp"] == "203.0.113.7"
    assert update.status["launchTime"] == "2026-11-29T11:00:00Z"
    assert update.status["observedGeneration"] == 3
    assert [(item["status"], item["reason"]) for item in update.conditions] == [("True", "Running")]
    assert update.settled


def test_unchanged_instance_moves_only_the_time_of_the_look() -> None:
    """A second look at the same instance writes lastCheckedAt and counts as no change."""
    obj = settle(make_object(launchAttempt=1), make_instance())
    update = write(obj, make_instance())
    assert dict(update.status) == {"lastCheckedAt": NOW_TEXT}
    assert not update.changed


def test_any_other_change_moves_the_time_of_the_update() -> None:
    """A new address moves lastUpdatedAt."""
    obj = settle(make_object(launchAttempt=1), make_instance())
    obj["status"]["lastUpdatedAt"] = ago(500)
    update = write(obj, make_instance(public_ip_address="203.0.113.8"))
    assert dict(update.status) == {"publicIp": "203.0.113.8", "lastCheckedAt": NOW_TEXT, "lastUpdatedAt": NOW_TEXT}


def test_lost_address_leaves_the_status() -> None:
    """A stopped instance has no public address, and none stays in the status."""
    obj = settle(make_object(launchAttempt=1), make_instance())
    update = write(obj, make_instance(state="stopped", public_ip_address=None))
    assert update.status["publicIp"] is None


def test_transition_time_moves_with_the_status_only() -> None:
    """The time of Ready's transition stays while its status is the same."""
    obj = settle(make_object(launchAttempt=1), make_instance())
    obj["status"]["conditions"][0]["lastTransitionTime"] = ago(900)
    assert write(obj, make_instance()).conditions[0]["lastTransitionTime"] == ago(900)
    assert write(obj, make_instance(state="pending")).conditions[0]["lastTransitionTime"] == NOW_TEXT


@pytest.mark.parametrize(
    ("spec", "instance", "reason"),
    [
        ({}, make_instance(state="pending"), "Pending"),
        ({}, make_instance(state="stopped"), "Starting"),
        ({"powerState": "Stopped"}, make_instance(state="running"), "Stopping"),
        ({"instanceType": "t3.large"}, make_instance(), "StopRequired"),
        ({"imageId": "ami-0c0ffee0000000002"}, make_instance(), "ImmutableFieldChanged"),
    ],
)
def test_reasons_for_not_being_ready(spec: dict[str, Any], instance: dict[str, Any], reason: str) -> None:
    """What keeps an object from being Ready is told by its reason."""
    update = write(make_object(spec=spec, launchAttempt=1), instance)
    assert [(item["status"], item["reason"]) for item in update.conditions] == [("False", reason)]


def test_immutable_change_names_the_field() -> None:
    """The message of an immutable change names field, both values and the remedy."""
    message = write(make_object(spec={"imageId": "ami-0c0ffee0000000002"}, launchAttempt=1), make_instance())
    text = message.conditions[0]["message"]
    assert "imageId: the spec says ami-0c0ffee0000000002, the instance has ami-0c0ffee0000000001" in text
    assert "replacementPolicy" in text


def test_surplus_instance_is_reported() -> None:
    """A second live instance with the object's tag takes Ready away and is named."""
    obj = make_object(launchAttempt=1, instanceId=make_instance()["instance_id"])
    update = write(obj, make_instance(), make_instance(attempt=2))
    assert update.conditions[0]["reason"] == "SurplusInstances"
    assert make_instance(attempt=2)["instance_id"] in update.conditions[0]["message"]


def test_missing_instance_keeps_its_record() -> None:
    """While an instance is invisible its id stays and the time of the first miss is kept."""
    obj = make_object(launchAttempt=1, instanceId="i-00000001", missingSince=ago(20), launchRequestedAt=ago(900))
    update = write(obj)
    assert "instanceId" not in update.status
    assert "missingSince" not in update.status
    assert update.conditions[0]["reason"] == "NotVisible"
    assert not update.settled


def test_terminated_instance_of_a_stopped_object_is_told() -> None:
    """A terminated instance that isn't replaced is never Ready, and isn't looked at every few seconds (E2)."""
    ended = make_instance(state="terminated")
    obj = make_object(spec={"powerState": "Stopped"}, launchAttempt=1, instanceId=ended["instance_id"])
    update = write(obj, ended)
    assert (update.status["state"], update.conditions[0]["reason"]) == ("terminated", "Terminated")
    assert update.settled


def test_failure_of_aws_has_code_and_request_id() -> None:
    """AWS's code becomes the reason, and the message has code and request id."""
    failure = failure_of({"msg": "x", "error_code": "InvalidAMIID.NotFound", "request_id": "r-1", "message": "no ami"})
    assert failure.reason == "InvalidAMIIDNotFound"
    assert failure.message == (
        "AWS answered InvalidAMIID.NotFound: no ami (request id r-1); "
        "correct spec.imageId or spec.region: an image belongs to one region"
    )


def test_failure_of_a_stock_module_has_code_and_request_id() -> None:
    """The result of an `amazon.aws` module is read as well."""
    result = {
        "msg": "Failed to describe instances: ...",
        "error": {"code": "UnauthorizedOperation", "message": "You are not authorized"},
        "response_metadata": {"request_id": "r-2"},
    }
    assert failure_of(result).message == (
        "AWS answered UnauthorizedOperation: You are not authorized (request id r-2); "
        "the credentials lack this right: grant it, or give others"
    )


def test_failure_of_a_loop_is_that_of_its_first_failed_item() -> None:
    """A loop's failure tells what AWS said, not that some items failed."""
    items = [{"failed": False}, {"failed": True, "error_code": "OperationNotPermitted", "message": "protected"}]
    failure = failure_of({"failed": True, "msg": "One or more items failed", "results": items})
    assert failure.reason == "OperationNotPermitted"


def test_own_failure_has_its_reason_in_front() -> None:
    """A refusal of the role itself gives its reason and sentence."""
    failure = failure_of({"msg": "RegionMissing: set spec.region"})
    assert (failure.reason, failure.message) == ("RegionMissing", "set spec.region")


def test_long_message_is_cut() -> None:
    """An encoded authorization message doesn't flood the condition."""
    failure = failure_of({"error_code": "UnauthorizedOperation", "message": "x" * 5000})
    assert len(failure.message) < 1200


@pytest.mark.parametrize(
    ("code", "key", "value"),
    [
        ("IdempotentInstanceTerminated", "launchAttempt", 3),
        ("IdempotentParameterMismatch", "missingSince", NOW_TEXT),
    ],
)
def test_spent_token_is_noted(code: str, key: str, value: object) -> None:
    """A token that AWS doesn't take any more leads on to the next attempt, at once or after the grace period (E1)."""
    view = make_view(make_object(launchAttempt=2))
    failure = failure_of({"error_code": code, "message": "spent"})
    update = failed_update_of(view, failure, plan=make_plan(view))
    assert update.status[key] == value
    assert update.conditions[0]["reason"] == code


def test_failure_does_not_claim_a_look() -> None:
    """A run that failed leaves lastCheckedAt alone."""
    view = make_view(make_object(launchAttempt=2))
    update = failed_update_of(view, failure_of({"msg": "broken"}), plan=None)
    assert "lastCheckedAt" not in update.status
    assert update.conditions[0]["reason"] == "ReconcileFailed"
