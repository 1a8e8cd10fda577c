"""One bucket from its creation through edits and changes from outside."""

from __future__ import annotations

from typing import Any

import pytest

from runner.localdev.ec2.faults import Fault
from tests.content.ec2_instance.role_harness import UID_TAG, Bench
from tests.content.s3_bucket.bucket_bench import client, names, set_tags, tags_of

BLOCKED = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": True,
    "BlockPublicPolicy": True,
    "RestrictPublicBuckets": True,
}
READS = [
    "GetBucketTagging",
    "GetBucketEncryption",
    "GetPublicAccessBlock",
    "GetBucketLifecycleConfiguration",
    "GetBucketVersioning",
]
RULES = [
    {"id": "old", "prefix": "logs/", "expirationDays": 30, "abortIncompleteMultipartUploadDays": 7},
    {"id": "versions", "noncurrentVersionExpirationDays": 90},
]


def settings(bench: Bench) -> dict[str, Any]:
    """Return the settings of the bucket as S3 has them."""
    s3, name = client(bench), {"Bucket": "example-data"}
    rules = s3.get_bucket_encryption(**name)["ServerSideEncryptionConfiguration"]["Rules"]
    return {
        "versioning": s3.get_bucket_versioning(**name).get("Status"),
        "encryption": rules[0]["ApplyServerSideEncryptionByDefault"],
        "blocks": s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"],
    }


def rule_ids(bench: Bench) -> list[str]:
    """Return the ids of the bucket's lifecycle rules."""
    return [rule["ID"] for rule in client(bench).get_bucket_lifecycle_configuration(Bucket="example-data")["Rules"]]


async def test_created_bucket_is_told_and_then_left_alone(bench: Bench) -> None:
    """One run creates a bucket with its tags in the same call and its settings; an unchanged one leads to no write."""
    obj = await bench.create(tags={"team": "a"}, versioning="Enabled", lifecycleRules=RULES)
    first = await bench.run()
    assert first.ok, first.output[-3000:]
    assert (first.ready["reason"], first.writes[0]) == ("Available", "CreateBucket")
    assert "PutBucketTagging" not in first.writes
    status, uid, namespace = first.status, obj["metadata"]["uid"], bench.namespace
    assert tags_of(bench) == {
        "Name": f"{namespace}/web",
        "team": "a",
        UID_TAG: uid,
        "ansible-operator.io/cluster-id": status["clusterId"],
        "ansible-operator.io/namespace": namespace,
        "ansible-operator.io/name": "web",
    }
    encryption = {"SSEAlgorithm": "AES256"}
    assert settings(bench) == {"versioning": "Enabled", "encryption": encryption, "blocks": BLOCKED}
    assert rule_ids(bench) == ["ansible-operator.io/old", "ansible-operator.io/versions"]
    told = {key: status.get(key) for key in ("bucketName", "accountId", "versioning", "encryption", "publicAccess")}
    assert told == {
        "bucketName": "example-data",
        "accountId": "123456789012",
        "versioning": "Enabled",
        "encryption": "AES256",
        "publicAccess": "Blocked",
    }
    assert await bench.events() == ["Created"]

    again = await bench.run()
    assert (again.ok, again.changed, [call.action for call in again.calls]) == (True, 0, READS)
    moved = {key for key in {*status, *again.status} if status.get(key) != again.status.get(key)}
    assert moved <= {"lastCheckedAt"}
    assert '"period": "2m"' in again.output


async def test_edit_is_carried_out_and_the_rest_stays(bench: Bench) -> None:
    """An edit writes what differs only; rules and tags of others stay, ours go when the spec drops them."""
    await bench.create(tags={"team": "a"}, lifecycleRules=RULES)
    await bench.run()
    theirs = {"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "x"}, "Expiration": {"Days": 1}}
    s3 = client(bench)
    rules = s3.get_bucket_lifecycle_configuration(Bucket="example-data")["Rules"]
    configuration = {"Rules": [*rules, theirs]}
    s3.put_bucket_lifecycle_configuration(Bucket="example-data", LifecycleConfiguration=configuration)
    set_tags(bench, {**tags_of(bench), "theirs": "1"})
    key = {"algorithm": "aws:kms", "kmsKeyId": "alias/data", "bucketKey": True}
    await bench.patch(versioning="Suspended", encryption=key, lifecycleRules=RULES[:1], tags={"team": None, "b": "2"})
    run = await bench.run()
    assert (run.ok, run.ready["reason"]) == (True, "Available"), run.output[-3000:]
    wanted = ["PutBucketTagging", "PutBucketEncryption", "PutBucketVersioning", "PutBucketLifecycleConfiguration"]
    assert run.writes == wanted
    assert rule_ids(bench) == ["theirs", "ansible-operator.io/old"]
    assert (tags_of(bench).get("b"), tags_of(bench).get("theirs"), "team" in tags_of(bench)) == ("2", "1", False)
    assert settings(bench)["encryption"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "alias/data"}
    assert (run.status["kmsKeyId"], run.status["versioning"]) == ("alias/data", "Suspended")
    assert {"Created", "Updated"} == set(await bench.events())


async def test_change_from_outside_is_repaired(bench: Bench) -> None:
    """Settings come back, and so do tags that somebody replaced as a whole, beside the new ones."""
    await bench.create(lifecycleRules=RULES)
    await bench.run()
    s3 = client(bench)
    s3.delete_public_access_block(Bucket="example-data")
    s3.delete_bucket_lifecycle(Bucket="example-data")
    set_tags(bench, {"theirs": "1"})
    run = await bench.run()
    assert (run.ok, run.ready["reason"]) == (True, "Available"), run.output[-3000:]
    assert run.writes == ["PutBucketTagging", "PutPublicAccessBlock", "PutBucketLifecycleConfiguration"]
    assert {"theirs", UID_TAG} <= set(tags_of(bench))
    assert settings(bench)["blocks"] == BLOCKED
    assert {"DriftFound", "DriftRepaired"} <= set(await bench.events())


async def test_deleted_bucket_is_told_and_not_replaced(bench: Bench) -> None:
    """A bucket that somebody deleted is told as lost, with what to do; no empty one takes its place."""
    await bench.create()
    await bench.run()
    client(bench).delete_bucket(Bucket="example-data")
    hidden = await bench.run()
    assert (hidden.ready["reason"], hidden.writes) == ("NotVisible", [])
    lost = await bench.with_variables(s3_bucket_grace=0).run()
    assert (lost.ok, lost.ready["reason"], lost.writes, names(bench)) == (True, "BucketLost", [], [])
    assert "BucketLost" in await bench.events()


@pytest.mark.parametrize(
    ("action", "code"),
    [("CreateBucket", "AccessDenied"), ("GetBucketTagging", "InvalidAccessKeyId"), ("GetBucketVersioning", "SlowDown")],
)
async def test_refusal_is_told_with_code_and_request_id(bench: Bench, action: str, code: str) -> None:
    """What AWS refuses ends in a condition and an Event with its code, and the run fails."""
    await bench.create()
    bench.aws.add_fault(Fault(action=action, code=code, message="because", times=None))
    run = await bench.run()
    assert (run.ok, run.ready["status"], run.ready["reason"]) == (False, "False", code)
    assert f"AWS answered {code}: because (request id 0" in run.ready["message"]
    assert code in await bench.events()
    # What S3 refused for good leaves no attempt behind; then the object may go without AWS.
    assert ("createAttempt" in run.status) == (code == "SlowDown")
