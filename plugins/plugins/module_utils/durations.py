"""Durations as the specs write them: `30s`, `10m`, `1h30m`. Pure."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?:[0-9]+[hms])+")
_PART = re.compile(r"([0-9]+)([hms])")
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def seconds(text: object, *, default: float = 0.0) -> float:
    """Return a duration in seconds, *default* where none is given."""
    if text in {None, ""}:
        return default
    if not _FORM.fullmatch(str(text)):
        raise ValueError(f"{text!r} is no duration; write one such as 30s, 10m or 1h30m")
    return float(sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(str(text))))


def backoff(failures: int, *, first: float, most: float) -> float:
    """Return the pause after the n-th failure in a row: doubled each time, up to *most*."""
    return min(most, first * 2.0 ** min(max(failures, 1) - 1, 30))
