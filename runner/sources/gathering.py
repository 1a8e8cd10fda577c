"""Requests that wait a moment, so that a burst of changes becomes one run: in front of the work queue.

For changes of followed status fields: a controller writes a status several times within a moment, and only where it
settles is of interest. While a run goes on the queue itself gathers what comes.
"""

from __future__ import annotations

import asyncio

from runner.clock import Clock
from runner.sources.primary import Enqueue
from runner.workqueue.request import Request

_DELAY = 0.1


class Gathering:
    """Holds requests for *delay* seconds from the first of them."""

    def __init__(self, *, clock: Clock, delay: float = _DELAY) -> None:
        """Wait by *clock*."""
        self._clock = clock
        self._delay = delay
        self._waiting: dict[Request, Enqueue] = {}
        self._filled = asyncio.Event()

    def add(self, request: Request, *, enqueue: Enqueue) -> None:
        """Hand *request* to *enqueue* with the next lot."""
        self._waiting[request] = enqueue
        self._filled.set()

    async def run(self) -> None:
        """Hand out lots until cancelled."""
        while True:
            await self._filled.wait()
            await self._clock.sleep(self._delay)
            self._filled.clear()
            waiting, self._waiting = self._waiting, {}
            for request, enqueue in waiting.items():
                enqueue(request, fresh=True)
