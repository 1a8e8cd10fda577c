"""Waiting for a condition: what tests do instead of sleeping."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

_STEP = 0.01


async def eventually(condition: Callable[[], object], *, limit: float = 60.0) -> None:
    """Return when *condition* is true; *limit* seconds only tell 'hung' from 'slow'.

    Raises:
        TimeoutError: the condition did not become true.
    """
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - conditions about foreign state have no event to wait for
            await asyncio.sleep(_STEP)


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel *task* and return when it is over; raise what it raised by itself."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
