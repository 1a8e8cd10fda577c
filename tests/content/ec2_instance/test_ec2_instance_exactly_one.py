"""Exactly one machine per object, whatever is lost between asking and knowing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.localdev.ec2.faults import Fault
from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.ec2_instance.role_harness import Bench, Run


def tokens(*runs: Run) -> set[str]:
    """Return the client tokens that the runs sent."""
    return {call.params["ClientToken"] for run in runs for call in run.calls if call.action == "RunInstances"}


async def test_lost_answer_of_the_launch_leaves_one_machine(bench: Bench) -> None:
    """A launch whose answer is lost is stored before, asked for again with its token, and gives one machine (E1)."""
    obj = await bench.create()
    bench.aws.add_fault(Fault(action="RunInstances", code="InternalError", status=500, times=None, after=True))
    lost = await bench.run()
    assert not lost.ok
    assert lost.status["launchAttempt"] == 1
    assert "instanceId" not in lost.status
    bench.aws.clear_faults()
    bench.aws.configure(visible_after=3600)
    repeated = await bench.run()
    assert repeated.ok, repeated.output[-3000:]
    assert len(tokens(lost, repeated)) == 1
    (machine,) = bench.mine(obj)
    assert repeated.status["instanceId"] == machine.id


async def test_conflicts_of_the_status_write_leave_one_machine(bench: Bench, tmp_path: Path) -> None:
    """A conflict is tried again; where every write meets one nothing is launched, as no attempt can be stored (E1)."""
    obj = await bench.create()
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        through = replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through"))
        always = proxy.rule(Rule(method="PUT|PATCH", path=r"/ec2instances/web/status", status=409))
        refused = await through.run()
        assert (refused.ok, refused.writes, always.hits > 0) == (False, [], True)
        always.cancel()
        once = proxy.rule(Rule(method="PUT|PATCH", path=r"/ec2instances/web/status", status=409, times=1))
        launched = await through.run()
        assert (launched.ok, once.hits) == (True, 1), launched.output[-3000:]
    (machine,) = bench.mine(obj)
    assert launched.status["instanceId"] == machine.id


@pytest.mark.full
async def test_lost_status_leaves_one_machine(bench: Bench) -> None:
    """A run that saw the object as of before the launch adopts the machine and launches none (E1)."""
    obj = await bench.create()
    await bench.run()
    blind = await bench.run(obj=obj)
    assert blind.ok, blind.output[-3000:]
    assert "RunInstances" not in blind.writes
    assert len(bench.mine(obj)) == 1


async def test_machine_that_aws_does_not_show_yet_is_waited_for(bench: Bench) -> None:
    """A machine that DescribeInstances doesn't know yet is waited for, without a second launch (E1)."""
    obj = await bench.create()
    bench.aws.configure(visible_after=3600)
    await bench.run()
    waiting = await bench.run()
    assert waiting.ok, waiting.output[-3000:]
    assert (waiting.writes, waiting.ready["reason"]) == ([], "NotVisible")
    assert '"period": "5s"' in waiting.output
    bench.aws.configure(visible_after=0)
    settled = await bench.settle()
    assert "missingSince" not in settled.status
    assert len(bench.mine(obj)) == 1


@pytest.mark.full
async def test_spent_token_leads_to_the_next_attempt(bench: Bench) -> None:
    """An attempt whose machine has ended unseen is given up for the next one instead of failing for ever (E1)."""
    obj = await bench.create()
    settled = await bench.settle()
    bench.aws.configure(terminated_visible=0)
    bench.aws.terminate(settled.status["instanceId"])
    await bench.patch_status(instanceId=None)
    refused = await bench.run()
    assert (refused.ok, refused.ready["reason"]) == (False, "IdempotentInstanceTerminated")
    fresh = await bench.settle()
    assert fresh.status["launchAttempt"] == 2
    assert len(bench.mine(obj)) == 1


@pytest.mark.full
async def test_two_objects_of_one_name_have_a_machine_each(bench: Bench) -> None:
    """Objects are told apart by their UID: one that is made again gets a machine of its own (E3)."""
    first = await bench.create()
    await bench.run()
    second = {**first, "metadata": {**first["metadata"], "uid": "11111111-2222-3333-4444-555555555555"}}
    await bench.run(obj=second)
    (one,), (other,) = bench.mine(first), bench.mine(second)
    assert one.id != other.id
