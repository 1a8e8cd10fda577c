"""How long a failing key waits: exponential back-off with jitter, a pure function of the number of failures."""

from __future__ import annotations

from collections.abc import Callable

from runner.settings import BackoffSettings


class Backoff:
    """Delays that grow by a factor up to a cap, varied so that keys which failed together don't return together."""

    def __init__(self, settings: BackoffSettings, random: Callable[[], float]) -> None:
        """Take base, factor, cap and jitter from *settings*; *random* returns numbers from 0 up to 1."""
        self._settings = settings
        self._random = random

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after *failures* failures in a row (1 is the first); never more than the cap."""
        settings = self._settings
        try:
            grown = settings.base * settings.factor ** (max(failures, 1) - 1)
        except OverflowError:
            grown = settings.cap
        spread = 1.0 + settings.jitter * (2.0 * self._random() - 1.0)
        return min(min(grown, settings.cap) * spread, settings.cap)
