"""What the operator knows of itself for its probes: whether it leads, and what its workers are doing.

Written on the event loop, read by the health server's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable
from dataclasses import dataclass

from runner.clock import Clock
from runner.observe.activity import Activity


class Phase(enum.Enum):
    """Where this instance stands with the leadership."""

    STARTING = "starting"
    """Who leads is not known (yet), and it is not this one."""
    STANDBY = "standby"
    """Another instance leads; this one waits for its turn."""
    LEADING = "leading"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What an instance without the leadership knows of it."""

    another_leads: bool = False
    """Another one was seen to lead, and may lead still."""
    trouble: str = ""
    """Why it cannot know."""


@dataclass(kw_only=True)
class Vitals:
    """The state that belongs to the whole operator."""

    activity: Activity
    waiting: Callable[[], Waiting] = Waiting
    """Asked while this instance doesn't lead; in any thread."""
    leads: bool = False

    @property
    def phase(self) -> Phase:
        """Return where this instance stands."""
        if self.leads:
            return Phase.LEADING
        return Phase.STANDBY if self.waiting().another_leads else Phase.STARTING


class Heartbeat:
    """Notes every now and then that the event loop turns."""

    def __init__(self, *, clock: Clock, interval: float) -> None:
        """Beat every *interval* seconds of *clock*."""
        self._clock = clock
        self._interval = interval
        self._last = clock.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def age(self) -> float:
        """Return the seconds since the last beat; safe from any thread."""
        return self._clock.monotonic() - self._last

    async def start(self) -> None:
        """Begin."""
        self._last = self._clock.monotonic()
        self._task = asyncio.create_task(self._beat(), name="heartbeat")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _beat(self) -> None:
        while True:
            self._last = self._clock.monotonic()
            await self._clock.sleep(self._interval)
