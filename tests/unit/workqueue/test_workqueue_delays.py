"""The work queue: delayed and rate-limited keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from runner.kube.objects import GVK
from runner.settings import BackoffSettings
from runner.testing.clock import FakeClock
from runner.workqueue.backoff import Backoff
from runner.workqueue.request import Request
from runner.workqueue.workqueue import WorkQueue

_GVK = GVK("example.com", "v1", "Widget")
A, B = Request(_GVK, "default", "a"), Request(_GVK, "default", "b")


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


def timers() -> list[asyncio.Task[object]]:
    """Return the timer tasks that are alive."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "workqueue-timer-widgets" and not task.done()]


async def test_a_delayed_key_comes_when_it_is_due(queue: WorkQueue, clock: FakeClock) -> None:
    """A delayed key is in line after its delay, not earlier."""
    queue.add_after(A, 10)
    await clock.advance(9.9)
    assert (queue.depth, queue.delayed) == (0, 1)
    await clock.advance(0.2)
    assert (queue.depth, queue.delayed) == (1, 0)


async def test_no_delay_means_now(queue: WorkQueue) -> None:
    """A delay of zero or less puts the key in line at once."""
    queue.add_after(A, 0)
    queue.add_after(B, -1)
    assert (queue.depth, queue.delayed) == (2, 0)


async def test_delayed_keys_are_periodic_unless_said_otherwise(queue: WorkQueue, clock: FakeClock) -> None:
    """A key that was delayed as fresh overtakes one whose period came round earlier."""
    queue.add_after(A, 1)
    queue.add_after(B, 2, fresh=True)
    await clock.advance(3)
    assert await queue.get() == B


@pytest.mark.parametrize(("first", "second"), [(5, 10), (10, 5)])
async def test_the_earlier_of_two_delays_wins(queue: WorkQueue, clock: FakeClock, first: float, second: float) -> None:
    """A key has one delay: the one that ends first, whichever was asked for first."""
    queue.add_after(A, first)
    queue.add_after(A, second)
    assert queue.delayed == 1
    await clock.advance(5)
    queue.done(await queue.get())
    await clock.advance(20)
    assert queue.depth == 0


async def test_an_earlier_key_wakes_the_timer_earlier(queue: WorkQueue, clock: FakeClock) -> None:
    """A short delay that is added while the timer sleeps for a long one ends in time."""
    queue.add_after(A, 1000)
    await clock.settle()
    queue.add_after(B, 1)
    await clock.advance(1)
    assert await queue.get() == B
    await clock.advance(999)
    assert await queue.get() == A


async def test_a_fresh_add_leaves_the_delay_alone(queue: WorkQueue, clock: FakeClock) -> None:
    """A change between two periods does not cost the object its next period."""
    queue.add_after(A, 10)
    queue.add(A)
    assert (queue.depth, queue.delayed) == (1, 1)
    await clock.advance(10)
    assert (queue.depth, queue.delayed) == (1, 0)


async def test_handing_out_takes_the_delay_along(queue: WorkQueue, clock: FakeClock) -> None:
    """The reconcile that starts now counts the next period from now: an older, earlier due time is over."""
    queue.add_after(A, 10)
    queue.add(A)
    request = await queue.get()
    queue.add_after(request, 30)
    queue.done(request)
    await clock.advance(29)
    assert queue.depth == 0
    await clock.advance(1)
    assert queue.depth == 1


async def test_a_reconcile_that_decides_nothing_keeps_the_delay(queue: WorkQueue, clock: FakeClock) -> None:
    """A key that is handed out and done without a decision still comes when its period ends."""
    queue.add_after(A, 10)
    queue.add(A)
    queue.done(await queue.get())
    assert queue.delayed == 1
    await clock.advance(10)
    assert await queue.get() == A


