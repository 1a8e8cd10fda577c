"""The last step of the flow: what the queue does with a key after its reconcile.

A reconcile ends in a `Decision`. Exactly one wake-up is pending for a key afterwards: the one that the newest
decision asked for (and whatever the watch adds).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from runner.errors import OperatorError, Verdict
from runner.kube.objects import Object, annotations_of
from runner.watches.durations import PERIOD_ANNOTATION, parse_duration
from runner.watches.model import Watch
from runner.workqueue.request import Request

_SHORTEST_WAIT = 1.0


@dataclass(frozen=True, kw_only=True)
class Forget:
    """Nothing more to do until the object changes."""


@dataclass(frozen=True, kw_only=True)
class RequeueAfter:
    """Come back after `seconds`; `fresh`: ahead of periodic re-runs."""

    seconds: float
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """It failed: come back later and later; a new `wish` (`Context.wish`) starts with the shortest delay."""

    wish: int = 0


@dataclass(frozen=True, kw_only=True)
class Parked:
    """Another watch reconciles the object: the queue holds the key back; delay and back-off stay as they are."""


Decision = Forget | RequeueAfter | Backoff | Parked


class Queue(Protocol):
    """What a decision needs of the work queue."""

    def add_after(self, request: Request, delay: float, *, fresh: bool = False) -> None:
        """Add after *delay* seconds."""
        ...

    def add_rate_limited(self, request: Request) -> float:
        """Add after the back-off's delay, and return it in seconds."""
        ...

    def forget(self, request: Request) -> None:
        """Count no failures of *request* any more."""
        ...

    def cancel_delayed(self, request: Request) -> None:
        """Drop a pending delayed add."""
        ...


class Scheduler:
    """Turns decisions into calls of one queue."""

    def __init__(self, *, queue: Queue) -> None:
        """Speak to *queue*."""
        self._queue = queue
        self._failed_wish: dict[Request, int] = {}

    def apply(self, request: Request, decision: Decision) -> float | None:
        """Carry out *decision*; return the delay in seconds until *request* comes again, None for never."""
        if isinstance(decision, Parked):
            return None
        self._queue.cancel_delayed(request)
        if isinstance(decision, Backoff):
            if self._failed_wish.get(request) != decision.wish:
                self._queue.forget(request)
            self._failed_wish[request] = decision.wish
            return self._queue.add_rate_limited(request)
        self._queue.forget(request)
        self._failed_wish.pop(request, None)
        if isinstance(decision, RequeueAfter):
            self._queue.add_after(request, decision.seconds, fresh=decision.fresh)
            return decision.seconds
        return None


@dataclass(frozen=True, kw_only=True)
class Periods:
    """How often an object is reconciled without a change: annotation, else watch, else flag; zero is never."""

    watch: timedelta | None
    flag: timedelta

    def of(self, obj: Object) -> timedelta:
        """Return the period of *obj*.

        Raises:
            ValueError: its annotation is no Go duration; the text is a sentence for the condition.
        """
        value = annotations_of(obj).get(PERIOD_ANNOTATION)
        if value is not None:
            try:
                return parse_duration(value)
            except ValueError as error:
                raise ValueError(
                    f"Unable to parse reconcile period annotation: {error}; set {PERIOD_ANNOTATION} to a duration "
                    "such as 30s, 5m or 1h, or remove it"
                ) from error
        return self.flag if self.watch is None else self.watch

    @classmethod
    def for_watch(cls, watch: Watch, *, flag: timedelta) -> Periods:
        """Return the periods of *watch*'s objects, *flag* being --reconcile-period."""
        return cls(watch=watch.reconcile_period, flag=flag)


class Ended(Protocol):
    """How a run ended, as far as its next turn depends on it."""

    @property
    def success(self) -> bool:
        """Whether the run did what it should."""
        ...

    @property
    def requeue_after(self) -> timedelta | None:
        """The period that the run asked for."""
        ...


def after_run(outcome: Ended, *, period: timedelta, wish: int) -> Decision:
    """Decide after a run: failures back off, `requeue_after` wins over the period, zero or less means never."""
    if not outcome.success:
        return Backoff(wish=wish)
    wait = period if outcome.requeue_after is None else outcome.requeue_after
    if wait <= timedelta(0):
        return Forget()
    return RequeueAfter(seconds=wait.total_seconds())


def after_error(error: OperatorError, *, wish: int) -> Decision:
    """Decide after an error that ended a reconcile early: wait as long as it says, else back off."""
    if error.verdict is Verdict.RETRY_AT and error.retry_after is not None and error.retry_after >= _SHORTEST_WAIT:
        return RequeueAfter(seconds=error.retry_after)
    return Backoff(wish=wish)  # a server that asks for no wait at all is not asked in a hot loop


def result_of(decision: Decision, *, failed: bool) -> str:
    """Return how a reconcile ended, in the words of controller-runtime's metrics; *failed*: an error ended it early."""
    if failed or isinstance(decision, Backoff):
        return "error"
    if isinstance(decision, Parked):
        return "requeue"
    if isinstance(decision, RequeueAfter):
        return "requeue_after" if decision.seconds > 0 else "requeue"
    return "success"


def describe(delay: float | None) -> Mapping[str, object]:
    """Return the log keys that tell when a key comes again."""
    return {} if delay is None else {"requeueAfterSeconds": round(delay, 3)}
