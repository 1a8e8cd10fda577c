"""Time as a collaborator: everything that waits or stamps takes a `Clock`, so that tests move time by hand.

`runner.testing.clock.FakeClock` is the other implementation.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the stages need of time."""

    def now(self) -> datetime:
        """Return the wall clock's time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds* (at once for zero or less, but other tasks get their turn)."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the present time in UTC."""
        return datetime.now(tz=UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(max(0.0, seconds))
