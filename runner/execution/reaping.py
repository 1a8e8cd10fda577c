"""Collects children that nobody waits for: orphans that this process got because it is a container's process 1.

A cold run that was killed leaves processes behind, whose parent the kernel makes process 1; when they end they stay as
zombies until they are waited for. (Orphans of warm runs are their fork server's.) Children that somebody does wait for,
asyncio or `subprocess`, must be left to them: who waits is woken at once, so nobody waits for a zombie that is still
there the next time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from runner.clock import Clock
from runner.logs import Logger
from runner.owner import stat_fields

INTERVAL = 5.0
"""Seconds between two looks."""
_PROC = Path("/proc")
_START_TIME = 19
_Zombie = tuple[int, bytes]
"""Its id and when it started, which tells it from a later process with that id."""


class Reaper:
    """Looks for such children now and then, where this process may get any."""

    def __init__(self, *, clock: Clock, logger: Logger, needed: bool | None = None) -> None:
        """Look by *clock*; *needed*: without it, where this is process 1."""
        self._clock = clock
        self._log = logger.named("reaper")
        self._needed = os.getpid() == 1 if needed is None else needed
        self._seen: frozenset[_Zombie] = frozenset()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin."""
        if self._needed:
            self._task = asyncio.create_task(self._for_ever(), name="reaper")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _for_ever(self) -> None:
        while True:
            await self._clock.sleep(INTERVAL)
            reaped = self.look()
            if reaped:
                self._log.debug("Collected processes that had lost their parent", pids=reaped)

    def look(self) -> list[int]:
        """Collect the zombies that were seen by the last look, too; return their ids."""
        zombies = _zombies()
        left, self._seen = zombies & self._seen, zombies
        return [pid for pid, _ in sorted(left) if _collect(pid)]


def _zombies() -> frozenset[_Zombie]:
    """Return the children that have ended and were not waited for."""
    try:
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return frozenset()  # the ordinary answer, for which no list of processes is read
    except ChildProcessError:
        return frozenset()
    own = str(os.getpid()).encode()
    found: set[_Zombie] = set()
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        fields = stat_fields(int(entry.name)) if entry.name.isdigit() else []
        if len(fields) > _START_TIME and fields[0] == b"Z" and fields[1] == own:
            found.add((int(entry.name), fields[_START_TIME]))
    return frozenset(found)


def _collect(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False  # somebody was quicker
