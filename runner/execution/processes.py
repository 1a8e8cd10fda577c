"""The processes of a run: found by a mark in their environment, so that none outlives it.

ansible-runner starts ansible-playbook in a session of its own (a pseudo terminal), and modules may become daemons:
neither a process group nor the tree of parents reaches them all. On a system without /proc only the group is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from runner.owner import lives, own_identity, stat_fields

MARK = "ANSIBLE_OPERATOR_RUN"
"""The environment variable that every process of a run inherits; its value is the run's ident."""

OWNER_MARK = "ANSIBLE_OPERATOR_PROCESS"
"""The environment variable beside it; its value is the `identity` of the operator's process that started the run."""

_PROC = Path("/proc")
_POLL = 0.05
_QUICK_POLL = 0.01
_GIVE_UP = 5.0
"""Seconds after the first SIGKILL: what still lives then is another user's (`become`)."""
_ASYNC_WRAPPER = b"async_wrapper"


def processes_of(ident: str) -> set[int]:
    """Return the ids of the living processes that carry the mark of run *ident*, or descend from one that does."""
    parents = _parents()
    wanted = f"{MARK}={ident}".encode()
    marked = {pid for pid in parents if wanted in _read(pid, "environ").split(b"\0")}
    return _with_descendants(marked, parents=parents)


def kill_now(idents: Collection[str], *, limit: float) -> int:
    """Kill the processes of runs *idents* of this very process, without grace, and wait until they are gone.

    Returns:
        how many were signalled.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + limit
    while left := _own_processes(idents):
        _signal(left, signal.SIGSTOP)  # or a parent would go on to its next task once its child is gone
        signalled |= _signal(left, signal.SIGKILL)
        if not left & signalled or time.monotonic() > deadline:
            break  # others' processes (`become`), or stuck in the kernel
        time.sleep(_QUICK_POLL)
    return len(signalled)


def _own_processes(idents: Collection[str]) -> set[int]:
    parents = _parents()
    wanted = {f"{MARK}={ident}".encode() for ident in idents}
    owner = f"{OWNER_MARK}={own_identity()}".encode()
    marked = set()
    for pid in parents:
        variables = set(_read(pid, "environ").split(b"\0"))
        if owner in variables and not wanted.isdisjoint(variables):
            marked.add(pid)
    return _with_descendants(marked, parents=parents) - {os.getpid()}


def in_use(folder: Path) -> bool:
    """Tell whether a living process was given something below *folder*, or works there; yes if it can't be known."""
    if not _PROC.is_dir():
        return True
    # by its name, which is unique: a link may give the folder another path
    wanted = os.fsencode(folder.name)
    return any(
        wanted in _read(pid, "environ") or wanted in _read(pid, "cmdline") or _works_in(pid, folder)
        for pid in _parents()
    )


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return folder.name in (_PROC / str(pid) / "cwd").readlink().parts
    except OSError:
        return False


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


def _signal(pids: Iterable[int], number: signal.Signals) -> set[int]:
    """Send *number*, and return the ids of those that got it."""
    reached: set[int] = set()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            reached.add(pid)
    return reached


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
            fields = stat_fields(int(entry.name))
            if lives(fields):
                parents[int(entry.name)] = int(fields[1])
    return parents


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""  # it ended meanwhile, or is another user's
