"""What a person sees on the terminal while something long goes on: colours on a TTY, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

Rows = Sequence[tuple[str, str, str]]
"""Kind, name and state of each thing."""


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """One part of the story and the seconds that it took."""

    title: str
    seconds: float


class Narrator:
    """Prints chapters, commands and what they print, and how long each chapter took; safe in threads."""

    def __init__(self, *, stream: TextIO) -> None:
        """Print to *stream*; rich finds out whether that is a terminal."""
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._shown: dict[tuple[str, str], str] = {}
        self.chapters: list[Chapter] = []

    @contextlib.contextmanager
    def chapter(self, title: str) -> Iterator[None]:
        """Print *title*, and after the block how long it took."""
        begun = time.monotonic()
        self._print(f"\n[bold cyan]== {escape(title)}[/]")
        yield
        chapter = Chapter(title=title, seconds=time.monotonic() - begun)
        self.chapters.append(chapter)
        self._print(f"[dim]   ({chapter.seconds:.1f} s)[/]")

    def say(self, sentence: str) -> None:
        """Print one sentence."""
        self._print(f"   {escape(sentence)}")

    def event(self, sentence: str) -> None:
        """Print one thing that happened just now, with the seconds since the start."""
        self._print(f"[dim]{time.monotonic() - self._start:7.1f}s[/] [green]{escape(sentence)}[/]")

    def command(self, argv: Sequence[str], output: str) -> None:
        """Print a command as a person would type it, and its output."""
        lines = [f"   [bold]$ {escape(' '.join(argv))}[/]", *(f"   {escape(line)}" for line in output.splitlines())]
        self._print("\n".join(lines))

    def summary(self) -> None:
        """Print where the time went."""
        table = Table("step", "seconds", title="Where the time went", title_justify="left", box=None, padding=(0, 2))
        for chapter in self.chapters:
            table.add_row(chapter.title, f"{chapter.seconds:.1f}")
        table.add_row("all together", f"{time.monotonic() - self._start:.1f}")
        self.table(table)

    def table(self, table: Table) -> None:
        """Print a table."""
        with self._lock:
            self._console.print()
            self._console.print(table)

    @contextlib.contextmanager
    def live(self) -> Iterator[Callable[[Rows], None]]:
        """Give a function that shows how things are: a table that changes on a terminal, elsewhere lines of changes."""
        if not self._console.is_terminal:
            yield self._changes
            return
        with Live(console=self._console, auto_refresh=False) as live:
            yield lambda rows: live.update(_table_of(rows), refresh=True)

    def _changes(self, rows: Rows) -> None:
        """Tell what differs from the rows that were given last."""
        now = {(kind, name): state for kind, name, state in rows}
        for (kind, name), state in now.items():
            if self._shown.get((kind, name)) != state:
                self.event(f"{kind:<12} {name}: {state}")
        for kind, name in self._shown.keys() - now.keys():
            self.event(f"{kind:<12} {name}: gone")
        self._shown = now

    def _print(self, markup: str) -> None:
        with self._lock:
            self._console.print(markup)


def _table_of(rows: Rows) -> Table:
    table = Table("kind", "name", "state", box=None, padding=(0, 2))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table
