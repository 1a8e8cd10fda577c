"""What a finalizer does with a bucket that lost the object's tag."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_end import fate_of, remaining

from tests.unit.plugins.bucket_builders import (
    BUCKET,
    CREATED,
    FOREIGN_TAGS,
    asked,
    bucket_view,
    known,
    make_bucket,
    untagged,
)
from tests.unit.plugins.plugin_builders import UID, ago

FORCED = {"forceDelete": True, "checkInterval": "7m"}
NOT_EMPTY = {"error_code": "BucketNotEmpty", "message": "not empty", "request_id": "R2"}


def owned(**status: Any) -> dict[str, Any]:
    """Return an object that owned its bucket, and whose content may go."""
    return known(spec=FORCED, ownerUid=UID, **status)


@pytest.mark.parametrize(
    ("obj", "bucket", "delete", "force"),
    [
        (owned(), make_bucket(), True, True),
        (owned(), {**untagged(), "creation_date": CREATED}, True, True),
        (owned(lastCheckedAt=ago(60)), untagged(age=2000), True, True),
        (owned(missingSince=ago(90)), untagged(age=60), False, False),
        (owned(), make_bucket(tags=FOREIGN_TAGS), False, False),
        (known(ownerUid=UID), make_bucket(), True, False),
    ],
    ids=["tagged", "the very one", "moved before the last look", "missed", "another's", "no force"],
)
def test_owned_bucket_is_deleted_by_what_is_recorded(
    obj: dict[str, Any],
    bucket: dict[str, Any],
    delete: bool,  # noqa: FBT001 - a table
    force: bool,  # noqa: FBT001 - a table
) -> None:
    """It isn't left behind because its date moved; its content goes only where no later bucket can be meant."""
    fate = fate_of(bucket_view(obj, bucket))
    assert (fate.delete, fate.force, fate.reason, bool(fate.leaves)) == (delete, force, "", not delete)


def test_bucket_that_stays_behind_is_told_with_the_reason() -> None:
    """The Event says what was compared, as nothing else is left to ask when the object is gone."""
    leaves = fate_of(bucket_view(owned(missingSince=ago(90)), untagged(age=60))).leaves
    assert leaves.startswith(f"left bucket {BUCKET} alone: it doesn't carry this object's tag any more")
    assert f"wasn't there at {ago(90)}" in leaves


@pytest.mark.parametrize("date", [ago(60), ""], ids=["its date moved", "its date is unknown"])
def test_bucket_that_may_be_a_later_one_keeps_the_finalizer(date: str) -> None:
    """It isn't deleted, let alone emptied; the condition has the reason and the remedy."""
    fate = fate_of(bucket_view(owned(), {**untagged(), "creation_date": date}))
    assert (fate.delete, fate.force, fate.reason, fate.wait) == (False, False, "OwnershipUnproven", "7m")
    assert f"its creation date is {date or 'unknown'}, recorded is {CREATED}" in fate.message
    assert f"set its tag ansible-operator.io/uid to {UID} if it's this object's" in fate.message
    assert "delete this object with deletionPolicy: Retain" in fate.message


def test_content_of_what_came_of_a_call_keeps_the_finalizer() -> None:
    """A bucket that counts as the object's by its time only isn't emptied; the condition has S3's answer."""
    obj = asked(30)
    obj["spec"].update(FORCED)
    kept = remaining(bucket_view(obj, untagged(age=25, empty=True)), {"refusal": NOT_EMPTY})
    assert (kept["reason"], kept["wait"]) == ("OwnershipUnproven", "7m")
    assert f"set its tag ansible-operator.io/uid to {UID} to have it emptied and deleted" in kept["message"]
    assert "AWS answered BucketNotEmpty: not empty (request id R2)" in kept["message"]


@pytest.mark.parametrize(
    ("obj", "bucket", "restore"),
    [
        (owned(), make_bucket(), False),
        (owned(), {**untagged(), "creation_date": CREATED}, True),
        (owned(lastCheckedAt=ago(60)), untagged(age=2000), True),
        (asked(30), untagged(age=25, empty=True), False),
    ],
    ids=["tagged", "the very one", "moved before the last look", "what came of a call"],
)
def test_tag_is_put_back_before_a_deletion_that_may_take_several_runs(
    obj: dict[str, Any],
    bucket: dict[str, Any],
    restore: bool,  # noqa: FBT001 - a table
) -> None:
    """The next look of the finalizer no longer knows the last one that saw the tag; a guess never becomes a tag."""
    fate = fate_of(bucket_view(obj, bucket))
    assert (fate.delete, fate.restore) == (True, restore)
