"""Stage 2 of the flow: sources put keys in, workers take them out, one at a time per key.

The queue carries keys, never objects: however often an object changes while it waits, it is reconciled once.
Everything happens on one event loop; no method but `get` and `drained` waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from runner.clock import Clock
from runner.workqueue.backoff import Backoff
from runner.workqueue.delays import Delayed, Delays
from runner.workqueue.request import Request

_FRESH_IN_A_ROW = 9
"""Fresh keys that may pass a waiting periodic one; then it is its turn, so that neither line starves."""


class QueueClosed(Exception):
    """No more keys come out of the queue: the signal that ends a worker."""


class QueueListener(Protocol):
    """What metrics want to know of a queue; called on the event loop, must return at once."""

    def added(self) -> None:
        """A key was put in line."""
        ...

    def started(self, waited: float) -> None:
        """A key was handed out, *waited* seconds after it was put in line."""
        ...

    def finished(self, worked: float) -> None:
        """A key was done, *worked* seconds after it was handed out."""
        ...

    def retried(self) -> None:
        """A key failed and waits for its next try."""
        ...


class WorkQueue:
    """Keys in two lines, fresh (something changed) and periodic (periods and retries), with delays in front.

    - A key is in at most one line, and never handed out again while it is processed; if it was added meanwhile, it
      goes in line as soon as it is done.
    - Fresh keys go first. A fresh add moves a waiting periodic key to the fresh line. After nine fresh keys that
      passed a waiting periodic key, one periodic key is handed out.
    - A key has at most one delay; the earlier due time wins. An `add` leaves it alone. Handing the key out takes
      it along, as the reconcile that now starts decides about the next: with `add_after`, `add_rate_limited`,
      `forget` or `cancel_delayed`. If it decides nothing, `done` puts the delay back, so no period is lost.
    - A key in processing may be parked (`runner.workqueue.exclusion`): whatever happens to it, it is in no line until
      it is unparked, and then goes ahead of both, as its turn had come before.
    """

    def __init__(
        self, *, clock: Clock, backoff: Backoff, name: str = "", listener: QueueListener | None = None
    ) -> None:
        """Wait by *clock*; failing keys wait as long as *backoff* says; *name* is used in the names of tasks."""
        self.name = name
        self._clock = clock
        self._backoff = backoff
        self._listener = listener
        self._lines: dict[bool, dict[Request, float]] = {True: {}, False: {}}
        """By freshness; the values are the times of the adds."""
        self._parked: set[Request] = set()
        self._returned: dict[Request, float] = {}
        """Unparked keys, in line ahead of the others."""
        self._passed = 0
        self._processing: dict[Request, float] = {}
        self._again: dict[Request, bool] = {}
        self._taken: dict[Request, Delayed] = {}
        self._delays = Delays(clock=clock, release=self._release, name=name)
        self._failures: dict[Request, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._drained = asyncio.Event()

    @property
    def depth(self) -> int:
        """Return how many keys are in line."""
        return len(self._returned) + len(self._lines[True]) + len(self._lines[False])

    @property
    def processing(self) -> int:
        """Return how many keys are handed out and not done."""
        return len(self._processing)

    @property
    def parked(self) -> int:
        """Return how many keys wait for another watch's reconcile of their object."""
        return len(self._parked)

    @property
    def delayed(self) -> int:
        """Return how many keys wait for their time."""
        return len(self._delays)

    @property
    def closed(self) -> bool:
        """Tell whether `close` was called."""
        return self._closed

    def failures(self, request: Request) -> int:
        """Return how often *request* failed since it was last forgotten."""
        return self._failures.get(request, 0)

    def add(self, request: Request, *, fresh: bool = True) -> None:
        """Put *request* in line now; one that is parked comes anyway, and sees then what changed."""
        if self._closed or request in self._parked or request in self._returned:
            return
        if request in self._processing:
            self._again[request] = fresh or self._again.get(request, False)
            return
        if request in self._lines[True]:
            return
        waiting_since = self._lines[False].get(request)
        if waiting_since is not None and not fresh:
            return
        self._lines[False].pop(request, None)
        self._lines[fresh][request] = self._clock.monotonic() if waiting_since is None else waiting_since
        if self._listener is not None and waiting_since is None:
            self._listener.added()
        self._wake_getter()

    def add_after(self, request: Request, delay: float, *, fresh: bool = False) -> None:
        """Put *request* in line after *delay* seconds, at once for zero or less."""
        self._taken.pop(request, None)
        if delay <= 0:
            self.add(request, fresh=fresh)
        elif not self._closed:
            self._delays.add(request, Delayed(due=self._clock.monotonic() + delay, fresh=fresh))

    def add_rate_limited(self, request: Request) -> float:
        """Count a failure of *request*, put it in line after its back-off, and return that delay in seconds."""
        failures = self._failures[request] = self.failures(request) + 1
        delay = self._backoff.delay(failures)
        if self._listener is not None:
            self._listener.retried()
        self.add_after(request, delay)
        return delay

    def forget(self, request: Request) -> None:
        """Start *request*'s back-off anew; a delay that was taken along by the present hand-out is not put back."""
        self._failures.pop(request, None)
        self._taken.pop(request, None)

    def cancel_delayed(self, request: Request) -> None:
        """Drop the delay of *request*, if it has one."""
        self._taken.pop(request, None)
        self._delays.discard(request)

    def park(self, request: Request) -> None:
        """Keep *request* out of the lines, from its `done` on, until `unpark`.

        Raises:
            ValueError: *request* is not being processed.
        """
        if request not in self._processing:
            raise ValueError(f"{request} is not being processed")
        self._parked.add(request)
        self._again.pop(request, None)

    def unpark(self, request: Request) -> None:
        """Put a parked *request* ahead of the lines; another one is left alone."""
        if request not in self._parked:
            return
        self._parked.remove(request)
        if request in self._processing:  # it was parked a moment ago, and its worker has not said so yet
            self.add(request)
        elif not self._closed:
            self._returned[request] = self._clock.monotonic()
            if self._listener is not None:
                self._listener.added()
            self._wake_getter()

    async def get(self) -> Request:
        """Return the next key as soon as there is one; the caller calls `done` with it.

        Raises:
            QueueClosed: the queue is closed.
        """
        while not self._closed and not self.depth:
            await self._wait_for_key()
        if self._closed:
            raise QueueClosed
        line = self._returned or self._lines[self._next_is_fresh()]
        request = next(iter(line))
        now = self._clock.monotonic()
        waited = now - line.pop(request)
        self._processing[request] = now
        delay = self._delays.discard(request)
        if delay is not None:
            self._taken[request] = delay
        if self._listener is not None:
            self._listener.started(waited)
        return request

    def done(self, request: Request) -> None:
        """End the processing of *request*; it goes in line again if it was added meanwhile.

        Raises:
            ValueError: *request* was not handed out; two workers on one key would go unnoticed otherwise.
        """
        if request not in self._processing:
            raise ValueError(f"{request} is not being processed")
        worked = self._clock.monotonic() - self._processing.pop(request)
        delay = self._taken.pop(request, None)
        fresh = self._again.pop(request, None)
        if self._listener is not None:
            self._listener.finished(worked)
        if delay is not None and not self._closed:
            self._delays.add(request, delay)
        if fresh is not None:
            self.add(request, fresh=fresh)
        self._note_drained()

    def close(self) -> None:
        """Hand out no more keys: waiting getters end, adds are ignored; keys in processing go on until done."""
        self._closed = True
        self._delays.close()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._note_drained()

    async def drained(self) -> None:
        """Return when the queue is closed and no key is being processed any more."""
        await self._drained.wait()

    def _release(self, request: Request, delayed: Delayed) -> None:
        self.add(request, fresh=delayed.fresh)

    def _next_is_fresh(self) -> bool:
        """Choose the line of the next key and count how many fresh ones passed a waiting periodic one."""
        fresh = bool(self._lines[True]) and (not self._lines[False] or self._passed < _FRESH_IN_A_ROW)
        self._passed = self._passed + 1 if fresh and self._lines[False] else 0
        return fresh

    async def _wait_for_key(self) -> None:
        getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            # A getter that was woken and cancelled in the same turn must pass its key on.
            if getter.done() and not getter.cancelled() and self.depth:
                self._wake_getter()
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _note_drained(self) -> None:
        if self._closed and not self._processing:
            self._drained.set()
