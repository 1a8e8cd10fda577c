"""What becomes of the machine when its object goes."""

from __future__ import annotations

import boto3
import pytest

from runner.localdev.ec2.faults import Fault
from tests.content.ec2_instance.role_harness import Bench


async def test_machine_is_terminated_and_seen_gone(bench: Bench) -> None:
    """The finalizer terminates the machine and ends once it's gone, not before."""
    bench.aws.configure(shutting_down=1.0)
    obj = await bench.create()
    await bench.settle()
    run = await bench.run(finalizing=True)
    assert run.ok, run.output[-3000:]
    assert '"period"' not in run.output
    assert run.writes == ["TerminateInstances"]
    assert bench.mine(obj, "pending", "running", "stopping", "stopped", "shutting-down") == []
    assert "Terminated" in await bench.events()


async def test_machine_that_is_slow_to_go_keeps_the_object(bench: Bench) -> None:
    """A machine that is still shutting down makes the finalizer ask to be repeated, and isn't terminated again."""
    bench.aws.configure(shutting_down=3600)
    short = bench.with_variables(ec2_instance_finalizer_retries=1)
    await bench.create()
    await bench.run()
    first = await short.run(finalizing=True)
    assert (first.ok, first.ready["reason"]) == (True, "StillTerminating")
    assert '"period": "5s"' in first.output
    second = await short.run(finalizing=True)
    assert (second.ready["reason"], second.writes) == ("StillTerminating", [])
    assert '"period": "5s"' in second.output


async def test_deletion_in_the_middle_of_a_launch_leaves_nothing(bench: Bench) -> None:
    """A machine whose launch had no answer and that AWS shows late is found and terminated (E5 a)."""
    obj = await bench.create()
    bench.aws.add_fault(Fault(action="RunInstances", code="InternalError", status=500, times=None, after=True))
    bench.aws.configure(visible_after=3600)
    assert not (await bench.run()).ok
    assert len(bench.mine(obj)) == 1
    undecided = await bench.run(finalizing=True)
    assert (undecided.ok, undecided.ready["reason"]) == (True, "LaunchUndecided")
    assert '"period": "5s"' in undecided.output
    bench.aws.configure(visible_after=0)
    found = await bench.run(finalizing=True)
    assert '"period"' not in found.output
    assert bench.mine(obj) == []


async def test_launch_that_never_happened_does_not_hold_the_object(bench: Bench) -> None:
    """An attempt without a machine lets the object go once the grace period is over (E5 a)."""
    await bench.create()
    bench.aws.add_fault(Fault(action="RunInstances", code="UnauthorizedOperation", times=None))
    await bench.run()
    run = await bench.with_variables(ec2_instance_grace=0).run(finalizing=True)
    assert run.ok, run.output[-3000:]
    assert run.writes == []


async def test_object_without_any_launch_goes_without_aws(bench: Bench) -> None:
    """An object whose credentials never existed goes at once, as no launch is recorded; with one recorded it stays."""
    await bench.create(credentialsSecretRef={"name": "nowhere"})
    gone = await bench.run(finalizing=True)
    assert gone.ok, gone.output[-3000:]
    assert (list(gone.calls), gone.status) == ([], {})
    assert "there is no secret nowhere" in gone.output
    before = await bench.get()
    await bench.patch_status(launchAttempt=1, launchRequestedAt="2026-11-29T12:00:00Z")
    stays = await bench.run(obj=before, finalizing=True)
    assert (stays.ok, stays.ready["reason"]) == (False, "CredentialsSecretNotFound")


async def test_protected_machine_keeps_the_object(bench: Bench) -> None:
    """A machine with termination protection keeps its object, with AWS's code in the condition, as long (E5 b)."""
    obj = await bench.create()
    settled = await bench.settle()
    aws = boto3.client(
        "ec2",
        region_name="us-east-1",
        endpoint_url=bench.endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    protected = {"InstanceId": settled.status["instanceId"]}
    aws.modify_instance_attribute(**protected, DisableApiTermination={"Value": True})
    run = await bench.run(finalizing=True)
    assert (run.ok, run.ready["reason"]) == (False, "OperationNotPermitted")
    assert len(bench.mine(obj)) == 1
    aws.modify_instance_attribute(**protected, DisableApiTermination={"Value": False})
    again = await bench.run(finalizing=True)
    assert (again.ok, again.writes, bench.mine(obj)) == (True, ["TerminateInstances"], [])


async def test_machine_that_is_gone_already_lets_the_object_go(bench: Bench) -> None:
    """A machine that was terminated before, or that AWS has forgotten, ends the finalizer at once (E5 c)."""
    await bench.create()
    settled = await bench.settle()
    bench.aws.terminate(settled.status["instanceId"])
    seen = await bench.run(finalizing=True)
    assert (seen.ok, seen.writes) == (True, [])
    bench.aws.configure(terminated_visible=0)
    forgotten = await bench.with_variables(ec2_instance_grace=0).run(finalizing=True)
    assert forgotten.ok, forgotten.output[-3000:]


async def test_machine_without_a_record_is_found_by_its_tag(bench: Bench) -> None:
    """A machine whose id the status lost is terminated all the same (E5 d)."""
    obj = await bench.create()
    await bench.run()
    run = await bench.run(obj=obj, finalizing=True)
    assert run.ok, run.output[-3000:]
    assert bench.mine(obj) == []


async def test_denied_termination_keeps_the_object(bench: Bench) -> None:
    """Without the right to terminate, or to look, the object stays with a readable condition (E5 e)."""
    obj = await bench.create()
    await bench.run()
    for action in ("TerminateInstances", "DescribeInstances"):
        bench.aws.clear_faults()
        bench.aws.add_fault(Fault(action=action, code="UnauthorizedOperation", message="no", times=None))
        run = await bench.run(finalizing=True)
        assert (run.ok, run.ready["reason"]) == (False, "UnauthorizedOperation")
        assert "request id" in run.ready["message"]
    assert len(bench.mine(obj)) == 1
    bench.aws.clear_faults()
    again = await bench.run(finalizing=True)
    assert (again.ok, bench.mine(obj)) == (True, [])


@pytest.mark.full
async def test_retained_machine_stays(bench: Bench) -> None:
    """With deletionPolicy Retain the machine and its tags stay."""
    obj = await bench.create(deletionPolicy="Retain")
    await bench.run()
    run = await bench.run(finalizing=True)
    assert (run.ok, run.writes) == (True, [])
    assert len(bench.mine(obj)) == 1
    assert "Retained" in await bench.events()
