"""What a finalizer does with a bucket: deletes it if it's empty, its content only on demand, or leaves it."""

from __future__ import annotations

from runner.localdev.ec2.faults import Fault
from tests.content.ec2_instance.role_harness import UID_TAG, Bench
from tests.content.s3_bucket.bucket_bench import client, names, set_tags, tags_of


async def test_bucket_that_is_not_empty_stays_until_it_is_or_may_be_emptied(bench: Bench) -> None:
    """The finalizer says so and asks again in the interval; with forceDelete every version and upload goes first."""
    await bench.create(deletionPolicy="Delete", versioning="Enabled", checkInterval="7m")
    await bench.run()
    s3 = client(bench)
    for body in (b"1", b"2"):
        s3.put_object(Bucket="example-data", Key="data", Body=body)
    s3.delete_object(Bucket="example-data", Key="data")
    s3.create_multipart_upload(Bucket="example-data", Key="upload")
    stays = await bench.run(finalizing=True)
    assert (stays.ok, stays.ready["reason"]) == (True, "BucketNotEmpty"), stays.output[-3000:]
    assert "set forceDelete: true; AWS answered BucketNotEmpty" in stays.ready["message"]
    assert '"period": "7m"' in stays.output
    versions = s3.list_object_versions(Bucket="example-data")
    assert (len(versions["Versions"]), len(versions["DeleteMarkers"])) == (2, 1)

    await bench.patch(forceDelete=True)
    gone = await bench.run(finalizing=True)
    assert gone.ok, gone.output[-3000:]
    assert (gone.writes, names(bench)) == (["DeleteObjects", "AbortMultipartUpload", "DeleteBucket"], [])
    assert '"period"' not in gone.output
    assert {"BucketNotEmpty", "Deleted"} <= set(await bench.events())


async def test_empty_bucket_goes_with_the_object(bench: Bench) -> None:
    """One call deletes it, and a second run of the finalizer finds nothing to do."""
    await bench.create(deletionPolicy="Delete")
    await bench.run()
    gone = await bench.run(finalizing=True)
    assert (gone.ok, gone.writes, names(bench)) == (True, ["DeleteBucket"], []), gone.output[-3000:]
    again = await bench.run(finalizing=True)
    assert (again.ok, again.writes, '"period"' in again.output) == (True, [], False)


async def test_content_that_s3_keeps_is_told(bench: Bench) -> None:
    """Objects under a legal hold can't be deleted; the finalizer says so and stays."""
    await bench.create(deletionPolicy="Delete", forceDelete=True, versioning="Enabled")
    await bench.run()
    s3 = client(bench)
    s3.put_object_lock_configuration(
        Bucket="example-data",
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"},
    )
    s3.put_object(Bucket="example-data", Key="held", Body=b"1", ObjectLockLegalHoldStatus="ON")
    stays = await bench.run(finalizing=True)
    assert (stays.ok, stays.ready["reason"]) == (True, "ContentNotDeletable"), stays.output[-3000:]
    assert names(bench) == ["example-data"]


async def test_retained_bucket_stays_and_aws_is_not_asked(bench: Bench) -> None:
    """By default the bucket stays with its tags, and the object goes even where its credentials are gone."""
    await bench.create()
    await bench.run()
    before = tags_of(bench)
    await bench.patch(credentialsSecretRef={"name": "nowhere"})
    run = await bench.run(finalizing=True)
    assert (run.ok, list(run.calls)) == (True, [])
    assert tags_of(bench) == before
    assert "Retained" in await bench.events()


async def test_finalizer_without_rights_stays_unless_nothing_was_created(bench: Bench) -> None:
    """An object goes without AWS as long as no creation is recorded; else a refusal keeps the finalizer."""
    await bench.create(deletionPolicy="Delete", credentialsSecretRef={"name": "nowhere"})
    gone = await bench.run(finalizing=True)
    assert (gone.ok, list(gone.calls)) == (True, [])
    await bench.patch(credentialsSecretRef=None)
    await bench.run()
    bench.aws.add_fault(Fault(action="DeleteBucket", code="AccessDenied", message="because", times=None))
    stays = await bench.run(finalizing=True)
    assert (stays.ok, stays.ready["reason"], names(bench)) == (False, "AccessDenied", ["example-data"])
    assert "request id 0" in stays.ready["message"]


async def test_emptying_that_takes_several_runs_stays_the_objects(bench: Bench) -> None:
    """The tag is put back beside those that are there before anything goes, and the next run goes on by it."""
    await bench.create(deletionPolicy="Delete", forceDelete=True)
    await bench.run()
    set_tags(bench, {"theirs": "1"})
    client(bench).put_object(Bucket="example-data", Key="data", Body=b"1")
    begun = await bench.with_variables(s3_bucket_batches=0).run(finalizing=True)
    assert (begun.ok, begun.ready["reason"], begun.writes) == (True, "Emptying", ["PutBucketTagging"])
    assert {"theirs", UID_TAG} == set(tags_of(bench))
    await bench.patch_status(createTime="2026-01-02T03:04:05Z")  # as if S3 had moved the date since
    gone = await bench.run(finalizing=True)
    assert (gone.ok, gone.writes, names(bench)) == (True, ["DeleteObjects", "DeleteBucket"], []), gone.output[-3000:]


async def test_owned_bucket_whose_tags_and_date_changed_waits_for_a_person(bench: Bench) -> None:
    """It might be a later bucket: nothing is written to it, and it goes once a person has set the tag."""
    obj = await bench.create(
        deletionPolicy="Delete", forceDelete=True, lifecycleRules=[{"id": "old", "expirationDays": 1}]
    )
    await bench.run()
    await bench.patch_status(createTime="2026-01-02T03:04:05Z")  # as if S3 had moved the date since
    set_tags(bench, {"theirs": "1"})
    client(bench).put_object(Bucket="example-data", Key="data", Body=b"1")
    client(bench).delete_bucket_lifecycle(Bucket="example-data")
    told = await bench.run()
    assert (told.ok, told.ready["reason"], told.writes) == (True, "OwnershipUnproven", []), told.output[-3000:]
    stays = await bench.run(finalizing=True)
    assert (stays.ok, stays.ready["reason"], stays.writes) == (True, "OwnershipUnproven", [])
    assert '"period": "2m"' in stays.output
    assert "recorded is 2026-01-02T03:04:05Z, so that it may be a later one of its name" in stays.ready["message"]
    assert names(bench) == ["example-data"]

    set_tags(bench, {UID_TAG: obj["metadata"]["uid"]})
    gone = await bench.run(finalizing=True)
    assert (gone.ok, gone.writes, names(bench)) == (True, ["DeleteObjects", "DeleteBucket"], []), gone.output[-3000:]
    assert {"OwnershipUnproven", "Deleted"} <= set(await bench.events())
