"""The status of an S3Bucket, its Events, and what a finalizer does."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.aws_operator.core.plugins.filter.s3_bucket import FilterModule
from ansible_collections.aws_operator.core.plugins.modules.s3_create import create_request, is_definite
from ansible_collections.aws_operator.core.plugins.modules.s3_delete import Emptied
from ansible_collections.aws_operator.core.plugins.modules.s3_modify import merged_tags

from tests.unit.plugins.bucket_builders import (
    ABSENT,
    ACCOUNT,
    BUCKET,
    CREATED,
    ELSEWHERE,
    FOREIGN_TAGS,
    OPEN,
    asked,
    known,
    make_bucket,
    make_bucket_object,
    seen,
    untagged,
)
from tests.unit.plugins.plugin_builders import UID, ago

FILTERS = FilterModule().filters()
TAKEN = {"error_code": "BucketAlreadyExists", "message": "not available", "request_id": "R1"}
NOT_EMPTY = {"error_code": "BucketNotEmpty", "message": "not empty", "request_id": "R2"}
LOCKED = {"error_code": "AccessDenied", "message": "locked (3 in all)", "request_id": ""}
BEFORE: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "False", "reason": "NotOurs"}]}


def status_of(obj: dict[str, Any], bucket: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return the update that ends a run."""
    update: dict[str, Any] = FILTERS["s3_status"](obj, seen(bucket), **parts)
    return update


def ready_of(update: dict[str, Any]) -> tuple[str, str, bool]:
    """Return status and reason of Ready, and whether the next look can wait."""
    return update["conditions"][0]["status"], update["conditions"][0]["reason"], update["settled"]


def fate_of(obj: dict[str, Any], bucket: dict[str, Any]) -> dict[str, Any]:
    """Return what a finalizer does."""
    fate: dict[str, Any] = FILTERS["s3_fate"](obj, seen(bucket))
    return fate


def remaining(spec: dict[str, Any] | None = None, **result: Any) -> dict[str, Any]:
    """Return what keeps the bucket after a deletion."""
    kept: dict[str, Any] = FILTERS["s3_remaining"](known(spec=spec), seen(make_bucket()), result=result)
    return kept


def test_bucket_object_without_uid_is_refused() -> None:
    """Without a UID no bucket is ever looked at."""
    with pytest.raises(AnsibleFilterError, match=r"no metadata\.uid"):
        FILTERS["s3_plan"]({"metadata": {"name": "web"}, "spec": {}}, seen(ABSENT))


def test_status_tells_the_bucket_as_it_is() -> None:
    """Once the bucket is ours, the status has its name, account, age and settings."""
    update = status_of(make_bucket_object(), make_bucket(versioning="Enabled", lifecycle_rules=[{"ID": "theirs"}]))
    told = {key: update["status"][key] for key in ("bucketName", "accountId", "createTime", "region", "versioning")}
    assert told == {
        "bucketName": BUCKET,
        "accountId": ACCOUNT,
        "createTime": CREATED,
        "region": "us-east-1",
        "versioning": "Enabled",
    }
    assert (update["status"]["encryption"], update["status"]["publicAccess"]) == ("AES256", "Blocked")
    assert (update["status"]["lifecycleRules"], ready_of(update)) == (1, ("True", "Available", True))


def test_unchanged_bucket_moves_the_time_of_the_look_only() -> None:
    """A status that says it all already is left alone but for lastCheckedAt."""
    first = status_of(known(), make_bucket())
    obj = known(**{**first["status"], "conditions": first["conditions"]})
    again = status_of(obj, make_bucket())
    assert (again["changed"], set(again["status"]), again["events"]) == (False, {"lastCheckedAt"}, [])


@pytest.mark.parametrize(
    ("obj", "bucket", "expected"),
    [
        (make_bucket_object(), untagged(), ("False", "NotOurs", True)),
        (make_bucket_object(), ELSEWHERE, ("False", "BucketAlreadyExists", True)),
        (known(missingSince=ago(90)), ABSENT, ("False", "BucketLost", True)),
        (known(), ABSENT, ("False", "NotVisible", False)),
        (known(ownerUid=UID), untagged(age=60), ("False", "OwnershipUnproven", True)),
        (asked(), {**untagged(empty=True), "creation_date": ""}, ("False", "Creating", False)),
        (known(), make_bucket(public_access_block=OPEN), ("False", "Updating", False)),
    ],
)
def test_what_keeps_a_bucket_from_being_ready(
    obj: dict[str, Any], bucket: dict[str, Any], expected: tuple[str, str, bool]
) -> None:
    """Each case has its reason; what only a person can put right is looked at in the ordinary interval."""
    assert ready_of(status_of(obj, bucket)) == expected


def test_foreign_bucket_is_told_with_its_owner_and_the_remedy() -> None:
    """The message names who has the bucket by its tags, and how it can be handed over; the Event comes once."""
    update = status_of(make_bucket_object(), make_bucket(tags=FOREIGN_TAGS))
    message = update["conditions"][0]["message"]
    assert "belongs to a/? of cluster ?" in message
    assert f"setting its tag ansible-operator.io/uid to {UID}" in message
    assert [event["reason"] for event in update["events"]] == ["NotOurs"]
    assert status_of(make_bucket_object(**BEFORE), make_bucket(tags=FOREIGN_TAGS))["events"] == []


