"""What the queue does with a key after its reconcile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runner.errors import Call, Conflict, Forbidden, TooManyRequests
from runner.execution.executor import Outcome
from runner.kube.objects import GVK
from runner.reconcile.schedule import (
    Backoff,
    Decision,
    Forget,
    Periods,
    RequeueAfter,
    Scheduler,
    after_error,
    after_run,
)
from runner.watches.durations import PERIOD_ANNOTATION
from runner.workqueue.request import Request

_REQUEST = Request(GVK("bugs.example.com", "v1", "Probe"), "ns", "one")
_CALL = Call(verb="get", resource="probes.bugs.example.com")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class RecordingQueue:
    """Keeps the calls that a scheduler makes."""

    def __init__(self) -> None:
        """Start with none."""
        self.calls: list[tuple[str, float]] = []

    def add_after(self, request: Request, delay: float, *, fresh: bool = False) -> None:
        """Keep the delay."""
        assert request == _REQUEST
        self.calls.append(("fresh" if fresh else "after", delay))

    def add_rate_limited(self, request: Request) -> float:
        """Keep the call; the delay is always one second."""
        assert request == _REQUEST
        self.calls.append(("limited", 1.0))
        return 1.0

    def forget(self, request: Request) -> None:
        """Keep the call."""
        assert request == _REQUEST
        self.calls.append(("forget", 0.0))

    def cancel_delayed(self, request: Request) -> None:
        """Keep the call."""
        assert request == _REQUEST
        self.calls.append(("cancel", 0.0))


def _outcome(*, success: bool = True, requeue: timedelta | None = None) -> Outcome:
    failures = () if success else ("broken",)
    return Outcome(success=success, failures=failures, requeue_after=requeue, started=_NOW, finished=_NOW)


@pytest.mark.parametrize(
    ("outcome", "period", "expected"),
    [
        (_outcome(), timedelta(hours=10), RequeueAfter(seconds=36000.0)),
        (_outcome(), timedelta(0), Forget()),
        (_outcome(), timedelta(seconds=-1), Forget()),
        (_outcome(requeue=timedelta(seconds=5)), timedelta(hours=10), RequeueAfter(seconds=5.0)),
        (_outcome(requeue=timedelta(0)), timedelta(hours=10), Forget()),
        (_outcome(success=False), timedelta(hours=10), Backoff(wish=7)),
        (_outcome(success=False, requeue=timedelta(seconds=5)), timedelta(0), Backoff(wish=7)),
    ],
)
def test_after_run(outcome: Outcome, period: timedelta, expected: Decision) -> None:
    """A failure backs off, a requested requeue wins over the period, and zero or less means never."""
    assert expected == after_run(outcome, period=period, wish=7)


def test_errors_decide_by_their_verdict() -> None:
    """A conflict backs off; too many requests waits as told; a missing right is tried again slowly."""
    assert after_error(Conflict("x", call=_CALL), wish=3) == Backoff(wish=3)
    assert after_error(TooManyRequests("x", call=_CALL, retry_after=7), wish=3) == RequeueAfter(seconds=7)
    assert after_error(TooManyRequests("x", call=_CALL, retry_after=0), wish=3) == Backoff(wish=3)
    assert after_error(Forbidden("x", call=_CALL), wish=3) == RequeueAfter(seconds=30.0)


@pytest.mark.parametrize(
    ("annotation", "watch", "expected"),
    [
        (None, None, timedelta(hours=10)),
        (None, timedelta(seconds=3), timedelta(seconds=3)),
        (None, timedelta(0), timedelta(0)),
        ("2s", timedelta(seconds=3), timedelta(seconds=2)),
        ("0", timedelta(seconds=3), timedelta(0)),
        ("-1s", None, timedelta(seconds=-1)),
    ],
)
def test_period_precedence(annotation: str | None, watch: timedelta | None, expected: timedelta) -> None:
    """The annotation wins over the watch, the watch over the flag, and a zero counts as said (field case Q2)."""
    metadata = {} if annotation is None else {"annotations": {PERIOD_ANNOTATION: annotation}}
    assert expected == Periods(watch=watch, flag=timedelta(hours=10)).of({"metadata": metadata})


@pytest.mark.parametrize("value", ["5", "1d", "1x3m9s", "", " 5s"])
def test_invalid_period_annotation_names_itself(value: str) -> None:
    """An annotation that is no Go duration is refused with a sentence that names it and the remedy (field case Q2)."""
    with pytest.raises(ValueError, match=r"Unable to parse reconcile period annotation: time: .* such as 30s"):
        Periods(watch=None, flag=timedelta(0)).of({"metadata": {"annotations": {PERIOD_ANNOTATION: value}}})


def test_a_decision_replaces_the_pending_wake_up() -> None:
    """Whatever was pending for a key is cancelled before the newest decision is carried out."""
    queue = RecordingQueue()
    assert Scheduler(queue=queue).apply(_REQUEST, RequeueAfter(seconds=4.0)) == 4.0
    assert queue.calls == [("cancel", 0.0), ("forget", 0.0), ("after", 4.0)]


def test_failures_of_one_generation_back_off_and_a_new_generation_starts_again() -> None:
    """The failure count is kept while the generation stays, and forgotten when a new one fails for the first time."""
    queue = RecordingQueue()
    scheduler = Scheduler(queue=queue)
    for generation in (1, 1, 2):
        scheduler.apply(_REQUEST, Backoff(wish=generation))
    kinds = [kind for kind, _ in queue.calls if kind != "cancel"]
    assert kinds == ["forget", "limited", "limited", "forget", "limited"]


def test_forgetting_schedules_nothing() -> None:
    """A key that is done comes back only by a change."""
    queue = RecordingQueue()
    assert Scheduler(queue=queue).apply(_REQUEST, Forget()) is None
    assert queue.calls == [("cancel", 0.0), ("forget", 0.0)]
