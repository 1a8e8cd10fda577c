"""Whose a bucket is that appears while the object's own is being created."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from runner.localdev.ec2.faults import Fault
from runner.testing.waiting import eventually
from tests.content.ec2_instance.role_harness import UID_TAG, Bench, Run
from tests.content.s3_bucket.bucket_bench import client, tags_of

BOTH = ["CreateBucket", "CreateBucket"]
"""The writes where somebody makes a bucket and the role asks for it."""
HELD = 25.0
"""Seconds, less than the library waits for an answer; the test ends it."""


async def run_with_a_bucket_of_somebody_else(bench: Bench, *, before: Fault, policy: str = "") -> Run:
    """Run the role; somebody makes the bucket while the call is held that *before* names."""
    bench.aws.add_fault(before)
    running = asyncio.create_task(bench.run())
    await eventually(lambda: not bench.aws.faults())
    s3 = client(bench)
    s3.create_bucket(Bucket="example-data")
    if policy:
        s3.put_bucket_policy(Bucket="example-data", Policy=policy)
    bench.aws.clear_faults()
    return await running


async def test_bucket_that_somebody_makes_before_the_call_stays_theirs_where_tags_are_kept(bench: Bench) -> None:
    """us-east-1 answers as if it had created it; without the tags that were sent along it's never claimed."""
    await bench.create(deletionPolicy="Delete", forceDelete=True)
    kept = bench.with_variables(s3_bucket_creation_tags="kept")
    run = await run_with_a_bucket_of_somebody_else(kept, before=Fault(action="CreateBucket", delay=HELD))
    assert (run.ok, run.ready["reason"], run.writes) == (True, "Creating", BOTH), run.output[-3000:]
    assert tags_of(bench) == {}
    stays = await kept.run(finalizing=True)
    assert (stays.ok, stays.ready["reason"], stays.writes) == (True, "CreationUndecided", [])
    told = await kept.with_variables(s3_bucket_window=0).run()
    assert (told.ok, told.ready["reason"], told.writes) == (True, "NotOurs", [])
    assert "would carry the tags that were sent along; it's neither changed nor deleted" in told.ready["message"]
    gone = await kept.with_variables(s3_bucket_window=0).run(finalizing=True)
    assert (gone.ok, gone.writes, '"period"' in gone.output) == (True, [], False)
    assert set(await bench.events()) == {"CreationUndecided", "NotOurs", "LeftAlone"}


async def test_bucket_with_settings_of_somebody_else_is_not_claimed(bench: Bench) -> None:
    """Where tags are dropped, a policy shows that the bucket isn't what CreateBucket leaves."""
    await bench.create(deletionPolicy="Delete")
    bench.aws.configure(bucket_tags=0)
    fault = Fault(action="CreateBucket", delay=HELD)
    run = await run_with_a_bucket_of_somebody_else(bench, before=fault, policy='{"Version": "2012-10-17"}')
    writes = [*BOTH, "PutBucketPolicy"]
    assert (run.ok, run.ready["reason"], run.writes) == (True, "NotOurs", writes), run.output[-3000:]
    assert "wouldn't have a policy yet" in run.ready["message"]
    assert tags_of(bench) == {}


async def test_bucket_that_appears_after_the_look_is_seen_right_before_the_call(bench: Bench) -> None:
    """Nothing is asked of S3 then, as us-east-1 would reset the bucket's ACL, and no attempt is left behind."""
    await bench.create(deletionPolicy="Delete")
    bench.aws.add_fault(Fault(action="GetBucketTagging", delay=0.001))  # the look that begins the run
    fault = Fault(action="GetBucketTagging", delay=HELD)
    run = await run_with_a_bucket_of_somebody_else(bench, before=fault)
    theirs = ["CreateBucket"]
    assert (run.ok, run.ready["reason"], run.writes) == (True, "NotOurs", theirs), run.output[-3000:]
    assert ("createAttempt" in run.status, "createRequestedAt" in run.status) == (False, False)


async def test_bucket_that_is_younger_than_the_call_is_not_claimed(bench: Bench) -> None:
    """The end of a call that failed is stored, and what somebody makes after it isn't what came of the call."""
    await bench.create(deletionPolicy="Delete")
    bench.aws.add_fault(Fault(action="CreateBucket", code="InternalError", times=None))
    failed = await bench.run()
    assert (failed.ok, failed.ready["reason"]) == (False, "InternalError")
    requested, answered = failed.status["createRequestedAt"], failed.status["createAnsweredAt"]
    assert requested <= answered
    bench.aws.clear_faults()
    minute_ago = datetime.now(UTC) - timedelta(seconds=60)
    began = (minute_ago - timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await bench.patch_status(createRequestedAt=began, createAnsweredAt=minute_ago.strftime("%Y-%m-%dT%H:%M:%SZ"))
    client(bench).create_bucket(Bucket="example-data")
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.writes) == (True, "NotOurs", []), run.output[-3000:]
    assert f"asked for at {began}, but the call ended at" in run.ready["message"]


async def test_refusal_for_good_keeps_an_earlier_attempt_without_an_answer(bench: Bench) -> None:
    """Something may still come of the earlier call, so that it's recorded again, with its end."""
    await bench.create(deletionPolicy="Delete")
    bench.aws.add_fault(Fault(action="CreateBucket", code="InternalError", times=None))
    first = await bench.run()
    bench.aws.clear_faults()
    bench.aws.add_fault(Fault(action="CreateBucket", code="AccessDenied", times=None))
    second = await bench.run()
    assert (second.ok, second.ready["reason"]) == (False, "AccessDenied"), second.output[-3000:]
    keys = ("createAttempt", "createRequestedAt", "createAnsweredAt")
    assert [second.status.get(key) for key in keys] == [first.status[key] for key in keys]


async def test_look_that_fails_after_the_call_is_as_if_nothing_were_shown(bench: Bench) -> None:
    """The end of the call is stored all the same."""
    await bench.create()
    for _look in ("that begins the run", "right before the call"):
        bench.aws.add_fault(Fault(action="GetBucketTagging", delay=0.001))
    bench.aws.add_fault(Fault(action="GetBucketTagging", code="AccessDenied", times=None))
    run = await bench.run()
    assert (run.writes, "createAnsweredAt" in run.status) == (["CreateBucket"], True), run.output[-3000:]


async def test_created_bucket_with_its_tag_is_ours_at_once(bench: Bench) -> None:
    """Where the bucket carries the tag, the end of the call isn't stored: one write less."""
    obj = await bench.create()
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.status["ownerUid"]) == (True, "Available", obj["metadata"]["uid"])
    assert ("createAnsweredAt" in run.status, UID_TAG in tags_of(bench)) == (False, True)
