"""Keeps the embedded operator of Python handlers alive while this instance leads; a part of the operator.

It starts one `Life` after the other: after an error with back-off and a line in the log that says what comes next.
The probes read here how it goes, and runs of Ansible get here what handlers publish.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.clock import Clock
from runner.errors import ExecutionError
from runner.handlers.configuration import FINALIZER
from runner.handlers.embedded import Ended, Life, Plan, Renewal
from runner.handlers.records import records_of_handlers
from runner.kube.objects import Object
from runner.observe.activity import busy
from runner.observe.health import Finding
from runner.settings import HandlersSettings
from runner.workqueue.backoff import Backoff

_RAN_WELL = 300.0
"""Seconds; an end after a longer life is the first one again."""
_PULSE = 0.1
_LAST_WAIT = 2.0
"""Seconds that are left to handlers where there is no grace period (any more)."""


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """How the host behaves."""

    handlers: HandlersSettings
    log_level: str = "info"
    loop_limit: float = 30.0
    """Seconds: a loop of handlers that doesn't turn for longer is no good."""


class Host:
    """Supervises the embedded operator; `run` until `stop` is called."""

    def __init__(self, plan: Plan, *, settings: HostSettings, clock: Clock) -> None:
        """Start nothing yet."""
        self._plan = plan
        self._settings = settings
        self._clock = clock
        self._log = plan.logger
        self._delay: Callable[[int], float] = Backoff(settings.handlers.backoff, random.SystemRandom().random).delay
        self._life: Life | None = None
        self._stopping = asyncio.Event()
        self._trouble = ""
        for file in plan.loaded.files:
            plan.metrics.running_when(str(file), lambda: self.running)

    @property
    def running(self) -> bool:
        """Return whether handlers run; in any thread."""
        life = self._life
        return life is not None and life.running

    def stop(self) -> None:
        """Begin the end; a second call changes nothing."""
        self._stopping.set()
        if self._life is not None:
            self._life.stop()

    async def run(self) -> None:
        """Keep handlers running until `stop`; cancelled, leave them little time and then to themselves."""
        self._tell()
        failures = renewals = 0
        with records_of_handlers(self._log, level=self._settings.log_level):
            while not self._stopping.is_set():
                began = self._clock.monotonic()
                error = await self._live()
                if self._stopping.is_set():
                    break
                if self._clock.monotonic() - began > _RAN_WELL:
                    failures = renewals = 0
                if isinstance(error, Renewal):
                    renewals += 1
                    await self._renew(error, delay=self._delay(renewals))
                else:
                    failures += 1
                    await self._restart(error, failures=failures)
        self._log.info("The Python handlers have ended")

    def readiness(self) -> Finding | None:
        """Return what keeps handlers from running, or what a person should know; in any thread."""
        life, trouble = self._life, self._trouble
        if trouble:
            return Finding(sentence=trouble)
        if life is None:
            return None
        if not life.running:
            return Finding(sentence=_not_started(life))
        told = (
            [f"not served by the API server, and looked for: {', '.join(life.unresolved)}"] if life.unresolved else []
        )
        if not life.complete:
            told.append(_incomplete(life))
        return Finding(sentence="; ".join(told), fails=False) if told else None

    def liveness(self) -> Finding | None:
        """Return what a restart of the process would mend; in any thread."""
        life = self._life
        if life is None or life.ended.done() or life.pulse <= self._settings.loop_limit:
            return None
        return Finding(
            sentence=f"the handlers' event loop has not turned for {life.pulse:.0f} s "
            f"(limit {self._settings.loop_limit:g} s): a handler blocks it; await, or write it without async"
        )

    async def values(self, file: Path, obj: Object) -> dict[str, Any]:
        """Return what *file* publishes for a run for *obj*.

        Raises:
            ExecutionError: handlers don't run or their indexes aren't complete for too long, or a function fails.
        """
        if not self._plan.loaded.published.get(file):
            return {}
        patience = self._settings.handlers.patience
        try:
            with busy():
                async with asyncio.timeout(patience):
                    return await self._values(file, obj)
        except TimeoutError as error:
            raise ExecutionError(
                f"the run needs values of {file}, but after {patience:g} s {self._obstacle()}"
            ) from error

    async def _values(self, file: Path, obj: Object) -> dict[str, Any]:
        """Ask the present life, or the one that follows: between two lives nothing is wrong yet."""
        while not self._stopping.is_set():
            life = self._life
            if life is not None and life.running:
                with contextlib.suppress(Ended):
                    return await life.values(file, obj)
            await asyncio.sleep(_PULSE)  # a life is in another thread, and wakes nobody here
        raise ExecutionError(f"the run needs values of {file}, whose handlers are being stopped")

    def _obstacle(self) -> str:
        """Return why there are no values."""
        life, trouble = self._life, self._trouble
        if trouble or life is None:
            return f"its handlers don't run: {trouble or 'not started'}"
        if not life.running:
            return f"its handlers have {_not_started(life)}"
        return _incomplete(life) if not life.complete else "a function that is @published has not returned"

    async def _live(self) -> BaseException | None:
        """Live once; return what ended it."""
        life = self._life = Life(self._plan)
        ended = asyncio.wrap_future(life.ended)
        life.start()
        self._trouble = ""
        try:
            await asyncio.wait({ended})
        finally:
            if not ended.done():
                await self._abandon(life, ended)
        return ended.exception() if ended.done() and not ended.cancelled() else None

    async def _abandon(self, life: Life, ended: asyncio.Future[None]) -> None:
        life.stop()
        await asyncio.wait({ended}, timeout=_LAST_WAIT)
        if ended.done():
            with contextlib.suppress(BaseException):
                ended.result()
            return
        ended.cancel()
        self._log.error("Python handlers didn't end in time; they end with the process")

    async def _restart(self, error: BaseException | None, *, failures: int) -> None:
        delay, reason = self._delay(failures), _told(error)
        self._log.error(
            "The Python handlers ended by an error; they start again",
            reason=reason,
            seconds=round(delay, 1),
            time=failures,
            error=error,
        )
        for file in self._plan.loaded.files:
            self._plan.metrics.restarted(str(file))
        await self._pause(delay, trouble=f"ended by an error, starting again in up to {delay:.0f} s: {reason}")

    async def _renew(self, error: Renewal, *, delay: float) -> None:
        self._log.info("The Python handlers make their indexes anew", reason=str(error), seconds=round(delay, 1))
        await self._pause(delay, trouble=f"the indexes are made anew: {error}")

    async def _pause(self, delay: float, *, trouble: str) -> None:
        self._life = None
        self._trouble = trouble
        pause = asyncio.create_task(self._clock.sleep(delay))
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({pause, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pause, stopped):
                task.cancel()
            await asyncio.gather(pause, stopped, return_exceptions=True)

    def _tell(self) -> None:
        loaded = self._plan.loaded
        for file, handlers in loaded.files.items():
            names = [f"{handler.decorator} {handler.id}" for handler in handlers]
            self._log.info(
                "Starting Python handlers", file=str(file), handlers=names, published=list(loaded.published[file])
            )
        holding = [*loaded.of("timer"), *loaded.of("daemon")]
        if holding:
            self._log.info(
                "Objects with a timer or daemon are held by a finalizer: before handlers go, they must let go",
                finalizer=FINALIZER,
                handlers=holding,
            )


def _told(error: BaseException | None) -> str:
    """Return what happened, and why, in one line; kopf's own sentence is often about others' errors."""
    if error is None:
        return "no reason"
    told = f"{type(error).__name__}: {error}"
    return f"{told} (because of {_told(error.__cause__)})" if error.__cause__ is not None else told


def _not_started(life: Life) -> str:
    return f"not started yet, waiting for {', '.join(life.missing) or 'the start-up handlers'}"


def _incomplete(life: Life) -> str:
    """Return that the indexes aren't complete, and what they wait for."""
    missing = f": {', '.join(life.missing)}" if life.missing else ""
    return f"the indexes are not complete yet{missing}"
