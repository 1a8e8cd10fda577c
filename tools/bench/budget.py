"""How many rounds there is time for: each section has its share of what is left when it begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runner.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """How many rounds a section wants."""

    least: int
    """As many are done unless the whole time is over."""
    most: int


@dataclass(kw_only=True)
class Budget:
    """The time of one benchmark."""

    seconds: float
    clock: Clock
    shares: Mapping[str, float]
    """Of the sections to come, by name."""
    _begun: float = field(init=False)
    _over: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._begun = self.clock.monotonic()

    @property
    def left(self) -> float:
        """Return the seconds until the end."""
        return self.seconds - (self.clock.monotonic() - self._begun)

    def rounds(self, section: str, *, wanted: Rounds) -> Iterator[int]:
        """Give the numbers of the rounds of *section*, as long as another one fits."""
        waiting = {name: share for name, share in self.shares.items() if name not in self._over}
        self._over.add(section)
        begun, allowed = self.clock.monotonic(), self.left * waiting[section] / sum(waiting.values())
        for number in range(wanted.most):
            if self.left <= 0:
                return
            used = self.clock.monotonic() - begun
            typical = used / number if number else 0.0
            if number >= wanted.least and used + typical > allowed:
                return
            if number and typical > self.left:
                return
            yield number
