"""Who had a processor when, from the kernel's own tracing of its scheduler: costs little and misses nothing.

Needs root and /sys/kernel/tracing. Times are those of the monotonic clock, as `time.monotonic()` has them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_TRACING = Path("/sys/kernel/tracing")
_EVENTS = tuple(f"events/sched/{name}/enable" for name in ("sched_switch", "sched_process_fork", "sched_process_exit"))
_LINE = re.compile(r"\[(?P<cpu>\d+)\] +\S+ +(?P<at>[\d.]+): (?P<event>sched_\w+): (?P<rest>.*)$", re.MULTILINE)
_SWITCH = re.compile(r"prev_pid=(\d+) .*next_comm=(.*) next_pid=(\d+) ")
_FORK = re.compile(r"pid=(\d+) .*child_pid=(\d+)")
_EXIT = re.compile(r"pid=(\d+) .*group_dead=true")
_BUFFER = "32768"
"""KiB for each processor."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A time in which one thread had a processor; seconds."""

    pid: int
    name: str
    begin: float
    end: float


@dataclass(kw_only=True)
class Trace:
    """What happened while it was recorded."""

    slices: list[Slice] = field(default_factory=list)
    forks: list[tuple[float, int, int]] = field(default_factory=list)
    """Moment, parent, child; a thread is a child too."""
    exits: dict[int, float] = field(default_factory=dict)
    """By process: when its last thread ended."""

    def first(self, pid: int, *, after: float) -> float | None:
        """Return when *pid* first had a processor *after* that moment."""
        return next((part.begin for part in self.slices if part.pid == pid and part.begin >= after), None)


@contextmanager
def recorded() -> Iterator[Trace]:
    """Record for the block; the trace is complete after it.

    Raises:
        RuntimeError: the kernel's tracing can't be used here.
    """
    trace = Trace()
    try:
        for name, value in (("trace_clock", "mono"), ("buffer_size_kb", _BUFFER), ("trace", ""), ("tracing_on", "1")):
            (_TRACING / name).write_text(value)
        _switch("1")
    except OSError as error:
        with contextlib.suppress(OSError):
            _switch("0")
        raise RuntimeError(f"{_TRACING} cannot be used: {error}; run this as root on Linux, with tracefs") from error
    try:
        yield trace
    finally:
        _switch("0")
    parse((_TRACING / "trace").read_text(errors="replace"), into=trace)


def _switch(value: str) -> None:
    for name in _EVENTS:
        (_TRACING / name).write_text(value)


def parse(text: str, *, into: Trace) -> None:
    """Add what the kernel wrote as *text* to a trace."""
    running: dict[str, tuple[float, int, str]] = {}
    for found in _LINE.finditer(text):
        at, rest = float(found["at"]), found["rest"]
        if found["event"] == "sched_switch" and (switch := _SWITCH.search(rest)):
            if found["cpu"] in running:
                begin, pid, name = running[found["cpu"]]
                into.slices.append(Slice(pid=pid, name=name, begin=begin, end=at))
            running[found["cpu"]] = (at, int(switch[3]), switch[2])
        elif found["event"] == "sched_process_fork" and (fork := _FORK.search(rest)):
            into.forks.append((at, int(fork[1]), int(fork[2])))
        elif found["event"] == "sched_process_exit" and (ended := _EXIT.search(rest)):
            into.exits[int(ended[1])] = at
