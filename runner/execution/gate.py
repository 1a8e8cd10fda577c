"""The gate: how many reconciles of all watches together may have a play, and whether there is memory for one more.

A reconcile takes a place before it reads its object, so that what runs is what is there when its turn comes, and its
status says `Running` only then. Turns come in the order of arrival, over all watches. Without a limit and with enough
memory nobody waits, and nothing is asked.

While memory is short no place is given away, not even where nothing runs: a play that starts then is a play that the
kernel ends, and maybe the operator with it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from runner.clock import Clock, SystemClock
from runner.execution.memory import FreeMemory, free_memory
from runner.logs import Logger
from runner.observe.activity import busy

INTERVAL = 1.0
"""Seconds between two looks at the memory while somebody waits for it."""
GROWTH = 3.0
"""Seconds in which a play takes most of the memory that it will have."""
NEEDED = 64 * 1024 * 1024
"""Bytes that a play which has just started is taken to need yet."""
_MIB = 1024 * 1024


class Place:
    """The right to run one play; to be given back."""

    def __init__(self, leave: Callable[[], None]) -> None:
        """Call *leave* when it is given back."""
        self._leave = leave
        self._held = True

    def leave(self) -> None:
        """Give it back; a second call changes nothing."""
        if self._held:
            self._held = False
            self._leave()


class Gate:
    """Hands out places; `enter` waits for one."""

    def __init__(
        self,
        *,
        limit: int = 0,
        min_free: int = 0,
        memory: Callable[[], FreeMemory | None] = free_memory,
        clock: Clock | None = None,
        logger: Logger | None = None,
    ) -> None:
        """Have *limit* places (0: any number), and none while fewer than *min_free* bytes (0: no guard) are free.

        Args:
            limit: see above.
            min_free: see above.
            memory: reads what is free; None where the system doesn't tell, and then there is no guard.
            clock: moves the looks at the memory.
            logger: told when the memory is short and when it suffices again.
        """
        self._limit = limit or math.inf
        self._min_free = min_free
        self._memory = memory
        self._clock = clock or SystemClock()
        self._log = (logger or Logger()).named("gate")
        self._running = 0
        self._turns: deque[asyncio.Future[bool]] = deque()
        self._young: deque[float] = deque()
        """When the last plays started: they have not taken their memory yet."""
        self._short: FreeMemory | None = None
        self._short_since = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def running(self) -> int:
        """Return how many places are taken."""
        return self._running

    @property
    def waiting(self) -> int:
        """Return how many wait for one."""
        return len(self._turns)

    def obstacle(self) -> str | None:
        """Return a sentence that says why nothing starts for want of memory, None where memory is no matter."""
        if self._turns or self._short is not None:
            self._has_memory()  # nobody looks where all places are taken, or nobody waits
        short = self._short
        if short is None or not self._turns:
            return None
        return (
            f"{self.waiting} runs wait for memory: {_mib(short.size)} are free ({short.source}), "
            f"--min-free-memory asks for {_mib(self._min_free)}; {self.running} are running"
        )

    def close(self) -> None:
        """Give away no place any more: whoever waits or comes is told that there is none."""
        self._closed = True
        while self._turns:
            _tell(self._turns.popleft(), admitted=False)
        self._rest()

    async def enter(self) -> Place | None:
        """Wait for a place and return it; None where the gate is closed, as the operator ends."""
        if self._closed:
            return None
        if self._turns or not self._open():
            turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            self._look_on()
            if not await self._turn(turn):
                return None
        else:
            self._take()
        return Place(self._left)

    async def _turn(self, turn: asyncio.Future[bool]) -> bool:
        try:
            with busy():
                return await turn
        except asyncio.CancelledError:
            if turn in self._turns:
                self._turns.remove(turn)
            elif not turn.cancelled() and turn.result():  # both came in one moment: the place is another's now
                self._left()
            if not self._turns:
                self._rest()
            raise

    def _take(self) -> None:
        self._running += 1
        if self._min_free:
            self._young.append(self._clock.monotonic())

    def _left(self) -> None:
        self._running -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._turns and not self._closed and self._open():
            turn = self._turns.popleft()
            if not turn.done():
                self._take()
                _tell(turn, admitted=True)
        if self._turns:
            self._look_on()
        else:
            self._rest()

    def _open(self) -> bool:
        return self._running < self._limit and self._has_memory()

    def _has_memory(self) -> bool:
        free = self._memory() if self._min_free else None
        if free is None:
            return True
        now = self._clock.monotonic()
        while self._young and self._young[0] <= now - GROWTH:
            self._young.popleft()
        suffices = free.size >= self._min_free
        self._note(None if suffices else free, now=now, free=free)
        # what plays have yet to take counts, too, but is no shortage: it is over in a moment
        return suffices and free.size - min(len(self._young), self._running) * NEEDED >= self._min_free

    def _note(self, short: FreeMemory | None, *, now: float, free: FreeMemory) -> None:
        """Log the begin and the end of a shortage, once each."""
        keys = {"free": _mib(free.size), "of": free.source, "minFree": _mib(self._min_free), "running": self._running}
        if short is not None and self._short is None:
            self._short_since = now
            self._log.warning("Memory is short: no new run starts until there is more", **keys)
        elif short is None and self._short is not None:
            self._log.info("There is memory for new runs again", seconds=round(now - self._short_since, 1), **keys)
        self._short = short

    def _look_on(self) -> None:
        """Look at the memory now and then, as nothing tells when there is more of it; a place that is left does."""
        if self._min_free and self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="gate")

    async def _look(self) -> None:
        while self._turns:
            await self._clock.sleep(INTERVAL)
            self._hand_out()

    def _rest(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None and looking is not asyncio.current_task():
            looking.cancel()


def _tell(turn: asyncio.Future[bool], *, admitted: bool) -> None:
    if not turn.done():
        turn.set_result(admitted)


def _mib(size: int) -> str:
    return f"{size / _MIB:.0f}Mi"
