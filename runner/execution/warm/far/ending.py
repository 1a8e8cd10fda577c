"""Ends the processes of runs, for a server whose operator is gone: by their mark, as the operator itself would.

The operator's own way of doing so (`runner.execution.processes`) can't be imported on this side.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from .marking import VARIABLE

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_GIVE_UP = 5.0
"""Seconds after the first SIGKILL: what lives then is another user's (`become`), or hangs in the kernel."""
_POLL = 0.02
_PROC = Path("/proc")


def end_runs(runs: Mapping[int, str], *, reap: Callable[[], None], grace: float = GRACE) -> None:
    """End *runs*, the ident of each by its first process, with all of their processes.

    *reap* is called while waiting. A first process counts as gone when it does not live, reaped or not.
    """
    first_kill = time.monotonic() + grace
    _signal(_processes_of(runs), signal.SIGTERM)
    while left := _processes_of(runs):
        late = time.monotonic() - first_kill
        if late > _GIVE_UP:
            return
        if late >= 0:
            _signal(left, signal.SIGKILL)
        time.sleep(_POLL)
        reap()


def end_child(pid: int, *, grace: float = 1.0) -> None:
    """End and reap child *pid*."""
    _signal({pid}, signal.SIGTERM)
    deadline = time.monotonic() + grace
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                _signal({pid}, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(_POLL)


def _processes_of(runs: Mapping[int, str]) -> set[int]:
    parents = _parents()
    wanted = {f"{VARIABLE}={ident}".encode() for ident in runs.values()}
    marked = {pid for pid in parents if not wanted.isdisjoint(_environ_of(pid).split(b"\0"))}
    # one that was just forked may not have its mark yet
    return _with_descendants(marked | (runs.keys() & parents.keys()), parents=parents)


def _with_descendants(roots: set[int], *, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    fresh = roots
    while fresh:
        found |= fresh
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
    return found


def _parents() -> dict[int, int]:
    """Return the parent of each living process; a zombie counts as gone."""
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []
    return {pid: parent for pid in pids if (parent := _parent_of(pid)) is not None}


def _parent_of(pid: int) -> int | None:
    try:
        state, parent = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[:2]
    except OSError:
        return None  # it ended meanwhile
    return None if state in {b"Z", b"X"} else int(parent)


def _environ_of(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""  # it ended meanwhile, or is another user's


def _signal(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
