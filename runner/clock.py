"""Time as a collaborator: everything that waits or stamps takes a `Clock`, so that tests move time by hand.

`runner.testing.clock.FakeClock` is the other implementation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

_COUNTS_SUSPENSION = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has it; macOS's CLOCK_MONOTONIC counts suspension by itself."""
_T = TypeVar("_T")


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
        """Return seconds since an arbitrary start, those included in which the machine was suspended.

        Others' time goes on meanwhile: a lease is over, whether its holder slept or not.
        """
        return time.clock_gettime(_COUNTS_SUSPENSION)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(max(0.0, seconds))


async def within(seconds: float, work: Coroutine[Any, Any, _T], *, clock: Clock) -> _T:
    """Await *work*, and cancel it after *seconds* of *clock*; raise `TimeoutError` then."""
    task, timer = asyncio.create_task(work), asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:g} s")
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)
