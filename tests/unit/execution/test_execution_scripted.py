"""The scripted executor that ships for tests: outcomes in their order, requests remembered, overlap counted."""

from __future__ import annotations

import asyncio

import pytest

from runner.errors import ExecutionError
from runner.execution.executor import Executor, RunRequest
from runner.testing.executor import ScriptedExecutor, failed, run_request, succeeded


async def test_outcomes_are_played_in_order_then_all_is_well() -> None:
    """The script comes first, an exception in it is raised, and later runs succeed."""
    executor: Executor = ScriptedExecutor(
        outcomes=[failed("a", "b"), ExecutionError("no Ansible"), succeeded(changed=3)]
    )
    first = await executor.run(run_request())
    assert (first.success, first.failures) == (False, ("a", "b"))
    with pytest.raises(ExecutionError, match="no Ansible"):
        await executor.run(run_request())
    third = await executor.run(run_request())
    assert third.stats is not None
    assert third.stats.changed == 3
    assert (await executor.run(run_request())).success


async def test_runs_that_overlap_are_counted() -> None:
    """Two runs of one object at once are seen, and a cancelled one is remembered."""
    gate = asyncio.Event()

    async def wait(_: RunRequest) -> None:
        await gate.wait()

    executor = ScriptedExecutor(during=wait)
    runs = [asyncio.create_task(executor.run(run_request(ident=str(number)))) for number in range(3)]
    await asyncio.sleep(0)
    runs[0].cancel()
    await asyncio.wait({runs[0]})
    gate.set()
    await asyncio.gather(*runs[1:])
    assert (executor.most_at_once, executor.most_at_once_per_object) == (3, 3)
    assert [request.ident for request in executor.cancelled] == ["0"]
    assert [request.ident for request in executor.runs_of("probe")] == ["0", "1", "2"]
