"""The filters of the role `aws_common`: region, failures and waiting, for every kind."""

from __future__ import annotations

import pytest
from ansible_collections.aws_operator.core.plugins.filter.aws_common import FilterModule
from ansible_collections.aws_operator.core.plugins.module_utils.identity import Owner, wanted_tags

from tests.unit.plugins.plugin_builders import ago
from tests.unit.plugins.volume_builders import READY, make_volume_object

FILTERS = FilterModule().filters()


def refusal(code: str) -> dict[str, str]:
    """Return a failed result of one of our modules."""
    return {"error_code": code, "request_id": "r-1", "message": "no", "msg": f"{code}: no"}


@pytest.mark.parametrize(
    ("spec", "region"),
    [
        ({"region": "eu-central-1", "availabilityZone": "eu-central-1a"}, "eu-central-1"),
        ({"availabilityZone": "us-gov-west-1b"}, "us-gov-west-1"),
        ({"availabilityZone": "us-east-1-bos-1a"}, "us-east-1"),
        ({}, ""),
    ],
)
def test_region_is_that_of_the_zone(spec: dict[str, str], region: str) -> None:
    """Without a region that of the zone is taken, so that the operator's environment never moves an object."""
    assert FILTERS["aws_region"]({"spec": spec}) == region


def test_failure_becomes_condition_and_event() -> None:
    """AWS's code is the reason, its words and the request id are the message, and one Event warns."""
    update = FILTERS["aws_failed_update"](make_volume_object(createAttempt=1), refusal("Auth.Failure"))
    (condition,) = update["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "AuthFailure")
    assert "AWS answered Auth.Failure: no (request id r-1)" in condition["message"]
    assert [(event["type"], event["reason"]) for event in update["events"]] == [("Warning", "AuthFailure")]
    assert not {"missingSince", "lastCheckedAt"} & set(update["status"])


def test_spent_token_is_noted_once() -> None:
    """A token that AWS holds for another request starts a time that later refusals don't move."""
    first = FILTERS["aws_failed_update"](make_volume_object(createAttempt=1), refusal("IdempotentParameterMismatch"))
    assert first["status"]["missingSince"]
    known = make_volume_object(createAttempt=1, missingSince=ago(30))
    assert "missingSince" not in FILTERS["aws_failed_update"](known, refusal("IdempotentParameterMismatch"))["status"]


def test_waiting_is_told_once() -> None:
    """What a finalizer waits for is its condition, and an Event where it begins."""
    reason = {"reason": "StillDeleting", "message": "soon"}
    first = FILTERS["aws_waiting_update"](make_volume_object(conditions=READY), **reason)
    assert (first["conditions"][0]["status"], first["conditions"][0]["reason"]) == ("False", "StillDeleting")
    assert [event["reason"] for event in first["events"]] == ["StillDeleting"]
    again = FILTERS["aws_waiting_update"](make_volume_object(conditions=first["conditions"]), **reason)
    assert again["events"] == []


def test_name_tag_is_no_longer_than_aws_takes() -> None:
    """The Name of an object with long names is cut; the tags that say whose it is are whole."""
    owner = Owner(cluster_id="c1", uid="u", namespace="n" * 63, name="m" * 253)
    tags = wanted_tags(owner)
    assert (len(tags["Name"]), tags["ansible-operator.io/name"]) == (256, "m" * 253)
