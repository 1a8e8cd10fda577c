"""When the next fork server is started after one that failed, and which failures are news; asked by `launcher`."""

from __future__ import annotations

import re
from collections.abc import Callable

_AFTER_DEATH = 60.0
_AFTER_FAILED_START = 600.0
"""Seconds between two tries, whatever `delay` says. A death costs only speed, but that is felt. A start that failed
will most likely fail again, with all its imports, until somebody changes something; then it is tried at once."""
_REMEMBERED = 100
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d{4,}")
"""What may differ between two messages of one fault: addresses, process ids, times. Not the line of a file."""


class Tries:
    """Counts failures in a row."""

    def __init__(self, *, delay: Callable[[int], float]) -> None:
        """*delay* returns the seconds to wait after so many failures (1 is the first)."""
        self._delay = delay
        self._told: set[str] = set()
        self._longest = _AFTER_DEATH
        self.failures = 0

    @property
    def pause(self) -> float:
        """Return the seconds until the next try; zero where nothing failed."""
        return min(self._delay(self.failures), self._longest) if self.failures else 0.0

    def start_failed(self, reason: str) -> bool:
        """Count a start that failed; tell whether its reason is another one than those of the starts before."""
        self.failures += 1
        self._longest = _AFTER_FAILED_START
        same = _VARIES.sub("N", reason)
        if same in self._told:
            return False
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told.add(same)
        return True

    def started(self) -> None:
        """Forget the reasons: a server is ready, so that the next failure is news."""
        self._told.clear()

    def died(self, *, steady: bool) -> None:
        """Count the end of a server that was ready; one that was *steady* did not die of what it is."""
        self._longest = _AFTER_DEATH
        self.failures = 0 if steady else self.failures + 1

    def changed(self) -> None:
        """Begin anew: what changed may have been the reason."""
        self.failures = 0
