"""The processes of this machine by their command lines: whether a test left something running, and what argv shows."""

from __future__ import annotations

import os
from pathlib import Path


def command_lines() -> dict[int, str]:
    """Return the command line of each process by its id, the arguments joined with spaces; needs /proc."""
    lines = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines[int(entry.parent.name)] = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
    return lines


def processes_with(needle: str) -> dict[int, str]:
    """Return those of `command_lines` that contain *needle*, without the process that asks."""
    return {pid: line for pid, line in command_lines().items() if needle in line and pid != os.getpid()}
