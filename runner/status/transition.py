"""What a reconcile wants to say in status, as a value: computed once, written now or later, without a new run."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from runner.status import conditions


class Ending(conditions.Ended, Protocol):
    """How a run ended (`runner.execution.executor.Outcome` is one)."""

    @property
    def requeue_after(self) -> timedelta | None:
        """The period that the run asked for: needed again when the write succeeds later."""
        ...


class Kind(enum.Enum):
    """What a reconcile has to say."""

    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    PAUSED = "paused"


@dataclass(frozen=True, kw_only=True)
class Transition:
    """One change of our conditions; use `running`, `done`, `error` or `paused` to make one."""

    kind: Kind
    at: datetime
    generation: int = 0
    """Of the object that the run, or the error, belongs to."""
    outcome: Ending | None = None
    """Of the run, for `DONE`."""
    message: str = ""
    """For `ERROR` and `PAUSED`."""
    message_limit: int = conditions.MESSAGE_LIMIT
    """Bytes of a condition's message."""
    tell_generation: bool = True
    """False for a kind whose generation counts this very write: what we told would always be out of date."""

    def apply(self, found: object) -> list[Any]:
        """Return the conditions that follow from those *found* on the object."""
        if self.kind is Kind.RUNNING:
            return conditions.mark_running(found, self.at)
        if self.kind is Kind.PAUSED:
            return conditions.mark_paused(found, self.message, now=self.at)
        if self.outcome is not None:
            told = self.generation if self.tell_generation else 0
            return conditions.mark_done(
                found, self.outcome, generation=told, now=self.at, message_limit=self.message_limit
            )
        return conditions.mark_error(found, self.message, now=self.at, message_limit=self.message_limit)


def running(*, at: datetime, generation: int) -> Transition:
    """Say that a run starts."""
    return Transition(kind=Kind.RUNNING, at=at, generation=generation)


def done(
    outcome: Ending, *, at: datetime, generation: int, message_limit: int = conditions.MESSAGE_LIMIT
) -> Transition:
    """Say how a run ended."""
    return Transition(kind=Kind.DONE, at=at, generation=generation, outcome=outcome, message_limit=message_limit)


def error(message: str, *, at: datetime, generation: int, message_limit: int = conditions.MESSAGE_LIMIT) -> Transition:
    """Say why there is no run, or no end of it."""
    return Transition(kind=Kind.ERROR, at=at, generation=generation, message=message, message_limit=message_limit)


def paused(message: str, *, at: datetime) -> Transition:
    """Say that no run starts, as a person wants it."""
    return Transition(kind=Kind.PAUSED, at=at, message=message)
