"""What each worker is waiting for."""

from __future__ import annotations

import asyncio

import pytest

from runner.observe.activity import Activity, Idle, busy
from runner.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture
def activity(clock: FakeClock) -> Activity:
    """Return an empty table."""
    return Activity(clock=clock)


async def test_a_hold_without_anything_going_on_is_idle(activity: Activity, clock: FakeClock) -> None:
    """After the grace the table tells which key it is, how long it is held and how long nothing went on."""
    with activity.holding("Probe default/a"):
        await clock.advance(10)
        with busy():
            await clock.advance(10)
        await clock.advance(5)
        assert activity.idle(longer_than=5) == []
        await clock.advance(1)
        assert activity.idle(longer_than=5) == [Idle(what="Probe default/a", held=26, idle=6)]
    assert (activity.held, activity.idle(longer_than=5)) == (0, [])


async def test_what_is_busy_is_never_idle(activity: Activity, clock: FakeClock) -> None:
    """A call or a process that takes hours is no hang; nested ones count until the last has ended."""
    with activity.holding("Probe default/a"):
        with busy():
            with busy():
                await clock.advance(7200)
                assert activity.idle(longer_than=5) == []
            await clock.advance(7200)
            assert activity.idle(longer_than=5) == []
        assert activity.idle(longer_than=0) == []


async def test_tasks_of_a_reconcile_count_for_it_and_for_no_other(activity: Activity, clock: FakeClock) -> None:
    """A context variable carries the hold into the tasks that a reconcile starts, and nowhere else."""
    done = asyncio.Event()

    async def call() -> None:
        with busy():
            await done.wait()

    async def reconcile(name: str, *, calls: bool) -> None:
        with activity.holding(name):
            await (asyncio.create_task(call()) if calls else done.wait())

    tasks = [asyncio.create_task(reconcile("one", calls=True)), asyncio.create_task(reconcile("two", calls=False))]
    await clock.advance(10)
    assert [entry.what for entry in activity.idle(longer_than=5)] == ["two"]
    done.set()
    await asyncio.gather(*tasks)


async def test_calls_outside_of_a_reconcile_count_nowhere(activity: Activity) -> None:
    """An informer's calls belong to no key."""
    with busy():
        assert activity.held == 0
