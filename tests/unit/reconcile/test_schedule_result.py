"""How a decision is called in the metrics of reconciles."""

from __future__ import annotations

import pytest

from runner.observe.metrics_controller import RESULTS
from runner.reconcile.schedule import Backoff, Decision, Forget, Parked, RequeueAfter, result_of


@pytest.mark.parametrize(
    ("decision", "failed", "result"),
    [
        (Forget(), False, "success"),
        (RequeueAfter(seconds=5), False, "requeue_after"),
        (RequeueAfter(seconds=0, fresh=True), False, "requeue"),
        (Parked(), False, "requeue"),
        (Backoff(), False, "error"),
        (RequeueAfter(seconds=30), True, "error"),
        (Forget(), True, "error"),
    ],
)
def test_each_decision_has_controller_runtimes_word(decision: Decision, *, failed: bool, result: str) -> None:
    """Back-off and whatever an error of ours ended are errors, however the key comes again."""
    assert result_of(decision, failed=failed) == result
    assert result in RESULTS