def test_bucket_that_may_be_a_later_one_is_told_with_the_remedy() -> None:
    """The message says what was compared and what a person can do; the Event comes once."""
    update = status_of(known(ownerUid=UID), untagged(age=60))
    message = update["conditions"][0]["message"]
    assert f"its creation date is {ago(60)}, recorded is {CREATED}, so that it may be a later one" in message
    assert f"set its tag ansible-operator.io/uid to {UID} if it's this object's" in message
    assert "delete this object with deletionPolicy: Retain" in message
    assert [event["reason"] for event in update["events"]] == ["OwnershipUnproven"]
    told = known(ownerUid=UID, conditions=update["conditions"])
    assert status_of(told, untagged(age=60))["events"] == []


@pytest.mark.parametrize("bucket", [ABSENT, ELSEWHERE], ids=["absent", "another account's"])
def test_look_that_misses_the_bucket_is_recorded(bucket: dict[str, Any]) -> None:
    """Ours is gone also where another account has the name, and what comes back under it later is a later bucket."""
    update = status_of(known(ownerUid=UID), bucket)
    assert update["status"]["missingSince"] == ago(0)
    back = known(**{"ownerUid": UID, **update["status"], "conditions": update["conditions"]})
    assert ready_of(status_of(back, {**untagged(), "creation_date": ago(2000)})) == ("False", "NotOurs", True)
    assert "missingSince" not in status_of(make_bucket_object(), bucket)["status"]


def test_refused_creation_is_told_with_the_code() -> None:
    """A name that another account has ends in a condition with S3's code; the attempts stay as the run stored them."""
    update = status_of(asked(), ABSENT, refusal=TAKEN)
    assert ready_of(update) == ("False", "BucketAlreadyExists", True)
    assert "AWS answered BucketAlreadyExists: not available (request id R1)" in update["conditions"][0]["message"]
    assert [key for key in update["status"] if key.startswith("create")] == []


def test_bucket_that_another_object_took_over_is_given_up() -> None:
    """Once another object's tag was seen on it, losing that tag too doesn't bring the bucket back."""
    obj = known(ownerUid=UID)
    update = status_of(obj, make_bucket(tags=FOREIGN_TAGS))
    assert (update["status"]["ownerUid"], update["status"]["createTime"]) == (None, None)
    given_up = known(createTime=None)
    assert ready_of(status_of(given_up, {**untagged(), "creation_date": CREATED})) == ("False", "NotOurs", True)


def test_owner_is_recorded_with_the_bucket() -> None:
    """The status says for which UID it holds, from the first look that sees our tag."""
    assert status_of(make_bucket_object(), make_bucket())["status"]["ownerUid"] == UID


@pytest.mark.parametrize(
    ("obj", "bucket", "reasons"),
    [
        (make_bucket_object(), ABSENT, ["Created"]),
        (asked(), untagged(age=30, empty=True), ["Created"]),
        (asked(), make_bucket(public_access_block=OPEN), ["Created"]),
        (make_bucket_object(), make_bucket(public_access_block=OPEN), ["Adopted"]),
        (known(), make_bucket(public_access_block=OPEN), ["DriftFound", "DriftRepaired"]),
        (known(observedGeneration=2), make_bucket(public_access_block=OPEN), ["Updated"]),
        (known(), {**untagged(), "creation_date": CREATED}, ["DriftFound", "DriftRepaired"]),
    ],
)
def test_events_of_what_a_run_did(obj: dict[str, Any], bucket: dict[str, Any], reasons: list[str]) -> None:
    """A run tells what it carried out, by the plans that it had."""
    done = [FILTERS["s3_plan"](obj, seen(bucket))]
    assert [event["reason"] for event in status_of(obj, make_bucket(), done=done)["events"]] == reasons


def test_creation_is_told_only_of_a_bucket_that_is_ours() -> None:
    """S3 answers success for a bucket that was there too: what is seen after it decides what is told."""
    done = [FILTERS["s3_plan"](make_bucket_object(), seen(ABSENT))]
    for bucket, reasons in ((untagged(), ["NotOurs"]), ({**untagged(), "tags_kept": True}, []), (ABSENT, [])):
        events = FILTERS["s3_status"](make_bucket_object(), seen(bucket, intent=done[0]["record"]), done=done)["events"]
        assert [event["reason"] for event in events] == reasons


def test_handed_over_bucket_is_told() -> None:
    """A bucket that a person gave the object's UID tag is the object's from then on, with an Event."""
    assert [event["reason"] for event in status_of(make_bucket_object(), make_bucket())["events"]] == ["Adopted"]


