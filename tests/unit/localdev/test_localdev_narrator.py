"""What a person sees while something long goes on, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from runner.localdev.narrator import Narrator


def told(stream: io.StringIO) -> list[str]:
    """Return the lines without the seconds before them."""
    return [line.partition("s ")[2] for line in stream.getvalue().splitlines()]


def test_elsewhere_than_on_a_terminal_each_change_is_one_line() -> None:
    """What is new, what is different and what is gone is told once, also over several waits."""
    stream = io.StringIO()
    narrator = Narrator(stream=stream)
    with narrator.live() as show:
        show([("Node", "a", "NotReady"), ("Node", "b", "Ready")])
        show([("Node", "a", "Ready"), ("Node", "b", "Ready")])
    with narrator.live() as show:
        show([("Node", "a", "Ready")])
    assert told(stream) == [
        "Node         a: NotReady",
        "Node         b: Ready",
        "Node         a: Ready",
        "Node         b: gone",
    ]


def test_on_a_terminal_a_table_changes_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is drawn again over itself, and its last state stays; no text of it is markup."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    narrator = Narrator(stream=stream)
    assert Console(file=stream).is_terminal
    with narrator.live() as show:
        show([("Node", "a", "NotReady")])
        show([("Node", "[red]a", "Ready")])
    text = stream.getvalue()
    assert "\x1b[1A" in text  # the cursor goes up
    assert text.rindex("[red]a") > text.index("NotReady")
