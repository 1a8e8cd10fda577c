"""The `stdout` artifact of ansible-runner, beside the events of the same run: text outside of events may lack there.

Such text makes `verbose` events, one for each line. ansible-runner 2.4 (`OutputEventFilter`) writes it to the artifact
too where it reads it apart from an event; where it reads both at once, it writes only the last line of what precedes
the event, and nothing of what follows the last event. Its line ends are the terminal's in one case and not in the
other. Which one it is depends on how busy the machine is, cold as well as warm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

Event = Mapping[str, Any]


def whole(stdout: str, *, events: Sequence[Event]) -> str:
    """Return what *stdout* is with nothing left out, or *stdout* itself where *events*, in their order, can't be it."""
    text = _plain(stdout)
    ends = {0}
    for options in _parts(events):
        ends = {end + len(option) for end in ends for option in options if text.startswith(option, end)}
    if len(text) not in ends:
        return stdout
    return "".join(_line(event) for event in events)


def _parts(events: Sequence[Event]) -> list[set[str]]:
    """Return for each event, and for each group of lines outside of events, what may be written of it."""
    grouped = [(between, list(group)) for between, group in groupby(events, key=_is_between)]
    parts: list[set[str]] = []
    for number, (between, group) in enumerate(grouped):
        if not between:
            parts += [{_line(event)} for event in group]
        elif number + 1 < len(grouped):
            parts.append(_before_an_event([_line(event) for event in group]))
        else:
            parts.append(_at_the_end(group, is_all=number == 0))
    return parts


def _before_an_event(lines: Sequence[str]) -> set[str]:
    """Return what may be there of *lines*: those that were read first, and the last one."""
    last = lines[-1].removeprefix("\n")
    return {"".join(lines), *("".join(lines[:read]) + last for read in range(len(lines)))}


def _at_the_end(group: Sequence[Event], *, is_all: bool) -> set[str]:
    """Return what may be there of the last lines: all, or none where an event precedes, but no unfinished one."""
    lines = [_line(event) for event in group]
    unfinished = group[-1].get("start_line") == group[-1].get("end_line")
    return {"".join(lines[:-1] if unfinished else lines), *([] if is_all else [""])}


def _is_between(event: Event) -> bool:
    return bool(event.get("event") == "verbose")


def _line(event: Event) -> str:
    """Return what is written for *event*; an empty line is one only outside of events."""
    text = _plain(str(event.get("stdout", "")))
    return f"{text}\n" if text or _is_between(event) else ""


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")
