"""Work with a time limit by a `Clock`."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from runner.clock import within
from runner.testing.clock import FakeClock


async def test_work_in_time_gives_its_result() -> None:
    """What ends before the limit returns, or raises, what it has to say."""

    async def fails() -> None:
        raise ZeroDivisionError

    assert await within(1, asyncio.sleep(0, "done"), clock=FakeClock()) == "done"
    with pytest.raises(ZeroDivisionError):
        await within(1, fails(), clock=FakeClock())


async def test_work_that_takes_too_long_is_cancelled() -> None:
    """At the limit, by the given clock and not before, the work is cancelled and a time-out raised."""
    clock, ended = FakeClock(), asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(within(5, hangs(), clock=clock))
    await clock.advance(4)
    assert not waiting.done()
    await clock.advance(1)
    with pytest.raises(TimeoutError, match="no answer within 5 s"):
        await waiting
    assert ended.is_set()
    assert not clock.sleeping


async def test_who_waits_may_be_cancelled() -> None:
    """A cancelled caller leaves neither its work nor a timer behind."""
    clock, work = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(within(5, work.wait(), clock=clock))
    await clock.settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_time_in_which_the_machine_was_suspended_counts() -> None:
    """A machine that slept for 1000 seconds since it booted has a clock that is so much further."""
    sleeper = ["unshare", "--time", "--boottime", "1000", "--fork", sys.executable, "-c"]
    program = "import time; from runner.clock import SystemClock; print(SystemClock().monotonic() - time.monotonic())"
    try:
        subprocess.run([*sleeper, ""], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no time namespace here: it takes Linux 5.6, util-linux and root")
    slept = float(subprocess.run([*sleeper, program], check=True, capture_output=True, timeout=60).stdout)
    awake = float(subprocess.run([*sleeper[-2:], program], check=True, capture_output=True, timeout=60).stdout)
    assert round(slept - awake) == 1000
