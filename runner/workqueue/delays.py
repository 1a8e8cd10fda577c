"""Keys that wait for their time, in front of the lines of the work queue: one heap and one timer task for all."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from runner.clock import Clock
from runner.workqueue.request import Request

_SLACK = 64
"""Outdated heap entries that are not worth a clean-up."""


@dataclass(frozen=True, kw_only=True)
class Delayed:
    """When a key is due (by the clock's monotonic time), and for which line."""

    due: float
    fresh: bool


class Delays:
    """At most one delay per key; `release` gets each key when it is due."""

    def __init__(self, *, clock: Clock, release: Callable[[Request, Delayed], None], name: str) -> None:
        """Wait by *clock*; the timer task is called after the queue's *name*."""
        self._clock = clock
        self._release = release
        self._name = name
        self._entries: dict[Request, Delayed] = {}
        self._heap: list[tuple[float, int, Request]] = []
        self._order = itertools.count()
        self._timer: asyncio.Task[None] | None = None
        self._wakes_at = math.inf

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._entries)

    def add(self, request: Request, delayed: Delayed) -> None:
        """Let *request* wait; of two delays the earlier due time wins, and it is fresh if one of the two is."""
        present = self._entries.get(request)
        if present is not None:
            delayed = Delayed(due=min(present.due, delayed.due), fresh=present.fresh or delayed.fresh)
        self._entries[request] = delayed
        if present is None or delayed.due < present.due:
            heapq.heappush(self._heap, (delayed.due, next(self._order), request))
            self._compact()
            self._arm()

    def discard(self, request: Request) -> Delayed | None:
        """Remove and return the delay of *request*, None if it has none."""
        return self._entries.pop(request, None)

    def close(self) -> None:
        """Drop all delays and end the timer."""
        self._entries.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wakes_at = math.inf

    def _arm(self) -> None:
        """Let the timer wake no later than the earliest entry; a timer that wakes too early just sleeps on."""
        earliest = self._heap[0][0]
        if earliest >= self._wakes_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = earliest
        self._timer = asyncio.get_running_loop().create_task(self._run(), name=f"workqueue-timer-{self._name}")

    async def _run(self) -> None:
        while self._heap:
            self._wakes_at = self._heap[0][0]
            await self._clock.sleep(self._wakes_at - self._clock.monotonic())
            self._release_due()
        self._timer = None
        self._wakes_at = math.inf

    def _release_due(self) -> None:
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, _, request = heapq.heappop(self._heap)
            entry = self._entries.get(request)
            if entry is not None and entry.due == due:
                del self._entries[request]
                self._release(request, entry)

    def _compact(self) -> None:
        """Rebuild the heap when most of it is outdated: keys that are discarded and added anew leave entries behind."""
        if len(self._heap) <= 2 * len(self._entries) + _SLACK:
            return
        self._heap = [(entry.due, next(self._order), request) for request, entry in self._entries.items()]
        heapq.heapify(self._heap)
