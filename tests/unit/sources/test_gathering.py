"""Requests that wait a moment: a burst becomes one, and nobody waits longer than the delay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from runner.kube.objects import GVK
from runner.sources.gathering import Gathering
from runner.testing.clock import FakeClock
from runner.testing.waiting import ended
from runner.workqueue.request import Request

KIND = GVK("example.com", "v1", "Web")
A, B = Request(KIND, "ns", "a"), Request(KIND, "ns", "b")


class Queue:
    """Notes what is handed out."""

    def __init__(self) -> None:
        """Start empty."""
        self.got: list[tuple[Request, bool]] = []

    def __call__(self, request: Request, *, fresh: bool) -> None:
        """Take one request."""
        self.got.append((request, fresh))


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock by hand."""
    return FakeClock()


@pytest.fixture
async def gathering(clock: FakeClock) -> AsyncIterator[Gathering]:
    """Give one that runs and holds requests for ten seconds."""
    gathering = Gathering(clock=clock, delay=10)
    task = asyncio.create_task(gathering.run())
    yield gathering
    await ended(task)


async def test_a_burst_becomes_one_request(gathering: Gathering, clock: FakeClock) -> None:
    """However often an object is told within the delay, it is handed out once, as a change that is fresh."""
    queue = Queue()
    for _ in range(5):
        gathering.add(A, enqueue=queue)
        await clock.advance(1)
    await clock.advance(10)
    assert queue.got == [(A, True)]


async def test_the_delay_counts_from_the_first(gathering: Gathering, clock: FakeClock) -> None:
    """What is told again and again is not put off by that: nothing comes before the delay is over, and all then."""
    queue = Queue()
    gathering.add(A, enqueue=queue)
    await clock.advance(9)
    gathering.add(A, enqueue=queue)
    gathering.add(B, enqueue=queue)
    assert queue.got == []
    await clock.advance(1)
    assert queue.got == [(A, True), (B, True)]


async def test_what_comes_later_is_a_lot_of_its_own(gathering: Gathering, clock: FakeClock) -> None:
    """After a lot was handed out, the next request waits for its own delay, and none is handed out twice."""
    queue = Queue()
    gathering.add(A, enqueue=queue)
    await clock.advance(60)
    gathering.add(A, enqueue=queue)
    await clock.advance(9)
    assert queue.got == [(A, True)]
    await clock.advance(1)
    assert queue.got == [(A, True)] * 2
    await clock.advance(60)
    assert len(queue.got) == 2


async def test_each_request_goes_to_its_own_queue(gathering: Gathering, clock: FakeClock) -> None:
    """Requests of two kinds' objects go to the queue that each was told for."""
    one, two = Queue(), Queue()
    gathering.add(A, enqueue=one)
    gathering.add(B, enqueue=two)
    await clock.advance(10)
    assert (one.got, two.got) == ([(A, True)], [(B, True)])
