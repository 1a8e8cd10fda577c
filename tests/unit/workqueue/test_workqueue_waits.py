"""How long keys wait for a worker, and that each wait is told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.settings import BackoffSettings
from runner.testing.clock import FakeClock
from runner.workqueue.backoff import Backoff
from runner.workqueue.request import Request
from runner.workqueue.workers import run_workers
from runner.workqueue.workqueue import WorkQueue
from tests.unit.workqueue.listening import Recorder

TEN_MINUTES = 600.0


@pytest.mark.parametrize(
    ("workers", "last_start", "last_end", "waits"),
    [
        (1, "14:30", "14:40", [TEN_MINUTES * number for number in range(10)]),
        (4, "13:20", "13:30", [0.0] * 4 + [TEN_MINUTES] * 4 + [2 * TEN_MINUTES] * 2),
        (10, "13:00", "13:10", [0.0] * 10),
    ],
)
async def test_ten_objects_of_ten_minutes_at_one_oclock(
    workers: int, last_start: str, last_end: str, waits: list[float]
) -> None:
    """With one worker the tenth starts at 14:30, with ten all are done at 13:10; each wait is told as it was."""
    clock, told = FakeClock(datetime(2026, 11, 30, 12, 0, tzinfo=UTC)), Recorder()
    starts: list[str] = []
    ends: list[str] = []

    async def works(_: Request) -> None:
        starts.append(f"{clock.now():%H:%M}")
        await clock.sleep(TEN_MINUTES)
        ends.append(f"{clock.now():%H:%M}")

    queue = WorkQueue(clock=clock, backoff=Backoff(BackoffSettings(), lambda: 0.5), listener=told)
    pool = asyncio.create_task(run_workers(queue, count=workers, handle=works, logger=Logger(sink=RecordingSink())))
    for number in range(10):
        queue.add_after(Request(GVK("example.com", "v1", "Widget"), "default", f"w{number}"), 3600)
    await clock.advance(3 * 3600)
    queue.close()
    await pool
    assert (len(ends), starts[-1], ends[-1]) == (10, last_start, last_end)
    assert [seconds for what, seconds in told.heard if what == "started"] == waits
