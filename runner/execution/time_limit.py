"""The time limit of a run: when it has passed, and what a person reads then.

Between `play`, which ends the run, and `reconcile`, which tells it in an Event.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from runner.clock import Clock
from runner.execution.events import EventSummary
from runner.execution.executor import Outcome
from runner.execution.overrides import RUN_TIMEOUT_ANNOTATION
from runner.watches.durations import format_duration


class TimeLimit:
    """Counts from the start of a play; use as a context manager around it."""

    def __init__(self, limit: timedelta, *, clock: Clock) -> None:
        """Let *limit* pass by *clock*; zero never passes."""
        self._limit = limit
        self._clock = clock
        self._timer: asyncio.Task[None] | None = None

    def __enter__(self) -> TimeLimit:
        """Begin to count."""
        if self._limit > timedelta():
            self._timer = asyncio.create_task(
                self._clock.sleep(self._limit.total_seconds()), name="time limit of a run"
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def passed(self) -> bool:
        """Tell whether the play's time is up."""
        return self._timer is not None and self._timer.done() and not self._timer.cancelled()

    def outcome(self, outcome: Outcome, *, summary: EventSummary) -> Outcome:
        """Return *outcome* of a play that was ended: a failure that names the limit first, then what failed before."""
        before = tuple(failure.message for failure in summary.failures)
        return replace(outcome, success=False, failures=(self._sentence(summary.last_task), *before), timed_out=True)

    def _sentence(self, task: str) -> str:
        at = f'; the task that began last was "{task}"' if task else "; no task had begun"
        return (
            f"The run took longer than its time limit of {format_duration(self._limit)} and was ended{at}. It is tried "
            f"again; give the task a timeout of its own, or the run more time by runTimeout in watches.yaml or by the "
            f"annotation {RUN_TIMEOUT_ANNOTATION}"
        )
