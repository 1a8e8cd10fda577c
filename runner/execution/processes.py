"""The processes of a run: found by a mark in their environment, so that none outlives it.

ansible-runner starts ansible-playbook in a session of its own (a pseudo terminal), and modules may become daemons:
neither a process group nor the tree of parents reaches them all. On a system without /proc only the group is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

MARK = "ANSIBLE_OPERATOR_RUN"
"""The environment variable that every process of a run inherits; its value is the run's ident."""

_PROC = Path("/proc")
_POLL = 0.05
_GIVE_UP = 5.0
"""Seconds after the first SIGKILL: what still lives then is another user's (`become`)."""
_ASYNC_WRAPPER = b"async_wrapper"


def processes_of(ident: str) -> set[int]:
    """Return the ids of the living processes that carry the mark of run *ident*, or descend from one that does."""
    parents = _parents()
    wanted = f"{MARK}={ident}".encode()
    marked = {pid for pid in parents if wanted in _read(pid, "environ").split(b"\0")}
    return _with_descendants(marked, parents=parents)


def detached_tasks(pids: Iterable[int]) -> set[int]:
    """Return those of *pids* that an `async` task with `poll: 0` left behind on purpose, with what they started."""
    parents = _parents()
    wrappers = {pid for pid in pids if _ASYNC_WRAPPER in _read(pid, "cmdline")}
    return _with_descendants(wrappers, parents=parents)


async def end_processes(ident: str, *, grace: float, spare_detached: bool = False) -> set[int]:
    """Ask the processes of run *ident* to end, kill what is left after *grace* seconds, and wait until they are gone.

    Returns:
        the processes that live on: spared ones, and those that the operator has no right to kill.
    """
    loop = asyncio.get_running_loop()
    _signal(_to_end(ident, spare_detached=spare_detached), signal.SIGTERM)
    deadline = loop.time() + grace
    while left := _to_end(ident, spare_detached=spare_detached):
        late = loop.time() - deadline
        if late > _GIVE_UP:
            break
        if late >= 0:
            _signal(left, signal.SIGKILL)
        await asyncio.sleep(_POLL)
    return processes_of(ident)


def _to_end(ident: str, *, spare_detached: bool) -> set[int]:
    found = processes_of(ident)
    return found - detached_tasks(found) if spare_detached else found


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _with_descendants(roots: set[int], *, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    fresh = set(roots)
    while fresh:
        found |= fresh
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
    return found


def _parents() -> dict[int, int]:
    """Return the parent of each living process; a zombie only waits for its parent, and counts as gone."""
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit():
            # after the command's name, which may hold blanks and brackets: state, then the parent's id
            fields = _read(int(entry.name), "stat").rpartition(b")")[2].split()
            if len(fields) > 1 and fields[0] not in {b"Z", b"X"}:
                parents[int(entry.name)] = int(fields[1])
    return parents


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""  # it ended meanwhile, or is another user's
