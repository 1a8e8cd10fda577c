"""Delays of failing keys."""

from __future__ import annotations

import random

import pytest

from runner.settings import BackoffSettings
from runner.workqueue.backoff import Backoff


def _steady() -> float:
    """Return the middle of the jitter's range: no jitter."""
    return 0.5


def test_delays_double_from_one_second() -> None:
    """The first failure costs one second, each further one twice as much."""
    backoff = Backoff(BackoffSettings(), _steady)
    assert [backoff.delay(n) for n in range(1, 6)] == [1, 2, 4, 8, 16]


def test_delays_end_at_the_cap() -> None:
    """However many failures there were, no key waits longer than 1000 seconds."""
    backoff = Backoff(BackoffSettings(), lambda: 0.999)
    assert backoff.delay(11) == 1000
    assert backoff.delay(5000) == 1000


@pytest.mark.parametrize(("number", "share"), [(0.0, 0.9), (1.0, 1.1)])
def test_jitter_varies_a_delay_by_ten_percent(number: float, share: float) -> None:
    """A delay lies between 90 and 110 percent of the plain one."""
    backoff = Backoff(BackoffSettings(), lambda: number)
    assert backoff.delay(4) == pytest.approx(8 * share)


def test_jitter_spreads_keys_at_the_cap() -> None:
    """Keys that have reached the cap don't all come back at the same moment."""
    backoff = Backoff(BackoffSettings(), random.Random(1).random)  # noqa: S311 - repeatable, nothing secret
    delays = {backoff.delay(50) for _ in range(100)}
    assert len(delays) > 30
    assert min(delays) >= 900


def test_no_failure_counts_as_the_first() -> None:
    """A count below one is treated as one, so that a wrong call never makes a delay of zero."""
    assert Backoff(BackoffSettings(), _steady).delay(0) == 1
