"""Transitions as values, and the store of those that could not be written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from runner.execution.executor import Outcome
from runner.status.conditions import mark_done, mark_error, mark_running
from runner.status.pending import PendingStatus
from runner.status.transition import Kind, done, error, running

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
OUTCOME = Outcome(success=False, failures=("no",), requeue_after=timedelta(seconds=9), started=NOW, finished=NOW)


def test_transitions_compute_what_the_functions_compute() -> None:
    """A transition that is applied later gives the conditions of the moment it was made."""
    found = mark_running([], NOW)
    assert running(at=NOW, generation=1).apply([]) == found
    assert done(OUTCOME, at=NOW, generation=2).apply(found) == mark_done(found, OUTCOME, generation=2, now=NOW)
    assert error("x", at=NOW, generation=3).apply(found) == mark_error(found, "x", now=NOW)


def test_a_generation_that_the_write_itself_moves_is_not_told() -> None:
    """For a kind that counts status writes the conditions name no generation, and the transition still knows it."""
    transition = replace(done(OUTCOME, at=NOW, generation=2), tell_generation=False)
    assert transition.apply([]) == mark_done([], OUTCOME, generation=0, now=NOW)
    assert transition.generation == 2


def test_a_transition_keeps_what_its_reconcile_needs_later() -> None:
    """Kind, generation and the period that the run asked for are there when the write succeeds later."""
    transition = done(OUTCOME, at=NOW, generation=2)
    assert (transition.kind, transition.generation) == (Kind.DONE, 2)
    assert transition.outcome is not None
    assert transition.outcome.requeue_after == timedelta(seconds=9)


def test_the_message_limit_reaches_the_condition() -> None:
    """A limit from the settings cuts the messages of runs and of errors."""
    long = Outcome(success=False, failures=("x" * 200,), started=NOW, finished=NOW)
    for transition in (
        done(long, at=NOW, generation=1, message_limit=100),
        error("x" * 200, at=NOW, generation=1, message_limit=100),
    ):
        (failure,) = [entry for entry in transition.apply([]) if entry["type"] == "Failure"]
        assert len(failure["message"]) == 100


def test_the_last_transition_of_an_object_is_kept() -> None:
    """A later transition takes the place of an earlier one."""
    pending = PendingStatus()
    first, second = running(at=NOW, generation=1), error("x", at=NOW, generation=1)
    pending.keep("web", uid="u1", transition=first)
    pending.keep("web", uid="u1", transition=second)
    assert pending.of("web", uid="u1") is second
    assert len(pending) == 1


def test_reading_leaves_a_transition_until_it_is_dropped() -> None:
    """A transition waits until its write succeeded."""
    pending = PendingStatus()
    transition = running(at=NOW, generation=1)
    pending.keep("web", uid="u1", transition=transition)
    assert pending.of("web", uid="u1") is pending.of("web", uid="u1") is transition
    pending.drop("web")
    pending.drop("web")
    assert pending.of("web", uid="u1") is None


def test_an_object_created_anew_never_gets_the_old_status() -> None:
    """Another UID under the same name gets nothing, and the old transition is dropped for good."""
    pending = PendingStatus()
    pending.keep("web", uid="old", transition=running(at=NOW, generation=1))
    assert pending.of("web", uid="new") is None
    assert pending.of("web", uid="old") is None
    assert len(pending) == 0
