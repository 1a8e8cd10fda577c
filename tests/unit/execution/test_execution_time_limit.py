"""The time limit of a run: when it has passed, and what is told."""

from __future__ import annotations

from datetime import timedelta

from runner.execution.events import EventSummary, TaskFailure
from runner.execution.time_limit import TimeLimit
from runner.testing.clock import FakeClock
from runner.testing.executor import succeeded


async def test_it_counts_from_its_start_to_its_end() -> None:
    """Before the limit it hasn't passed, at the limit it has, and nothing counts on afterwards."""
    clock = FakeClock()
    with TimeLimit(timedelta(seconds=5), clock=clock) as limit:
        seen = []
        for seconds in (4.9, 0.1):
            await clock.advance(seconds)
            seen.append(limit.passed)
    assert seen == [False, True]
    with TimeLimit(timedelta(seconds=5), clock=clock) as other:
        await clock.advance(1)
    await clock.advance(100)
    assert not other.passed
    assert clock.sleeping == 0


async def test_zero_is_no_limit() -> None:
    """Without a limit nothing waits, and no time is up."""
    clock = FakeClock()
    with TimeLimit(timedelta(), clock=clock) as limit:
        await clock.advance(1_000_000)
        assert not limit.passed
        assert clock.sleeping == 0


def test_the_limit_is_told_before_what_failed_earlier() -> None:
    """Whatever Ansible said, the outcome is a failure, with the limit first and the failures of tasks behind it."""
    limit = TimeLimit(timedelta(seconds=90), clock=FakeClock())
    nothing = limit.outcome(succeeded(), summary=EventSummary())
    assert (nothing.success, nothing.timed_out, len(nothing.failures)) == (False, True, 1)
    assert nothing.failures[0].startswith(
        "The run took longer than its time limit of 1m30s and was ended; no task had begun. It is tried again; "
    )
    failure = TaskFailure(host="localhost", task="Ask", message="no answer")
    late = limit.outcome(succeeded(), summary=EventSummary(failures=[failure], last_task="Wait"))
    assert 'ended; the task that began last was "Wait". It is' in late.failures[0]
    assert late.failures[1:] == ("no answer",)
