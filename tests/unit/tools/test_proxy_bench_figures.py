"""The figures of the proxy's benchmark: percentiles, quarters, slopes."""

from __future__ import annotations

import pytest

from tools.machine import head
from tools.proxy_bench.figures import percentile, quarters, slope


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.95, 95), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    """The share of the values that do not exceed it is as asked, in whatever order they came."""
    assert percentile(list(range(100, 0, -1)), share) == value


def test_quarters_are_medians() -> None:
    """An outlier in a quarter doesn't move it, and the middle half counts in neither."""
    assert quarters([1, 1, 100, 50, 50, 50, 50, 50, 50, 2, 2, 90]) == (1, 2)
    assert quarters([7]) == (7, 7)


def test_a_slope_is_per_second() -> None:
    """What rises by two each half second rises by four a second; one point rises by nothing."""
    assert slope([0.0, 0.5, 1.0], [1.0, 3.0, 5.0]) == pytest.approx(4.0)
    assert slope([1.0], [5.0]) == 0


def test_the_head_tells_where_it_was_measured() -> None:
    """Date, versions and load stand above each table."""
    text = head("v1.36.3")
    assert "Kubernetes v1.36.3" in text
    assert "UTC" in text
    assert "load" in text
