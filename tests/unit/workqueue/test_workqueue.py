"""The work queue: lines, exclusion and closing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from runner.kube.objects import GVK
from runner.settings import BackoffSettings
from runner.testing.clock import FakeClock
from runner.workqueue.backoff import Backoff
from runner.workqueue.request import Request
from runner.workqueue.workqueue import QueueClosed, WorkQueue
from tests.unit.workqueue.listening import Recorder

_GVK = GVK("example.com", "v1", "Widget")


def key(name: str) -> Request:
    """Return the key of one widget."""
    return Request(_GVK, "default", name)


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


async def take_all(queue: WorkQueue) -> list[str]:
    """Take and finish every key in line; return the names in their order."""
    names = []
    while queue.depth:
        request = await queue.get()
        names.append(request.name)
        queue.done(request)
    return names


async def test_a_key_added_twice_is_handed_out_once(queue: WorkQueue) -> None:
    """However often an object changes while it waits, it is reconciled once."""
    for _ in range(5):
        queue.add(key("a"))
    assert queue.depth == 1
    assert await take_all(queue) == ["a"]


async def test_keys_come_out_in_the_order_of_their_adds(queue: WorkQueue) -> None:
    """The longest waiting key of a line is next."""
    for name in "cab":
        queue.add(key(name))
    assert await take_all(queue) == ["c", "a", "b"]


async def test_a_key_in_processing_is_not_handed_out_again(queue: WorkQueue, clock: FakeClock) -> None:
    """A change during the processing of its object waits until that is done, and then comes at once."""
    queue.add(key("a"))
    first = await queue.get()
    queue.add(key("a"))
    getter = asyncio.create_task(queue.get())
    await clock.settle()
    assert not getter.done()
    assert queue.depth == 0
    queue.done(first)
    assert await getter == key("a")


async def test_changes_during_processing_make_one_more_run(queue: WorkQueue) -> None:
    """Several changes during the processing are reconciled together."""
    queue.add(key("a"))
    first = await queue.get()
    for _ in range(3):
        queue.add(key("a"))
    queue.done(first)
    assert await take_all(queue) == ["a"]


async def test_a_key_that_did_not_change_meanwhile_is_finished(queue: WorkQueue) -> None:
    """A key that is done and was not added again does not come back."""
    queue.add(key("a"))
    queue.done(await queue.get())
    assert (queue.depth, queue.processing) == (0, 0)


async def test_other_keys_go_on_while_one_is_processed(queue: WorkQueue) -> None:
    """Exclusion is per key: another key is handed out meanwhile."""
    queue.add(key("a"))
    queue.add(key("b"))
    assert {(await queue.get()).name, (await queue.get()).name} == {"a", "b"}
    assert queue.processing == 2


async def test_done_without_get_is_refused(queue: WorkQueue) -> None:
    """Finishing a key that nobody holds is an error, as it would break the exclusion."""
    with pytest.raises(ValueError, match="Widget default/a is not being processed"):
        queue.done(key("a"))


async def test_a_fresh_key_goes_ahead_of_periodic_ones(queue: WorkQueue) -> None:
    """A new object does not wait behind periodic re-runs."""
    for name in "abc":
        queue.add(key(name), fresh=False)
    queue.add(key("new"))
    assert await take_all(queue) == ["new", "a", "b", "c"]


async def test_a_change_upgrades_a_waiting_periodic_key(queue: WorkQueue) -> None:
    """A periodic key whose object changes while it waits goes to the fresh line."""
    queue.add(key("a"), fresh=False)
    queue.add(key("b"), fresh=False)
    queue.add(key("b"))
    assert queue.depth == 2
    assert await take_all(queue) == ["b", "a"]


async def test_a_periodic_add_does_not_degrade_a_fresh_key(queue: WorkQueue) -> None:
    """A fresh key stays in the fresh line when its period comes round as well."""
    queue.add(key("old"), fresh=False)
    queue.add(key("a"))
    queue.add(key("a"), fresh=False)
    assert await take_all(queue) == ["a", "old"]


async def test_a_change_during_processing_is_fresh_afterwards(queue: WorkQueue) -> None:
    """Of a fresh and a periodic add during processing, the fresh one decides the line."""
    queue.add(key("a"))
    first = await queue.get()
    queue.add(key("a"))
    queue.add(key("a"), fresh=False)
    queue.add(key("old"), fresh=False)
    queue.done(first)
    assert await take_all(queue) == ["a", "old"]


async def test_fresh_keys_do_not_starve_periodic_ones(queue: WorkQueue) -> None:
    """After nine fresh keys that passed a waiting periodic one, one periodic key is handed out."""
    queue.add(key("old1"), fresh=False)
    queue.add(key("old2"), fresh=False)
    for number in range(25):
        queue.add(key(f"new{number}"))
    names = await take_all(queue)
    assert (names.index("old1"), names.index("old2")) == (9, 19)


async def test_fresh_keys_that_passed_nobody_are_not_counted(queue: WorkQueue) -> None:
    """A periodic key that arrives after a long fresh row still lets nine fresh keys pass."""
    for number in range(20):
        queue.add(key(f"before{number}"))
    await take_all(queue)
    queue.add(key("old"), fresh=False)
    queue.add(key("new"))
    assert await take_all(queue) == ["new", "old"]


async def test_getters_are_served_in_their_order(queue: WorkQueue, clock: FakeClock) -> None:
    """Each key wakes one waiting worker, the longest waiting first."""
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await clock.settle()
    queue.add(key("a"))
    queue.add(key("b"))
    await clock.settle()
    assert [getter.done() for getter in getters] == [True, True, False]
    queue.close()
    with pytest.raises(QueueClosed):
        await getters[2]


async def test_a_cancelled_getter_passes_its_key_on(queue: WorkQueue, clock: FakeClock) -> None:
    """A worker that is cancelled in the very turn in which a key woke it does not take the key with it."""
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await clock.settle()
    queue.add(key("a"))
    first.cancel()
    await clock.settle()
    assert first.cancelled()
    assert second.done()
    assert second.result() == key("a")


async def test_close_ends_waiting_getters(queue: WorkQueue, clock: FakeClock) -> None:
    """All workers that wait for a key end when the queue is closed."""
    getters = [asyncio.create_task(queue.get()) for _ in range(2)]
    await clock.settle()
    queue.close()
    for getter in getters:
        with pytest.raises(QueueClosed):
            await getter


async def test_a_closed_queue_hands_out_nothing(queue: WorkQueue) -> None:
    """Keys in line at the time of closing, and keys added later, are not handed out."""
    queue.add(key("a"))
    queue.close()
    queue.add(key("b"))
    queue.add_after(key("c"), 1)
    queue.add_rate_limited(key("d"))
    assert queue.closed
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_drained_waits_for_keys_in_processing(queue: WorkQueue, clock: FakeClock) -> None:
    """A closed queue is drained when the last key that was handed out is done."""
    queue.add(key("a"))
    request = await queue.get()
    drained = asyncio.create_task(queue.drained())
    queue.close()
    await clock.settle()
    assert not drained.done()
    queue.add(request)
    queue.done(request)
    await drained
    assert queue.depth == 0


async def test_an_open_queue_is_not_drained(queue: WorkQueue, clock: FakeClock) -> None:
    """An empty queue that may still get keys does not count as drained."""
    queue.add(key("a"))
    queue.done(await queue.get())
    drained = asyncio.create_task(queue.drained())
    await clock.settle()
    assert not drained.done()
    queue.close()
    await drained


async def test_a_listener_hears_waiting_and_working_times(clock: FakeClock) -> None:
    """Metrics learn how long a key waited in line, how long it was worked on, and that it failed."""
    recorder = Recorder()
    queue = WorkQueue(clock=clock, backoff=Backoff(BackoffSettings(), lambda: 0.5), listener=recorder)
    queue.add(key("a"), fresh=False)
    await clock.advance(2)
    queue.add(key("a"))
    await clock.advance(1)
    request = await queue.get()
    await clock.advance(5)
    queue.add_rate_limited(request)
    queue.done(request)
    assert recorder.heard == [("added", 0), ("started", 3), ("retried", 0), ("finished", 5)]
    queue.close()
