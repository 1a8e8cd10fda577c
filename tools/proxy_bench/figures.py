"""Figures out of many measurements. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* (0 to 1) of *values* do not exceed; the nearest one that was measured."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the first and of the last quarter."""
    size = max(1, len(values) // 4)
    return median(values[:size]), median(values[-size:])


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return by how much a straight line through the points rises per second (least squares)."""
    mean_time, mean_value = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - mean_time) ** 2 for time in times)
    if not spread:
        return 0.0
    return sum((t - mean_time) * (v - mean_value) for t, v in zip(times, values, strict=True)) / spread
