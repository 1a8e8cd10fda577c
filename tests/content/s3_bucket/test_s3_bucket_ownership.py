"""Whose a bucket is: others' are left alone, and what an interrupted creation left is found again."""

from __future__ import annotations

import pytest

from runner.localdev.ec2.faults import Fault
from tests.content.ec2_instance.role_harness import UID_TAG, Bench
from tests.content.s3_bucket.bucket_bench import client, names, set_tags, stranger, tags_of


async def test_bucket_that_was_there_is_left_alone(bench: Bench) -> None:
    """A bucket of the account without this object's tag is told, left as it is, and may be handed over."""
    client(bench).create_bucket(Bucket="example-data")
    obj = await bench.create(deletionPolicy="Delete", forceDelete=True)
    for tags in ({}, {"team": "b"}, {UID_TAG: "another", "ansible-operator.io/name": "first"}):
        set_tags(bench, tags)
        run = await bench.run()
        assert (run.ok, run.ready["reason"], run.writes) == (True, "NotOurs", []), run.output[-3000:]
        assert tags_of(bench) == tags
    gone = await bench.run(finalizing=True)
    assert (gone.ok, gone.writes, '"period"' in gone.output) == (True, [], False)
    assert (names(bench), tags_of(bench)) == (["example-data"], tags)
    set_tags(bench, {UID_TAG: obj["metadata"]["uid"]})
    handed_over = await bench.run()
    assert (handed_over.ok, handed_over.ready["reason"]) == (True, "Available"), handed_over.output[-3000:]
    assert {"NotOurs", "LeftAlone", "Adopted"} <= set(await bench.events())


async def test_bucket_of_another_account_is_left_alone(bench: Bench) -> None:
    """A name that another account has is told, no creation is asked for, and the object may go."""
    theirs = stranger(bench)
    theirs.create_bucket(Bucket="example-data")
    await bench.create(deletionPolicy="Delete")
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.writes) == (True, "BucketAlreadyExists", []), run.output[-3000:]
    assert "belongs to another AWS account" in run.ready["message"]
    gone = await bench.run(finalizing=True)
    assert (gone.ok, gone.writes, '"period"' in gone.output) == (True, [], False)
    assert [bucket["Name"] for bucket in theirs.list_buckets()["Buckets"]] == ["example-data"]


async def test_name_that_was_taken_meanwhile_is_told_with_the_code(bench: Bench) -> None:
    """S3's refusal of a creation is told with code and request id, isn't asked again at once, and leaves no attempt."""
    await bench.create(deletionPolicy="Delete")
    fault = Fault(action="CreateBucket", code="BucketAlreadyExists", message="not available", times=None)
    bench.aws.add_fault(fault)
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.writes) == (True, "BucketAlreadyExists", ["CreateBucket"])
    assert "AWS answered BucketAlreadyExists: not available (request id 0" in run.ready["message"]
    assert ("createAttempt" in run.status, '"period": "2m"' in run.output) == (False, True)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(action="CreateBucket", code="InternalError", after=True, times=None),
        Fault(action="PutBucketTagging", code="InternalError", times=None),
    ],
    ids=["answer lost", "crash before the tags"],
)
async def test_bucket_of_an_interrupted_creation_is_found_again(bench: Bench, fault: Fault) -> None:
    """Where S3 drops the tags of CreateBucket, a new and empty bucket without tags is what came of the attempt."""
    await bench.create()
    bench.aws.configure(bucket_tags=0)
    bench.aws.add_fault(fault)
    failed = await bench.run()
    assert (failed.ok, failed.ready["reason"], failed.status["createAttempt"]) == (False, "InternalError", 1)
    assert "bucketName" not in failed.status
    bench.aws.clear_faults()
    run = await bench.run()
    assert (run.ok, run.ready["reason"]) == (True, "Available"), run.output[-3000:]
    assert (run.writes[0], "CreateBucket" in run.writes) == ("PutBucketTagging", False)
    assert UID_TAG in tags_of(bench)
    assert "Created" in await bench.events()


async def test_used_bucket_is_not_taken_for_an_interrupted_creation(bench: Bench) -> None:
    """What somebody has put something into since an interrupted creation is left alone."""
    await bench.create(deletionPolicy="Delete")
    bench.aws.configure(bucket_tags=0)
    bench.aws.add_fault(Fault(action="PutBucketTagging", code="InternalError", times=None))
    await bench.run()
    bench.aws.clear_faults()
    client(bench).put_object(Bucket="example-data", Key="theirs", Body=b"1")
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.writes) == (True, "NotOurs", []), run.output[-3000:]


async def test_creation_that_the_library_repeated_is_recognised(bench: Bench) -> None:
    """Outside us-east-1 a repeated CreateBucket is answered BucketAlreadyOwnedByYou: the next look tells by the tag."""
    await bench.create(region="eu-central-1")
    bench.aws.add_fault(Fault(action="CreateBucket", code="InternalError", after=True))
    first = await bench.run()
    assert (first.ok, first.ready["reason"]) == (True, "Creating"), first.output[-3000:]
    assert [call.code for call in first.calls if call.write] == ["InternalError", "BucketAlreadyOwnedByYou"]
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.status["region"]) == (True, "Available", "eu-central-1")
    location = client(bench).get_bucket_location(Bucket="example-data")["LocationConstraint"]
    assert location == "eu-central-1"


async def test_name_of_an_adopted_bucket_stays(bench: Bench) -> None:
    """A Name that somebody gave the bucket isn't replaced by the default one, and the next run finds nothing to do."""
    client(bench).create_bucket(Bucket="example-data")
    obj = await bench.create()
    set_tags(bench, {UID_TAG: obj["metadata"]["uid"], "Name": "theirs"})
    run = await bench.run()
    assert (run.ok, run.ready["reason"]) == (True, "Available"), run.output[-3000:]
    assert (tags_of(bench)["Name"], "Name" in run.status["tagKeys"]) == ("theirs", False)
    again = await bench.run()
    assert (again.ok, again.changed, again.writes) == (True, 0, [])
