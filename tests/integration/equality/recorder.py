"""Plays cases on both sides in a thread of its own, ahead of the tests that read them: each waits for its own only.

Cold runs are slow, so two go at once, each below a root of its own; warm ones go one after the other through one fork
server for each world, since what one leaves behind must not be felt by the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self, TypeVar

from runner.execution.cold import ColdLauncher
from tests.integration.equality.cases import WORLDS, Case
from tests.integration.equality.recording import Recording
from tests.integration.equality.sides import Side, Surroundings, make_side, warm

_T = TypeVar("_T")
_COLD_SIDES = ("cold1", "cold2")
_WARM_SIDE = "warm1"
"""As long as the others: a path's length is felt where lines are cut."""
_WENT_COLD = ("Playbooks are started cold", "Runs are started cold")
"""What the fork server says (once for each reason) where it doesn't fork."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One case, as both sides played it."""

    cold: Recording
    warm: Recording
    went_cold: Sequence[str]
    """Why the warm side started a process in the ordinary way, where no earlier case had the same reason."""


class Recorder:
    """Plays from its begin to its end as a context manager; `pair` and `log` are for tests, in another thread."""

    def __init__(self, cases: Iterable[Case], *, surroundings: Mapping[str, Surroundings], root: Path) -> None:
        """Play *cases* below *root*, each in the surroundings of its world."""
        self._cases = sorted(cases, key=lambda case: list(WORLDS).index(case.world))
        self._surroundings = surroundings
        self._root = root
        self._cold: dict[str, Future[Recording]] = {case.name: Future() for case in self._cases}
        self._warm: dict[str, Future[tuple[Recording, list[str]]]] = {case.name: Future() for case in self._cases}
        self._warm_sides: list[Side] = []
        self._to_play = deque(self._cases)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="equality")
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    def __enter__(self) -> Self:
        """Begin to play."""
        self._over = self._pool.submit(lambda: asyncio.run(self._play()))
        self._over.add_done_callback(self._fail_the_rest)
        return self

    def __exit__(self, *_: object) -> None:
        """End what nobody waits for any more."""
        loop, task = self._started.result()
        if not self._over.done():
            loop.call_soon_threadsafe(task.cancel)
        self._pool.shutdown()

    def pair(self, case: Case) -> Pair:
        """Wait for *case* and return it."""
        warmed, went_cold = self._warm[case.name].result()
        return Pair(cold=self._cold[case.name].result(), warm=warmed, went_cold=went_cold)

    @property
    def log(self) -> list[Mapping[str, Any]]:
        """Return what the warm sides have logged so far."""
        return [entry for side in self._warm_sides for entry in list(side.sink.records)]

    async def _play(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._started.set_result((asyncio.get_running_loop(), task))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._play_warm())
            for name in _COLD_SIDES:
                group.create_task(self._play_cold(name))

    async def _play_cold(self, name: str) -> None:
        sides: dict[str, Side] = {}
        while self._to_play:
            case = self._to_play.popleft()
            if case.world not in sides:
                sides[case.world] = await self._side(name, world=case.world)
            side = sides[case.world]
            await _settle(self._cold[case.name], by=side.run(case, launcher=ColdLauncher(settings=side.settings)))

    async def _play_warm(self) -> None:
        for world, group in groupby(self._cases, key=lambda case: case.world):
            cases = list(group)
            side = await self._side(_WARM_SIDE, world=world)
            self._warm_sides.append(side)
            async with warm(side, cases=cases) as launcher:
                for case in cases:
                    await _settle(self._warm[case.name], by=_told(side.run(case, launcher=launcher), side=side))

    async def _side(self, name: str, *, world: str) -> Side:
        folder = self._root / world / name
        folder.parent.mkdir(exist_ok=True)
        return await asyncio.to_thread(make_side, folder, surroundings=self._surroundings[world])

    def _fail_the_rest(self, over: Future[None]) -> None:
        futures: list[Future[Any]] = [*self._cold.values(), *self._warm.values()]
        for future in futures:
            if not future.done() and not over.cancelled():
                future.set_exception(over.exception() or RuntimeError("the recorder ended early"))


async def _settle(future: Future[_T], *, by: Coroutine[Any, Any, _T]) -> None:
    """Give *future* what *by* returns or raises."""
    task = asyncio.create_task(by)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})  # or the loop's end cancels it once more, before it has seen its process end
    if error := task.exception():
        future.set_exception(error)
    else:
        future.set_result(task.result())


async def _told(run: Coroutine[Any, Any, Recording], *, side: Side) -> tuple[Recording, list[str]]:
    """Return what *run* left, and why something of it was started as a new process."""
    before = len(side.sink.records)
    recording = await run
    told = [entry for entry in side.sink.records[before:] if entry["msg"] in _WENT_COLD]
    return recording, [f"{entry['msg']}: {entry.get('reason')}" for entry in told]
