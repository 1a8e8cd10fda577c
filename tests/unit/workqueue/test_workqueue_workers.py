"""The workers: how many, what ends them and what doesn't."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.settings import BackoffSettings
from runner.testing.clock import FakeClock
from runner.workqueue.backoff import Backoff
from runner.workqueue.request import Request
from runner.workqueue.workers import Handle, run_workers
from runner.workqueue.workqueue import WorkQueue

_GVK = GVK("example.com", "v1", "Widget")


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> Iterator[WorkQueue]:
    """Return a queue with delays of 1, 2, 4 ... seconds."""
    queue = WorkQueue(clock=clock, backoff=Backoff(BackoffSettings(), lambda: 0.5), name="widgets")
    yield queue
    queue.close()


@pytest.fixture
def sink() -> RecordingSink:
    """Return a place for log records."""
    return RecordingSink()


def key(name: str) -> Request:
    """Return the key of one widget."""
    return Request(_GVK, "default", name)


def start(queue: WorkQueue, *, count: int, handle: Handle, sink: RecordingSink) -> asyncio.Task[None]:
    """Start a pool that logs as in production: errors with stacks."""
    logger = Logger(sink=sink, stacktrace_level="error")
    return asyncio.create_task(run_workers(queue, count=count, handle=handle, logger=logger))


def fail(text: str) -> None:
    """Be the bug."""
    raise RuntimeError(text)


class Gate:
    """A handler that waits until a test opens it, and counts."""

    def __init__(self) -> None:
        """Start closed."""
        self.running: list[str] = []
        self.finished: list[str] = []
        self.most = 0
        self.open = asyncio.Event()

    async def __call__(self, request: Request) -> None:
        """Handle one key."""
        assert request.name not in self.running
        self.running.append(request.name)
        self.most = max(self.most, len(self.running))
        try:
            await self.open.wait()
            self.finished.append(request.name)
        finally:
            self.running.remove(request.name)


async def test_no_more_keys_at_once_than_workers(queue: WorkQueue, clock: FakeClock, sink: RecordingSink) -> None:
    """Three workers handle three keys at once, never four."""
    gate = Gate()
    pool = start(queue, count=3, handle=gate, sink=sink)
    for number in range(10):
        queue.add(key(str(number)))
    await clock.settle()
    assert len(gate.running) == 3
    gate.open.set()
    await clock.settle()
    assert (gate.most, len(gate.finished)) == (3, 10)
    queue.close()
    await pool


async def test_one_object_is_never_handled_twice_at_once(
    queue: WorkQueue, clock: FakeClock, sink: RecordingSink
) -> None:
    """An idle worker does not take a key that another one is at."""
    gate = Gate()
    pool = start(queue, count=3, handle=gate, sink=sink)
    queue.add(key("a"))
    await clock.settle()
    queue.add(key("a"))
    await clock.settle()
    assert gate.running == ["a"]
    gate.open.set()
    await clock.settle()
    assert gate.finished == ["a", "a"]
    queue.close()
    await pool


async def test_a_failing_handler_costs_its_key_a_back_off(
    queue: WorkQueue, clock: FakeClock, sink: RecordingSink
) -> None:
    """An exception is logged with the key, the key comes again after its back-off, and the worker lives on."""
    calls: list[str] = []

    async def handle(request: Request) -> None:
        calls.append(request.name)
        if request.name == "bad":
            fail("no luck")

    pool = start(queue, count=1, handle=handle, sink=sink)
    queue.add(key("bad"))
    queue.add(key("good"))
    await clock.settle()
    assert calls == ["bad", "good"]
    await clock.advance(1)
    assert calls == ["bad", "good", "bad"]
    assert queue.failures(key("bad")) == 2
    panic, record = sink.records[:2]
    assert (panic["msg"], panic["panic"], panic["name"]) == ("Observed a panic", "RuntimeError", "bad")
    assert (record["msg"], record["name"], str(record["error"])) == ("Reconciler error", "bad", "no luck")
    for written in (panic, record):
        functions = written["stacktrace"].splitlines()[::2]
        assert functions[0].endswith(".fail")
        assert functions[1].endswith(".handle")
        assert "no luck" not in written["stacktrace"]
    queue.close()
    await pool


async def test_a_cancelled_task_inside_a_handler_is_a_failure(
    queue: WorkQueue, clock: FakeClock, sink: RecordingSink
) -> None:
    """A handler that lets the cancellation of its own helper through does not end the worker."""

    async def handle(request: Request) -> None:
        del request
        helper = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        helper.cancel()
        await helper

    pool = start(queue, count=1, handle=handle, sink=sink)
    queue.add(key("a"))
    await clock.settle()
    assert not pool.done()
    assert queue.failures(key("a")) == 1
    await clock.advance(1)
    assert queue.failures(key("a")) == 2
    record = sink.records[0]
    assert (record["msg"], str(record["error"])) == ("Reconciler error", "the handler's work was cancelled")
    assert ".handle\n" in record["stacktrace"]
    queue.close()
    await pool


async def test_closing_lets_handlers_finish(queue: WorkQueue, clock: FakeClock, sink: RecordingSink) -> None:
    """A closed queue ends idle workers at once and busy ones after their key; waiting keys stay."""
    gate = Gate()
    pool = start(queue, count=2, handle=gate, sink=sink)
    for name in "abc":
        queue.add(key(name))
    await clock.settle()
    queue.close()
    await clock.settle()
    assert not pool.done()
    gate.open.set()
    await pool
    await queue.drained()
    assert gate.finished == ["a", "b"]


async def test_cancelling_the_pool_cancels_the_handlers(
    queue: WorkQueue, clock: FakeClock, sink: RecordingSink
) -> None:
    """A cancelled pool leaves no handler at work and no key held."""
    gate = Gate()
    pool = start(queue, count=2, handle=gate, sink=sink)
    queue.add(key("a"))
    await clock.settle()
    pool.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pool
    assert (gate.running, gate.finished, queue.processing) == ([], [], 0)
    assert sink.records == []


async def test_workers_have_names(queue: WorkQueue, clock: FakeClock, sink: RecordingSink) -> None:
    """A dump of tasks shows whose worker each task is."""
    pool = start(queue, count=2, handle=Gate(), sink=sink)
    await clock.settle()
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert {"worker-widgets-0", "worker-widgets-1"} <= names
    queue.close()
    await pool
