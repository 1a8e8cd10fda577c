"""The gate: who may have a play, in which order, and with how much memory."""

from __future__ import annotations

import asyncio

import pytest

from runner.execution.gate import GROWTH, INTERVAL, NEEDED, Gate, Place
from runner.execution.memory import FreeMemory
from runner.logs import Logger, RecordingSink
from runner.observe.activity import Activity
from runner.testing.clock import FakeClock

MIB = 1024 * 1024
PLENTY = 100_000 * MIB


class Site:
    """A gate with a clock, a log, and memory that a test sets; who comes is known by a name."""

    def __init__(self, *, limit: int = 0, min_free: int = 0) -> None:
        """Begin with plenty of memory."""
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.free: int | None = PLENTY
        self.asked = 0
        self.admitted: list[str] = []
        self.refused: list[str] = []
        self.places: dict[str, Place] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.gate = Gate(
            limit=limit, min_free=min_free, memory=self._memory, clock=self.clock, logger=Logger(sink=self.sink)
        )

    def _memory(self) -> FreeMemory | None:
        self.asked += 1
        return None if self.free is None else FreeMemory(size=self.free, source="/sys/fs/cgroup")

    async def come(self, *names: str) -> None:
        """Let runs come, one after the other."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._enter(name))
            await self.clock.settle()

    async def _enter(self, name: str) -> None:
        place = await self.gate.enter()
        if place is None:
            self.refused.append(name)
        else:
            self.places[name] = place
            self.admitted.append(name)

    async def end(self) -> None:
        """Send whoever waits home."""
        self.gate.close()
        await self.clock.settle()

    async def go(self, name: str) -> None:
        """Let a run give its place back."""
        self.places.pop(name).leave()
        await self.clock.settle()

    @property
    def sentences(self) -> list[str]:
        """Return what was logged."""
        return [str(record["msg"]) for record in self.sink.records]


async def test_without_limit_and_guard_nobody_waits_and_nothing_is_asked() -> None:
    """The default of a gate costs nothing."""
    site = Site()
    await site.come(*map(str, range(50)))

    assert len(site.admitted) == site.gate.running == 50
    assert (site.gate.waiting, site.asked, site.clock.sleeping) == (0, 0, 0)


async def test_places_are_handed_on_in_the_order_of_arrival() -> None:
    """Nobody who came later overtakes, not even in the moment when a place is left."""
    site = Site(limit=2)
    await site.come("a", "b", "c", "d", "e")
    assert site.admitted == ["a", "b"]
    assert (site.gate.running, site.gate.waiting) == (2, 3)

    site.places.pop("b").leave()
    await site.come("f")
    await site.go("a")
    assert site.admitted == ["a", "b", "c", "d"]
    for name in ("c", "d", "e", "f"):
        await site.go(name)
    assert site.admitted == ["a", "b", "c", "d", "e", "f"]
    assert (site.gate.running, site.gate.waiting) == (0, 0)


async def test_a_place_is_given_back_once() -> None:
    """Whoever leaves twice takes nobody else's place."""
    site = Site(limit=1)
    await site.come("a", "b", "c")
    place = site.places["a"]

    place.leave()
    place.leave()
    await site.clock.settle()
    assert site.admitted == ["a", "b"]
    await site.end()


async def test_who_gives_up_waiting_is_passed_over() -> None:
    """A cancelled run neither gets a place nor holds the line up."""
    site = Site(limit=1)
    await site.come("a", "b", "c")

    site.tasks["b"].cancel()
    await site.clock.settle()
    assert site.gate.waiting == 1
    await site.go("a")
    assert site.admitted == ["a", "c"]


async def test_a_place_that_comes_together_with_the_cancellation_goes_to_the_next() -> None:
    """It isn't lost with the run that it was meant for."""
    site = Site(limit=1)
    await site.come("a", "b", "c")

    site.places.pop("a").leave()  # b's turn has come, and b doesn't know yet
    site.tasks["b"].cancel()
    await site.clock.settle()
    assert site.admitted == ["a", "c"]
    assert (site.gate.running, site.gate.waiting) == (1, 0)


async def test_nothing_starts_while_memory_is_short_not_even_where_nothing_runs() -> None:
    """A play that starts then would be ended by the kernel; it waits, and goes on by itself when there is memory."""
    site = Site(min_free=256 * MIB)
    site.free = 255 * MIB
    await site.come("a", "b")
    await site.clock.advance(10 * INTERVAL)
    assert site.admitted == []

    site.free = PLENTY
    await site.clock.advance(INTERVAL)
    assert site.admitted == ["a", "b"]
    assert site.clock.sleeping == 0


