"""What to do for an S3Bucket and the bucket that S3 shows: whose it is, and where it differs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.bucket_plan import make_plan

from tests.unit.plugins.bucket_builders import (
    ABSENT,
    ACCOUNT,
    AES256,
    BLOCKED,
    CREATED,
    ELSEWHERE,
    FOREIGN_TAGS,
    OPEN,
    asked,
    bucket_view,
    known,
    make_bucket,
    make_bucket_object,
    untagged,
)
from tests.unit.plugins.plugin_builders import OWNER, UID, ago

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234"


def phase(obj: dict[str, Any], bucket: dict[str, Any]) -> str:
    """Return what a run is about."""
    return str(make_plan(bucket_view(obj, bucket)).phase)


def changes(spec: dict[str, Any], **bucket: Any) -> dict[str, Any]:
    """Return what is changed in place."""
    return dict(make_plan(bucket_view(known(spec=spec), make_bucket(**bucket))).changes)


def kms(**rule: Any) -> dict[str, Any]:
    """Return S3's encryption by KMS."""
    how = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    return {"Rules": [{"ApplyServerSideEncryptionByDefault": how, **rule}]}


def test_creation_comes_with_what_to_store() -> None:
    """Where there is no such bucket it's created with its tags, and what is stored before has S3's own time."""
    plan = make_plan(bucket_view(make_bucket_object(), ABSENT, asked_at=ago(7)))
    stored = {"createAttempt": 1, "createRequestedAt": ago(7), "accountId": ACCOUNT, "clusterId": "c1"}
    intent = {**stored, "ownerUid": UID, "createAnsweredAt": None}
    assert (plan.phase, plan.record, plan.tags["ansible-operator.io/uid"]) == ("Create", intent, UID)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, (None, None, None)),
        ({"createAttempt": 1, "createRequestedAt": ago(60), "ownerUid": UID}, (1, ago(60), None)),
        ({"createAttempt": 2, "createRequestedAt": ago(60), "createAnsweredAt": ago(50)}, (2, ago(60), ago(50))),
        ({"createAttempt": 1, "createRequestedAt": ago(60), "ownerUid": "another"}, (None, None, None)),
    ],
    ids=["the first", "without an end", "with its end", "of another object's status"],
)
def test_creation_that_came_to_nothing_leaves_what_is_known_of_an_earlier_one(
    status: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    """A bucket may still come of an earlier call without an answer, so that it's recorded again."""
    undo = make_plan(bucket_view(make_bucket_object(**status), ABSENT)).undo
    assert tuple(undo[key] for key in ("createAttempt", "createRequestedAt", "createAnsweredAt")) == expected


def test_creation_of_this_run_is_the_objects_whosever_status_it_began_with() -> None:
    """What the run stored of its own call, the UID included, stands above a status that was copied."""
    intent = {"createAttempt": 1, "createRequestedAt": ago(30), "ownerUid": UID}
    view = bucket_view(make_bucket_object(ownerUid="another"), untagged(age=25, empty=True), intent=intent)
    assert make_plan(view).phase == "Claim"


def test_creation_without_an_answer_is_asked_for_again() -> None:
    """An attempt of which nothing is seen is repeated."""
    assert phase(asked(3600), ABSENT) == "Create"


@pytest.mark.parametrize(
    ("obj", "bucket", "expected"),
    [
        (make_bucket_object(), untagged(), "NotOurs"),
        (make_bucket_object(), untagged(age=0, empty=True), "NotOurs"),
        (make_bucket_object(), make_bucket(tags=FOREIGN_TAGS), "NotOurs"),
        (make_bucket_object(), ELSEWHERE, "Elsewhere"),
        (make_bucket_object(), make_bucket(), "Present"),
        (asked(), make_bucket(tags=FOREIGN_TAGS), "NotOurs"),
        (asked(), ELSEWHERE, "Elsewhere"),
        (known(), make_bucket(tags=FOREIGN_TAGS), "NotOurs"),
    ],
)
def test_only_the_uid_tag_makes_a_bucket_ours(obj: dict[str, Any], bucket: dict[str, Any], expected: str) -> None:
    """A bucket that was there already is used only where it carries this object's UID tag."""
    plan = make_plan(bucket_view(obj, bucket))
    assert (plan.phase, plan.acts) == (expected, False)


@pytest.mark.parametrize(
    ("age", "empty", "tags", "expected"),
    [
        (30, True, {}, "Claim"),
        (25, True, {}, "Claim"),
        (31, True, {}, "NotOurs"),
        (25, False, {}, "NotOurs"),
        (25, True, {"team": "a"}, "NotOurs"),
    ],
)
def test_bucket_after_a_creation_without_an_answer(age: int, empty: bool, tags: dict[str, str], expected: str) -> None:  # noqa: FBT001 - a table
    """It's taken for what came of it only if it's empty, has no tags, and isn't older than the request."""
    assert phase(asked(30), {**untagged(age=age, empty=empty), "tags": tags}) == expected


def test_bucket_that_somebody_made_long_after_a_creation_is_not_claimed() -> None:
    """What appears later than a call can last isn't what came of it."""
    assert phase(asked(1000), untagged(age=500, empty=True)) == "NotOurs"
    assert phase(asked(1000), untagged(age=900, empty=True)) == "Claim"


def test_bucket_of_unknown_age_is_waited_for_and_then_not_ours() -> None:
    """S3's list may lack a new bucket for a moment; without its date it's never claimed."""
    nameless = {**untagged(empty=True), "creation_date": ""}
    assert (phase(asked(30), nameless), phase(asked(179), nameless)) == ("Wait", "Wait")
    assert phase(asked(181), nameless) == "NotOurs"


def test_what_a_run_stored_of_its_own_creation_counts_at_once() -> None:
    """The call's end bounds what came of it in the same run; a creation that came to nothing claims nothing."""
    found = untagged(age=10, empty=True)
    ended = {"createAttempt": 1, "createRequestedAt": ago(30), "createAnsweredAt": ago(20)}
    nothing = {"createAttempt": None, "createRequestedAt": None, "createAnsweredAt": None}
    for obj, intent, expected in (
        (make_bucket_object(), {**ended, "createAnsweredAt": ago(10)}, "Claim"),
        (make_bucket_object(), ended, "NotOurs"),
        (asked(30), nothing, "NotOurs"),
    ):
        assert make_plan(bucket_view(obj, found, intent=intent)).phase == expected


def test_bucket_without_the_tags_that_were_sent_along_is_waited_for_and_never_claimed() -> None:
    """Where the endpoint keeps the tags of CreateBucket, S3 may hide them for a while; then the bucket isn't ours."""
    bare = {**untagged(age=25, empty=True), "tags_kept": True}
    assert (phase(asked(30), bare), phase(asked(181), bare)) == ("Wait", "NotOurs")


def test_status_of_another_object_proves_nothing() -> None:
    """A status that was copied with the object to a new UID claims neither a recorded bucket nor a creation."""
    theirs = {**untagged(age=25, empty=True), "creation_date": CREATED}
    assert phase(known(ownerUid="another"), theirs) == "NotOurs"
    copied = asked(30)
    copied["status"]["ownerUid"] = "another"
    assert phase(copied, untagged(age=25, empty=True)) == "NotOurs"


@pytest.mark.parametrize(
    ("date", "seen_at"),
    [(CREATED, None), (ago(7200), None), (ago(2000), ago(60))],
    ids=["as recorded", "before the recorded one", "before the last look"],
)
def test_owned_bucket_stays_the_objects_where_no_later_one_can_be_meant(date: str, seen_at: str | None) -> None:
    """The tags come back where its date isn't later than the recorded one, or than the last look that saw them."""
    theirs = {**untagged(), "tags": {"theirs": "1"}, "creation_date": date}
    plan = make_plan(bucket_view(known(ownerUid=UID, lastCheckedAt=seen_at), theirs))
    assert (plan.phase, plan.tag_changes.add) == ("Claim", dict(plan.tags))


@pytest.mark.parametrize("date", [ago(60), ago(900), ""])
def test_owned_bucket_that_may_be_a_later_one_is_not_touched(date: str) -> None:
    """Without the tag, and with a date that is unknown or later than all that is recorded, nothing is written to it."""
    theirs = {**untagged(), "tags": {"theirs": "1"}, "creation_date": date}
    plan = make_plan(bucket_view(known(ownerUid=UID, lastCheckedAt=ago(60)), theirs))
    assert (plan.phase, plan.acts, list(plan.drift)) == ("Doubtful", False, [])


def test_owned_bucket_that_was_missing_is_told_from_a_later_one_by_its_date() -> None:
    """Once a look found none of its name, a bucket without our tag is ours only if it's as old as the recorded one."""
    missed = known(ownerUid=UID, missingSince=ago(90))
    assert phase(missed, {**untagged(), "creation_date": ago(60)}) == "NotOurs"
    assert phase(missed, {**untagged(), "creation_date": CREATED}) == "Claim"


def test_lost_tags_are_put_back_on_the_very_bucket_only() -> None:
    """Without recorded ownership a bucket that lost our tags is ours only if it's as old as recorded."""
    theirs = {"exists": True, "elsewhere": False, "tags": {"theirs": "1"}, "creation_date": CREATED}
    plan = make_plan(bucket_view(known(), theirs))
    assert (plan.phase, plan.out_of_band, plan.tag_changes.add) == ("Claim", True, dict(plan.tags))
    assert phase(known(), {**theirs, "creation_date": ago(60)}) == "NotOurs"
    assert phase(known(), {**theirs, "creation_date": ""}) == "NotOurs"
    assert phase(known(createTime=""), theirs) == "NotOurs"


@pytest.mark.parametrize(
    ("status", "expected"),
    [({}, "Wait"), ({"missingSince": ago(30)}, "Wait"), ({"missingSince": ago(61)}, "Lost")],
)
def test_vanished_bucket_is_waited_for_and_then_lost(status: dict[str, Any], expected: str) -> None:
    """A recorded bucket that isn't there is waited for, then told as lost; another is never created by itself."""
    assert phase(known(**status), ABSENT) == expected


def test_bucket_as_the_spec_says_is_left_alone() -> None:
    """Nothing differs, nothing is sent."""
    plan = make_plan(bucket_view(known(), make_bucket()))
    assert (plan.phase, plan.acts, list(plan.drift), plan.out_of_band) == ("Present", False, [], False)


@pytest.mark.parametrize(
    ("spec", "bucket", "expected"),
    [
        ({}, {"versioning": "Enabled"}, {}),
        ({"versioning": "Suspended"}, {}, {"versioning": "Suspended"}),
        ({"versioning": "Enabled"}, {"versioning": "Suspended"}, {"versioning": "Enabled"}),
        ({}, {"public_access_block": OPEN}, {"public_access_block": BLOCKED}),
        ({}, {"public_access_block": {}}, {"public_access_block": BLOCKED}),
        ({"encryption": {"algorithm": "aws:kms", "kmsKeyId": KEY}}, {"encryption": kms()}, {}),
        ({"encryption": {"algorithm": "aws:kms", "kmsKeyId": "1234"}}, {"encryption": kms()}, {}),
        ({"encryption": {"algorithm": "aws:kms"}}, {"encryption": kms()}, {"encryption": "aws:kms"}),
        ({}, {"encryption": kms()}, {"encryption": "AES256"}),
        ({}, {"encryption": {}}, {"encryption": "AES256"}),
    ],
)
def test_only_settings_that_differ_are_set(
    spec: dict[str, Any], bucket: dict[str, Any], expected: dict[str, Any]
) -> None:
    """What the spec doesn't name stays; the rest is put right."""
    found = changes(spec, **bucket)
    if "encryption" in found:
        found["encryption"] = found["encryption"]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
    assert found == expected


def test_rest_of_the_encryption_rule_stays() -> None:
    """What S3 keeps beside the algorithm is written back as it was, a bucket key that nobody names included."""
    rule = {"BucketKeyEnabled": True, "BlockedEncryptionTypes": {"EncryptionType": ["SSE-C"]}}
    found = changes({"encryption": {"algorithm": "aws:kms", "kmsKeyId": "other"}}, encryption=kms(**rule))
    how = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "other"}
    assert found == {"encryption": {"ApplyServerSideEncryptionByDefault": how, **rule}}
    switched = {"algorithm": "aws:kms", "kmsKeyId": KEY, "bucketKey": False}
    assert changes({"encryption": switched}, encryption=kms(**rule))["encryption"]["BucketKeyEnabled"] is False