@pytest.mark.parametrize("decide", [WorkQueue.forget, WorkQueue.cancel_delayed])
async def test_a_reconcile_can_end_the_period(queue: WorkQueue, clock: FakeClock, decide: object) -> None:
    """After a reconcile that forgot its key or cancelled its delay the key does not come again by itself."""
    queue.add_after(A, 10)
    queue.add(A)
    request = await queue.get()
    assert callable(decide)
    decide(queue, request)
    queue.done(request)
    await clock.advance(100)
    assert (queue.depth, queue.delayed) == (0, 0)


async def test_forget_after_add_after_keeps_the_new_delay(queue: WorkQueue, clock: FakeClock) -> None:
    """Resetting the back-off never drops the period that the same reconcile asked for."""
    queue.add(A)
    request = await queue.get()
    queue.add_after(request, 10)
    queue.forget(request)
    queue.done(request)
    await clock.advance(10)
    assert queue.depth == 1


async def test_a_cancelled_delay_never_comes(queue: WorkQueue, clock: FakeClock) -> None:
    """A key whose delay was cancelled does not come, and others do."""
    queue.add_after(A, 1)
    queue.add_after(B, 2)
    queue.cancel_delayed(A)
    queue.cancel_delayed(A)
    await clock.advance(5)
    assert await queue.get() == B
    assert (queue.depth, queue.delayed) == (0, 0)


async def test_a_key_due_while_processed_comes_afterwards(queue: WorkQueue, clock: FakeClock) -> None:
    """A delay that ends during the processing of its key never breaks the exclusion."""
    queue.add(A)
    request = await queue.get()
    queue.add_after(request, 1)
    await clock.advance(5)
    assert (queue.depth, queue.processing) == (0, 1)
    queue.done(request)
    assert await queue.get() == A


async def test_failures_grow_the_delay(queue: WorkQueue, clock: FakeClock) -> None:
    """Each failure in a row doubles the time until the next try."""
    delays = []
    for _ in range(4):
        delays.append(queue.add_rate_limited(A))
        await clock.advance(delays[-1])
        queue.done(await queue.get())
    assert delays == [1, 2, 4, 8]
    assert queue.failures(A) == 4


async def test_failures_are_counted_per_key(queue: WorkQueue) -> None:
    """A failing key does not slow down another one."""
    queue.add_rate_limited(A)
    queue.add_rate_limited(A)
    assert queue.add_rate_limited(B) == 1


async def test_forget_resets_the_back_off(queue: WorkQueue) -> None:
    """After a success the next failure costs one second again."""
    for _ in range(5):
        queue.add_rate_limited(A)
    queue.forget(A)
    assert queue.failures(A) == 0
    assert queue.add_rate_limited(A) == 1


async def test_close_drops_the_delays(queue: WorkQueue, clock: FakeClock) -> None:
    """A closed queue keeps no timer and no delayed keys."""
    queue.add_after(A, 10)
    await clock.settle()
    queue.close()
    await clock.settle()
    assert (queue.delayed, timers(), clock.sleeping) == (0, [], 0)


async def test_ten_thousand_delays_share_one_timer(queue: WorkQueue, clock: FakeClock) -> None:
    """However many keys wait, in whatever order they were added, one task waits for the clock."""
    keys = [Request(_GVK, "default", str(number)) for number in range(10_000)]
    for number, request in enumerate(reversed(keys)):
        queue.add_after(request, 20_000 - number)
    await clock.settle()
    assert (queue.delayed, len(timers()), clock.sleeping) == (10_000, 1, 1)
    await clock.advance(15_000)
    assert (queue.depth, len(timers())) == (5_000, 1)
    assert await queue.get() == keys[0]


async def test_moved_delays_leave_no_litter(queue: WorkQueue, clock: FakeClock) -> None:
    """A key that is delayed and cancelled a thousand times costs the memory of one."""
    for _ in range(1000):
        queue.add_after(A, 10)
        queue.cancel_delayed(A)
    queue.add_after(A, 10)
    assert len(queue._delays._heap) < 100
    await clock.advance(10)
    assert queue.depth == 1
