"""The state of one instance over time."""

from __future__ import annotations

import copy

from runner.localdev.ec2.lifecycle import LifecycleState
from runner.testing.clock import FakeClock

_SECONDS = {"pending": 3.0, "stopping": 2.0, "shutting-down": 1.0}


def _state(clock: FakeClock) -> LifecycleState:
    return LifecycleState("running", now=clock.monotonic, duration=lambda name: _SECONDS.get(name, 0.0))


async def test_a_passing_state_lasts_its_time() -> None:
    """Name and number are the passing state's until its time is over."""
    clock = FakeClock()
    state = _state(clock)
    assert (state.name, state.code) == ("pending", 0)
    await clock.advance(2.9)
    assert state.name == "pending"
    await clock.advance(0.1)
    assert (state.name, state.code) == ("running", 16)


async def test_a_new_target_takes_over() -> None:
    """A termination while pending goes on as shutting-down."""
    clock = FakeClock()
    state = _state(clock)
    state.name = "terminated"
    assert (state.name, state.since()) == ("shutting-down", -1.0)
    await clock.advance(6.0)
    assert (state.name, state.code, state.since()) == ("terminated", 48, 5.0)


async def test_the_same_target_is_no_new_transition() -> None:
    """Setting the target again doesn't begin anew."""
    clock = FakeClock()
    state = _state(clock)
    await clock.advance(3.0)
    state.name = "running"
    assert state.name == "running"


async def test_a_copy_stands_still() -> None:
    """A copy keeps the state of its moment, which is what an answer calls the previous one."""
    clock = FakeClock()
    state = _state(clock)
    before = copy.copy(state)
    await clock.advance(3.0)
    assert (before.name, before.code, state.name) == ("pending", 0, "running")


def test_a_number_is_ignored() -> None:
    """The number follows the name, whatever is set."""
    state = _state(FakeClock())
    state.code = 80
    assert state.code == 0