def test_tags_of_others_stay() -> None:
    """Only tags that the operator set before are taken away; `aws:` ones never."""
    tags = {**make_bucket()["tags"], "theirs": "1", "old": "2", "aws:cloudformation:stack-name": "s"}
    obj = known(spec={"tags": {"team": "a"}}, tagKeys=["old", "team", "aws:cloudformation:stack-name"])
    plan = make_plan(bucket_view(obj, make_bucket(tags=tags)))
    assert (plan.tag_changes.add, plan.tag_changes.remove) == ({"team": "a"}, {"old": "2"})


@pytest.mark.parametrize(
    ("status", "generation", "found", "add", "remove"),
    [
        ({}, 3, "theirs", {}, {}),
        ({}, 3, None, {"Name": "team/web"}, {}),
        ({"tagKeys": ["Name"]}, 3, "theirs", {}, {}),
        ({"tagKeys": ["Name"]}, 4, "of the spec before", {"Name": "team/web"}, {}),
    ],
    ids=["adopted with a Name", "without a Name", "renamed by somebody", "the spec's own Name was dropped"],
)
def test_default_name_never_replaces_somebody_elses(
    status: dict[str, Any], generation: int, found: str | None, add: dict[str, str], remove: dict[str, str]
) -> None:
    """The Name by default comes where there is none, or in place of the spec's own before an edit."""
    obj = known(**status)
    obj["metadata"]["generation"] = generation
    tags = {key: value for key, value in {**make_bucket()["tags"], "Name": found}.items() if value is not None}
    plan = make_plan(bucket_view(obj, make_bucket(tags=tags)))
    assert (plan.tag_changes.add, plan.tag_changes.remove) == (add, remove)
    assert ("Name" in plan.tags) == (found is None or bool(add))


def test_name_of_the_spec_is_kept_in_step() -> None:
    """A Name that the user gives replaces whatever the bucket has."""
    tags = {**make_bucket()["tags"], "Name": "theirs"}
    plan = make_plan(bucket_view(known(spec={"tags": {"Name": "mine"}}), make_bucket(tags=tags)))
    assert plan.tag_changes.add == {"Name": "mine"}


def test_edit_of_the_spec_is_no_drift_from_outside() -> None:
    """What differs since an edit is the spec's doing; from a spec that was fulfilled, it's somebody else's."""
    edited = {**known(spec={"versioning": "Enabled"}), "metadata": {**known()["metadata"], "generation": 4}}
    assert make_plan(bucket_view(edited, make_bucket())).out_of_band is False
    assert make_plan(bucket_view(known(), make_bucket(public_access_block=OPEN))).out_of_band is True


def test_owner_of_the_tests_is_the_object() -> None:
    """The tags of the described bucket are those of the object that the tests use."""
    assert make_bucket()["tags"]["ansible-operator.io/uid"] == OWNER.uid
    assert make_bucket()["encryption"] == AES256
