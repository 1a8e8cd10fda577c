"""A clock that stands still until a test moves it: `runner.clock.Clock` for tests of periods, back-offs and leases."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_SETTLE_TURNS = 20


class FakeClock:
    """Time by hand; `advance` wakes the sleepers whose time has come, in their order."""

    def __init__(self, start: datetime = _EPOCH) -> None:
        """Start at *start* (UTC)."""
        self._start = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the start plus what was advanced."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds that were advanced."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until a test has advanced the clock by *seconds*."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    @property
    def sleeping(self) -> int:
        """Return how many tasks wait for this clock."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move time forward by *seconds*, stopping at each sleeper's time, and let the woken tasks run."""
        target = self._elapsed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, future = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            if not future.done():
                future.set_result(None)
            await self.settle()
        self._elapsed = target
        await self.settle()

    async def settle(self) -> None:
        """Give every ready task its turns, without moving time."""
        for _ in range(_SETTLE_TURNS):
            await asyncio.sleep(0)