@pytest.mark.parametrize(
    ("obj", "bucket", "delete", "reason"),
    [
        (known(), make_bucket(), True, ""),
        (asked(30), untagged(age=30, empty=True), True, ""),
        (known(), {**untagged(), "creation_date": CREATED}, True, ""),
        (known(), untagged(age=10), False, ""),
        (known(), make_bucket(tags=FOREIGN_TAGS), False, ""),
        (asked(30), make_bucket(tags=FOREIGN_TAGS), False, ""),
        (make_bucket_object(), untagged(), False, ""),
        (known(), ABSENT, False, ""),
        (asked(30), ABSENT, False, "CreationUndecided"),
        (asked(179), ABSENT, False, "CreationUndecided"),
        (asked(181), ABSENT, False, ""),
        (asked(30), ELSEWHERE, False, "CreationUndecided"),
        (asked(181), ELSEWHERE, False, ""),
    ],
)
def test_finalizer_deletes_only_what_is_known_to_be_ours(
    obj: dict[str, Any],
    bucket: dict[str, Any],
    delete: bool,  # noqa: FBT001 - a table
    reason: str,
) -> None:
    """Another's bucket is left alone, and one that may still come is waited for."""
    fate = fate_of(obj, bucket)
    assert (fate["delete"], fate["reason"]) == (delete, reason)
    assert fate["claim"] == (delete and not bucket.get("tags"))
    assert bool(fate["leaves"]) == (not delete and not reason and bucket["exists"])


@pytest.mark.parametrize(
    ("spec", "result", "reason", "wait"),
    [
        ({}, {}, "", ""),
        ({}, {"visible": True}, "StillDeleting", ""),
        ({"checkInterval": "7m"}, {"refusal": NOT_EMPTY}, "BucketNotEmpty", "7m"),
        ({"forceDelete": True}, {"refusal": NOT_EMPTY, "versions": 2}, "BucketNotEmpty", ""),
        ({"forceDelete": True}, {"unfinished": True, "versions": 1000}, "Emptying", ""),
        ({"forceDelete": True}, {"unfinished": True, "versions": 9, "refusal": LOCKED}, "Emptying", ""),
        ({"forceDelete": True}, {"unfinished": True, "refusal": LOCKED}, "ContentNotDeletable", "2m"),
        ({"forceDelete": True}, {"refusal": LOCKED}, "ContentNotDeletable", "2m"),
    ],
)
def test_what_keeps_the_finalizer(spec: dict[str, Any], result: dict[str, Any], reason: str, wait: str) -> None:
    """A bucket that isn't empty stays and is asked again in the interval; emptying goes on at once."""
    kept = remaining(spec, **result)
    assert (kept["reason"], kept["wait"]) == (reason, wait)


def test_bucket_that_is_not_empty_is_told_with_the_remedy() -> None:
    """The message says what to do, with S3's code and request id."""
    message = remaining(refusal=NOT_EMPTY)["message"]
    assert "empty it, old versions and delete markers included, or set forceDelete: true" in message
    assert "AWS answered BucketNotEmpty: not empty (request id R2)" in message


def test_first_object_that_stays_is_told() -> None:
    """Of many refused deletions the first is told, with their number."""
    done = Emptied(errors=[{"Code": "AccessDenied", "Message": "locked"}] * 3)
    assert done.refusal == LOCKED
    assert Emptied().refusal == {}


def test_creation_names_its_region_and_tags() -> None:
    """us-east-1 is the one region that CreateBucket must not name; the tags go in the same call."""
    tags = {"a": 1}
    here = create_request(bucket=BUCKET, region="us-east-1", tags=tags)
    there = create_request(bucket=BUCKET, region="eu-central-1", tags=tags)
    carried = [{"Key": "a", "Value": "1"}]
    assert here == {"Bucket": BUCKET, "CreateBucketConfiguration": {"Tags": carried}}
    assert there["CreateBucketConfiguration"] == {"Tags": carried, "LocationConstraint": "eu-central-1"}


@pytest.mark.parametrize(
    ("code", "status", "once", "repeated"),
    [
        ("AccessDenied", 403, True, False),
        ("BucketAlreadyExists", 409, True, True),
        ("BucketAlreadyOwnedByYou", 409, True, False),
        ("OperationAborted", 409, False, False),
        ("InternalError", 500, False, False),
        ("SlowDown", 503, False, False),
    ],
)
def test_which_refusals_of_a_creation_are_for_good(code: str, status: int, once: bool, repeated: bool) -> None:  # noqa: FBT001 - a table
    """A bucket may still come where S3 is busy or failed in itself, or of the call before a repeated one."""
    assert (is_definite(code, status, repeated=False), is_definite(code, status)) == (once, repeated)


def test_tags_are_written_beside_those_of_others() -> None:
    """PutBucketTagging replaces all tags, so that others' and AWS's go along; a changed one isn't taken away."""
    current = {"aws:x": "1", "theirs": "2", "gone": "3", "changed": "5"}
    assert merged_tags(current, add={"ours": 7}, remove={"gone": "3", "changed": "4"}) == {
        "aws:x": "1",
        "theirs": "2",
        "changed": "5",
        "ours": "7",
    }
