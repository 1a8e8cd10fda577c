"""What a queue tells its listener, written down."""

from __future__ import annotations


class Recorder:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, float]] = []

    def added(self) -> None:
        """Note an add."""
        self.heard.append(("added", 0))

    def started(self, waited: float) -> None:
        """Note a hand-out."""
        self.heard.append(("started", waited))

    def finished(self, worked: float) -> None:
        """Note an end."""
        self.heard.append(("finished", worked))

    def retried(self) -> None:
        """Note a failure."""
        self.heard.append(("retried", 0))
