"""The states of an instance and how long the passing ones last.

`LifecycleState` takes the place of moto's `InstanceState`: moto sets a name and it is so at once; here `running` is
reached by way of `pending`, and the name that is read depends on the time.
"""

from __future__ import annotations

from collections.abc import Callable

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
_VIA = {"running": "pending", "stopped": "stopping", "terminated": "shutting-down"}


class ShownState:
    """A state that stands still: the `previousState` of an answer."""

    def __init__(self, name: str) -> None:
        """Name the state; its code follows."""
        self.name = name
        self.code = CODES[name]


class LifecycleState:
    """The state of one instance: where it goes, and when it gets there."""

    def __init__(self, name: str, *, now: Callable[[], float], duration: Callable[[str], float]) -> None:
        """Go to *name* by way of the state that comes before it."""
        self._now = now
        self._duration = duration
        self.created = now()
        self.target = ""
        self._via = ""
        self._due = 0.0
        self.name = name

    @property
    def name(self) -> str:
        """The state at this moment."""
        return self._via if self._now() < self._due else self.target

    @name.setter
    def name(self, target: str) -> None:
        if target == self.target:
            return  # being there, or on the way, is no new transition
        self.target, self._via = target, _VIA.get(target, target)
        self._due = self._now() + self._duration(self._via)

    @property
    def code(self) -> int:
        """The number that EC2 gives the state."""
        return CODES[self.name]

    @code.setter
    def code(self, value: int) -> None:
        """Ignore moto's number: it follows the name."""

    def since(self) -> float:
        """Return the seconds since the target was reached; negative on the way."""
        return self._now() - self._due

    def __copy__(self) -> ShownState:
        """Return the state of this moment: moto copies a state to keep what it was."""
        return ShownState(self.name)
