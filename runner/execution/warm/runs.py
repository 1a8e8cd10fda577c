"""A run of a fork server as the operator sees it: a `RunningPlay` that is no child of this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from runner.errors import ExecutionError


class NotTaken(Exception):
    """The fork server did nothing of a run, so that it can be started in another way; the text says why."""


class ForkedPlay:
    """One run, from the moment when it was asked for; its fork server's connection tells it how it goes."""

    warm = True

    def __init__(self, ident: str) -> None:
        """Wait for news of run *ident*."""
        self.ident = ident
        self._answered = asyncio.Event()
        self._over = asyncio.Event()
        self._pid = 0
        self._code: int | None = None
        self._refusal: str | None = None
        self._lost = ""

    async def wait(self) -> int:
        """See `RunningPlay.wait`."""
        await self._over.wait()
        if self._code is None:
            raise ExecutionError(self._lost)
        return self._code

    def kill(self) -> None:
        """See `RunningPlay.kill`."""
        if self._pid and not self._over.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)

    async def taken(self) -> None:
        """Return when it was forked.

        Raises:
            NotTaken: it wasn't, and won't be.
            ExecutionError: nobody knows.
        """
        await self._answered.wait()
        if self._refusal is not None:
            raise NotTaken(self._refusal)
        if self._lost:
            raise ExecutionError(self._lost)

    def started(self, pid: int) -> None:
        """Tell that it is process *pid*."""
        self._pid = pid
        self._answered.set()

    def refused(self, reason: str) -> None:
        """Tell that it was not forked."""
        self._refusal = reason
        self._end(f"run {self.ident} was not started: {reason}")

    def ended(self, code: int) -> None:
        """Tell its exit code."""
        self._code = code
        self._end("")

    def lost(self, sentence: str) -> None:
        """Tell that nobody will ever know how it ends."""
        self._end(sentence)

    def _end(self, sentence: str) -> None:
        self._lost = sentence
        self._answered.set()
        self._over.set()


class OpenRuns:
    """The runs that one fork server has in its hands, by the number that its connection knows them by."""

    def __init__(self) -> None:
        """Start with none."""
        self._runs: dict[int, ForkedPlay] = {}
        self._last = 0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._runs)

    def add(self, ident: str) -> tuple[int, ForkedPlay]:
        """Open run *ident*; return its number and itself."""
        self._last += 1
        play = self._runs[self._last] = ForkedPlay(ident)
        return self._last, play

    def get(self, number: int | None) -> ForkedPlay | None:
        """Return the run of *number*, where it is open."""
        return None if number is None else self._runs.get(number)

    def close(self, number: int, *, tell: Callable[[ForkedPlay], None]) -> None:
        """Forget the run of *number*, where it is open, and *tell* it how it ended."""
        play = self._runs.pop(number, None)
        if play is not None:
            tell(play)

    def lose(self, sentence: Callable[[str], str]) -> int:
        """Tell each run that it is lost, by a *sentence* about its ident; return how many they were."""
        count = len(self._runs)
        for number in list(self._runs):
            self.close(number, tell=lambda play: play.lost(sentence(play.ident)))
        return count
