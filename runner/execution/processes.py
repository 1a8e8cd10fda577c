"""The processes of a run: found by a mark in their environment, so that none outlives it.

ansible-runner starts ansible-playbook in a session of its own (a pseudo terminal), and modules may become daemons:
neither a process group nor the tree of parents reaches them all. On a system without /proc only the group is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from runner.execution.warm.far import procfs
from runner.owner import own_identity

MARK = "ANSIBLE_OPERATOR_RUN"
"""The environment variable that every process of a run inherits; its value is the run's ident."""

OWNER_MARK = "ANSIBLE_OPERATOR_PROCESS"
"""The environment variable beside it; its value is the `identity` of the operator's process that started the run."""

SERVER_IDENT = "0" * 19
"""The mark of processes that serve all runs: as long as the longest ident, which each fork for a run writes over it."""

_ROOM = f"{MARK}={SERVER_IDENT}".encode()
_POLL = 0.05
_QUICK_POLL = 0.01
_GIVE_UP = 5.0
"""Seconds after the first SIGKILL: what still lives then is another user's (`become`)."""
_LOOKS = 2
"""So many looks in a row must find nothing: one misses the child of a process that ends while it is taken."""
_ASYNC_WRAPPER = b"async_wrapper"


def processes_of(ident: str) -> set[int]:
    """Return the ids of the living processes that carry the mark of run *ident*, or descend from one that does."""
    return _of_run(ident, pids=procfs.pids())


def _of_run(ident: str, *, pids: Iterable[int], undecided: set[int] | None = None) -> set[int]:
    """Return those of *pids* that carry the mark of run *ident*, and all that descend from them.

    Those that may yet get it, as they were forked from a fork server, are added to *undecided*.
    """
    marked = _marked(pids, {MARK: ident}, undecided=undecided)
    return procfs.with_descendants(marked, parents=procfs.parents()) if marked else marked


def marked_with(variables: Mapping[str, str]) -> set[int]:
    """Return the ids of the living processes that were given all of *variables*."""
    return _marked(procfs.pids(), variables)


def _marked(pids: Iterable[int], variables: Mapping[str, str], *, undecided: set[int] | None = None) -> set[int]:
    wanted = {os.fsencode(f"{name}={value}") for name, value in variables.items()}
    rarest = max(wanted, key=len)
    marked = set()
    for pid in pids:
        environ = procfs.read(pid, "environ")
        if rarest in environ and wanted.issubset(environ.split(b"\0")):
            marked.add(pid)
        elif undecided is not None and _ROOM in environ:
            undecided.add(pid)
    return marked


def kill_now(idents: Collection[str], *, limit: float, servers: Iterable[Mapping[str, str]] = ()) -> int:
    """Kill the processes of runs *idents* of this very process, without grace, and wait until they are gone.

    Besides those that were given all variables of one of *servers*, and not what descends from them.

    Returns:
        how many were signalled.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + limit
    while left := _own_processes(idents) | {pid for variables in servers for pid in marked_with(variables)}:
        procfs.send(signal.SIGSTOP, left)  # or a parent would go on to its next task once its child is gone
        signalled |= procfs.send(signal.SIGKILL, left)
        if not left & signalled or time.monotonic() > deadline:
            break  # others' processes (`become`), or stuck in the kernel
        time.sleep(_QUICK_POLL)
    return len(signalled)


def _own_processes(idents: Collection[str]) -> set[int]:
    parents = procfs.parents()
    wanted = {f"{MARK}={ident}".encode() for ident in idents}
    owner = f"{OWNER_MARK}={own_identity()}".encode()
    marked = set()
    for pid in parents:
        variables = set(procfs.read(pid, "environ").split(b"\0"))
        if owner in variables and not wanted.isdisjoint(variables):
            marked.add(pid)
    return procfs.with_descendants(marked, parents=parents) - {os.getpid()}


def in_use(folder: Path) -> bool:
    """Tell whether a living process was given something below *folder*, or works there; yes if it can't be known."""
    if not procfs.PROC.is_dir():
        return True
    # by its name, which is unique: a link may give the folder another path
    wanted = os.fsencode(folder.name)
    return any(
        wanted in procfs.read(pid, "environ") or wanted in procfs.read(pid, "cmdline") or _works_in(pid, folder)
        for pid in procfs.parents()
    )


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return folder.name in (procfs.PROC / str(pid) / "cwd").readlink().parts
    except OSError:
        return False


def detached_tasks(pids: Iterable[int]) -> set[int]:
    """Return those of *pids* that an `async` task with `poll: 0` left behind on purpose, with what they started."""
    parents = procfs.parents()
    wrappers = {pid for pid in pids if _ASYNC_WRAPPER in procfs.read(pid, "cmdline")}
    return procfs.with_descendants(wrappers, parents=parents)


class Search:
    """Looks for the processes of one run, several times in a row."""

    def __init__(self, ident: str) -> None:
        """Look for those of run *ident*."""
        self._ident = ident
        self._others: set[int] = set()
        """Looked at already, and none that will ever carry the mark: one look at each is enough."""

    def look(self) -> set[int]:
        """Return what there is now; one that was forked for the run and not marked yet may be found the next time."""
        present = set(procfs.pids())
        undecided: set[int] = set()
        found = _of_run(self._ident, pids=present - self._others, undecided=undecided)
        self._others = set() if found else present - undecided
        return found


async def end_processes(ident: str, *, grace: float, spare_detached: bool = False) -> set[int]:
    """Ask the processes of run *ident* to end, kill what is left after *grace* seconds, and wait until they are gone.

    Returns:
        the processes that live on: spared ones, and those that the operator has no right to kill.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    asked: set[int] = set()
    search = Search(ident)
    looks_in_vain = 0
    while True:
        found = search.look()
        left = found - detached_tasks(found) if spare_detached and found else found
        looks_in_vain = 0 if left else looks_in_vain + 1
        late = loop.time() - deadline
        if looks_in_vain == _LOOKS or late > _GIVE_UP:
            return found
        if late >= 0:
            procfs.send(signal.SIGKILL, left)
        else:
            procfs.send(signal.SIGTERM, left - asked)
        asked |= left
        if left:
            await asyncio.sleep(_POLL)
