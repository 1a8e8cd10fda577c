"""File work of a run beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from runner.execution.play import in_thread
from runner.testing.waiting import eventually


async def test_a_cancelled_run_waits_for_the_file_work_that_it_began() -> None:
    """Meanwhile the event loop turns, and the cancellation comes once the work is done."""
    started, let_go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert let_go.wait(60)
        done.set()

    task = asyncio.create_task(in_thread(work))
    await eventually(started.is_set)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_what_file_work_raises_is_raised() -> None:
    """A full disk is no less an error in a thread."""

    def work() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        await in_thread(work)
