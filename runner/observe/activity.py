"""What each worker is waiting for: the table behind the liveness check `workers`.

A reconcile that goes on spends its time in API calls and child processes, but for short gaps. Both say so here with
`busy`; a context variable tells them which reconcile they belong to, so nothing is passed through. A reconcile that has
neither for minutes hangs: in a lock, in a future that nobody sets, in an executor whose process is gone. Who makes a
reconcile wait on purpose (a limit on plays at once) says `busy`, too.

The table changes on the event loop; the health server reads it from its own thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from runner.clock import Clock


@dataclass(kw_only=True)
class _Hold:
    """One key in a worker's hands."""

    what: str
    clock: Clock
    since: float
    busy: int = 0
    idle_since: float

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            self.idle_since = self.clock.monotonic()


@dataclass(frozen=True, kw_only=True)
class Idle:
    """A worker that holds a key without anything going on for it."""

    what: str
    held: float
    """Seconds since the worker took the key."""
    idle: float
    """Seconds since its last API call or child process ended."""


_current: ContextVar[_Hold | None] = ContextVar("hold", default=None)


class Activity:
    """The keys that workers hold now."""

    def __init__(self, *, clock: Clock) -> None:
        """Measure by *clock*."""
        self._clock = clock
        self._holds: dict[int, _Hold] = {}

    @contextlib.contextmanager
    def holding(self, what: str) -> Iterator[None]:
        """Keep *what* in the table during the block; `busy` in it, and in tasks that it starts, counts for it."""
        now = self._clock.monotonic()
        hold = _Hold(what=what, clock=self._clock, since=now, idle_since=now)
        self._holds[id(hold)] = hold
        token = _current.set(hold)
        try:
            yield
        finally:
            _current.reset(token)
            del self._holds[id(hold)]

    @property
    def held(self) -> int:
        """Return how many keys are held."""
        return len(self._holds)

    def idle(self, *, longer_than: float) -> list[Idle]:
        """Return the holds for which nothing went on for more than *longer_than* seconds; safe from any thread."""
        now = self._clock.monotonic()
        found = [
            Idle(what=hold.what, held=now - hold.since, idle=now - hold.idle_since)
            for hold in list(self._holds.values())
            if not hold.busy
        ]
        return [entry for entry in found if entry.idle > longer_than]


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Say that during the block an API call or a child process of the present reconcile is under way, if there is one.

    An informer's calls belong to no reconcile, and count nowhere.
    """
    hold = _current.get()
    if hold is None:
        yield
        return
    with hold.working():
        yield
