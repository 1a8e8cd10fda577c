"""The measured values, by figure and contestant; what they are worth; and their file. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

_DEVIATION = 1.4826
"""Makes a standard deviation of a median absolute one, where the values are normal."""
_OF_MEDIAN = 1.2533
"""How much wider the median of a sample scatters than its mean: the root of pi/2."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """The values of one figure with one contestant."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        """Return the middle one."""
        return median(self.values)

    @property
    def error(self) -> float | None:
        """Return the relative standard error of the median; None where there are too few values to know."""
        if len(self.values) < 3 or not self.median:
            return None
        middle = self.median
        deviation = median(abs(value - middle) for value in self.values) * _DEVIATION
        return _OF_MEDIAN * deviation / math.sqrt(len(self.values)) / abs(middle)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times more one contestant needs than warm."""

    value: float
    error: float | None
    """Its relative standard error; None: unknown."""


@dataclass(kw_only=True)
class Results:
    """What was measured so far."""

    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Values by key of the figure and name of the contestant."""
    notes: list[str] = field(default_factory=list)
    """What the table has to say besides, in sentences."""

    def add(self, key: str, contestant: str, *, value: float) -> None:
        """Add one value."""
        self.series.setdefault(key, {}).setdefault(contestant, []).append(value)

    def get(self, key: str, contestant: str) -> Series | None:
        """Return the values of a figure with a contestant, None where there are none."""
        values = self.series.get(key, {}).get(contestant)
        return Series(values=values) if values else None

    def note(self, sentence: str) -> None:
        """Add a sentence, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def ratio(self, key: str, *, of: str, to: str) -> Ratio | None:
        """Return how many times more *of* needs than *to*."""
        more, less = self.get(key, of), self.get(key, to)
        if more is None or less is None or less.median <= 0:
            return None
        errors = (more.error, less.error)
        known = [error for error in errors if error is not None]
        error = math.hypot(*known) if len(known) == len(errors) else None
        return Ratio(value=more.median / less.median, error=error)

    def contestants(self) -> set[str]:
        """Return the names of those with values."""
        return {name for by_name in self.series.values() for name in by_name}


def to_json(results: Results, *, about: Mapping[str, Any]) -> str:
    """Return the raw values with what is known *about* the run."""
    rounded = {
        key: {name: [round(value, 4) for value in values] for name, values in by_name.items()}
        for key, by_name in results.series.items()
    }
    return json.dumps({**about, "values": rounded, "notes": results.notes}, indent=1) + "\n"