async def test_runs_under_way_go_on_while_memory_is_short() -> None:
    """The guard is for starts only; who leaves makes room for the next look."""
    site = Site(min_free=256 * MIB)
    await site.come("a")
    site.free = 0
    await site.come("b")
    assert (site.admitted, site.gate.running, site.gate.waiting) == (["a"], 1, 1)

    site.free = PLENTY
    await site.go("a")
    assert site.admitted == ["a", "b"]


async def test_a_shortage_is_logged_once_with_its_figures_and_so_is_its_end() -> None:
    """Not at each look, nor for each run that waits."""
    site = Site(min_free=256 * MIB)
    site.free = 100 * MIB
    await site.come("a", "b", "c")
    await site.clock.advance(5 * INTERVAL)
    site.free = PLENTY
    await site.clock.advance(INTERVAL)

    assert site.sentences == [
        "Memory is short: no new run starts until there is more",
        "There is memory for new runs again",
    ]
    short, again = site.sink.records
    assert (short["level"], short["free"], short["minFree"], short["of"]) == (
        "warn",
        "100Mi",
        "256Mi",
        "/sys/fs/cgroup",
    )
    assert again["seconds"] == 6


async def test_a_second_shortage_is_told_again() -> None:
    """Each episode has its lines."""
    site = Site(min_free=256 * MIB)
    for name in ("a", "b"):
        site.free = 0
        await site.come(name)
        site.free = PLENTY
        await site.clock.advance(INTERVAL)

    assert len(site.sentences) == 4


async def test_what_started_a_moment_ago_is_counted_with_the_memory_that_it_will_take() -> None:
    """Twenty runs that come at once would else all see the memory that there was before the first."""
    site = Site(min_free=64 * MIB)
    site.free = 64 * MIB + 2 * NEEDED
    await site.come("a", "b", "c", "d")
    assert site.admitted == ["a", "b", "c"]
    assert site.sentences == []  # that is no shortage

    await site.go("a")  # a run that is over takes nothing any more
    assert site.admitted == ["a", "b", "c", "d"]
    await site.come("e")
    await site.clock.advance(GROWTH)
    assert site.admitted == ["a", "b", "c", "d", "e"]  # and by now memory shows what they took


async def test_a_system_that_does_not_tell_has_no_guard() -> None:
    """It is no Linux: the limit alone counts."""
    site = Site(limit=2, min_free=256 * MIB)
    site.free = None
    await site.come("a", "b", "c")

    assert site.admitted == ["a", "b"]
    await site.end()


async def test_an_obstacle_is_named_while_somebody_waits_for_memory() -> None:
    """For the readiness probe: who waits for a place of the limit waits for other runs, which is no obstacle."""
    site = Site(limit=1, min_free=64 * MIB)
    await site.come("a", "b")
    assert site.gate.obstacle() is None

    site.free = MIB
    await site.go("a")
    assert site.gate.obstacle() == (
        "1 runs wait for memory: 1Mi are free (/sys/fs/cgroup), --min-free-memory asks for 64Mi; 0 are running"
    )
    site.tasks["b"].cancel()
    await site.clock.settle()
    assert site.gate.obstacle() is None


async def test_an_obstacle_is_what_is_so_now() -> None:
    """A shortage that is over is no obstacle, and its end is logged, even where all places are taken or all left."""
    site = Site(limit=1, min_free=64 * MIB)
    await site.come("a", "b")
    site.free = MIB
    await site.go("a")
    site.free = PLENTY
    assert site.gate.obstacle() is None
    assert len(site.sentences) == 2

    site.free = MIB
    assert site.gate.obstacle() is not None
    site.tasks["b"].cancel()
    await site.clock.settle()
    site.free = PLENTY
    assert site.gate.obstacle() is None
    assert site.sentences[-1] == "There is memory for new runs again"
    assert len(site.sentences) == 4


@pytest.mark.parametrize("limit", [1, 0])
async def test_a_closed_gate_admits_nobody(limit: int) -> None:
    """Whoever waits is told at once, and so is who comes later; no look at the memory is left behind."""
    site = Site(limit=limit, min_free=64 * MIB)
    if not limit:
        site.free = 0
    await site.come("a", "b")
    admitted = list(site.admitted)

    site.gate.close()
    await site.come("c")
    assert site.admitted == admitted
    assert site.refused == [name for name in ("a", "b", "c") if name not in admitted]
    assert site.gate.waiting == 0
    for name in admitted:
        await site.go(name)
    await site.clock.advance(INTERVAL)
    assert site.clock.sleeping == 0


async def test_a_worker_that_waits_here_does_not_hang() -> None:
    """The liveness probe doesn't count it as one for which nothing goes on."""
    site = Site(limit=1)
    activity = Activity(clock=site.clock)

    async def work() -> None:
        with activity.holding("the key"):
            await site._enter("b")

    await site.come("a")
    waiting = asyncio.create_task(work())
    await site.clock.advance(1000)
    assert activity.held == 1
    assert activity.idle(longer_than=120) == []
    await site.go("a")
    await waiting
