"""Which processes live, what they were given and who started them, from /proc.

For both sides: `ending` here, `runner.execution.processes` there. Where there is no /proc, nothing lives.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from signal import Signals

PROC = Path("/proc")
_CHUNK = 65536


def pids() -> list[int]:
    """Return the id of each process; zombies too, which have no environment."""
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208 - no object for each
    except OSError:
        return []


def parents() -> dict[int, int]:
    """Return the parent of each living process; a zombie only waits for its parent, and counts as gone."""
    return {pid: parent for pid in pids() if (parent := _parent_of(pid)) is not None}


def _parent_of(pid: int) -> int | None:
    fields = read(pid, "stat").rpartition(b")")[2].split()[:2]
    return None if len(fields) < 2 or fields[0] in {b"Z", b"X"} else int(fields[1])


def with_descendants(roots: Iterable[int], *, parents: Mapping[int, int]) -> set[int]:
    """Return *roots* and all that descend from them."""
    found: set[int] = set()
    fresh = set(roots)
    while fresh:
        found |= fresh
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
    return found


def read(pid: int, name: str) -> bytes:
    """Return the whole file *name* of process *pid*; nothing where it ended meanwhile, or is another user's."""
    # plain calls of the system: this is done for every process of the machine at the end of each run
    try:
        handle = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # it ended meanwhile, or is another user's
    try:
        parts = []
        while len(part := os.read(handle, _CHUNK)) == _CHUNK:  # the kernel gives less at the end only
            parts.append(part)
        return b"".join([*parts, part])
    except OSError:
        return b""
    finally:
        os.close(handle)


def send(number: Signals, pids: Iterable[int]) -> set[int]:
    """Send signal *number* to each of *pids*; return the ids of those that got it."""
    reached: set[int] = set()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            reached.add(pid)
    return reached
