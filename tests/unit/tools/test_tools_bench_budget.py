"""How many rounds of a benchmark fit into its time."""

from __future__ import annotations

import asyncio

from runner.testing.clock import FakeClock
from tools.bench.budget import Budget, Rounds


async def _rounds(budget: Budget, clock: FakeClock, section: str, *, seconds: float, wanted: Rounds) -> int:
    """Do the rounds of *section*, each of which takes *seconds*."""
    count = 0
    for _ in budget.rounds(section, wanted=wanted):
        sleeper = asyncio.create_task(clock.sleep(seconds))
        await asyncio.sleep(0)
        await clock.advance(seconds)
        await sleeper
        count += 1
    return count


async def test_a_section_has_its_share_of_what_is_left() -> None:
    """A section stops when another round would pass its share, and what it leaves goes to those that follow."""
    clock = FakeClock()
    budget = Budget(seconds=100, clock=clock, shares={"a": 1, "b": 3, "c": 1})
    wanted = Rounds(least=1, most=50)
    assert await _rounds(budget, clock, "a", seconds=6, wanted=wanted) == 3
    assert await _rounds(budget, clock, "b", seconds=1, wanted=wanted) == 50
    assert await _rounds(budget, clock, "c", seconds=5, wanted=wanted) == 6


async def test_the_least_rounds_are_done_though_they_pass_the_share() -> None:
    """Seven rounds that are needed for a median are done at the cost of the sections that follow."""
    clock = FakeClock()
    budget = Budget(seconds=100, clock=clock, shares={"a": 1, "b": 9})
    assert await _rounds(budget, clock, "a", seconds=10, wanted=Rounds(least=7, most=15)) == 7


async def test_no_round_begins_that_would_pass_the_end() -> None:
    """When the time is over, the least number of rounds counts for nothing."""
    clock = FakeClock()
    budget = Budget(seconds=25, clock=clock, shares={"a": 1, "b": 1})
    wanted = Rounds(least=7, most=15)
    assert await _rounds(budget, clock, "a", seconds=10, wanted=wanted) == 2
    assert await _rounds(budget, clock, "b", seconds=10, wanted=wanted) == 1
    assert await _rounds(Budget(seconds=0, clock=clock, shares={"a": 1}), clock, "a", seconds=1, wanted=wanted) == 0
