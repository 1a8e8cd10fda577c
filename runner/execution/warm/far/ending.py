"""Ends the processes of runs, for a server whose operator is gone: by their mark, as the operator itself would.

The operator does so itself (`runner.execution.processes`) as long as it lives; where to look is the same, `procfs`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping

from . import procfs
from .marking import VARIABLE

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_GIVE_UP = 5.0
"""Seconds after the first SIGKILL: what lives then is another user's (`become`), or hangs in the kernel."""
_POLL = 0.02


def end_runs(runs: Mapping[int, str], *, reap: Callable[[], None], grace: float = GRACE) -> None:
    """End *runs*, the ident of each by its first process, with all of their processes.

    *reap* is called while waiting. A first process counts as gone when it does not live, reaped or not.
    """
    first_kill = time.monotonic() + grace
    procfs.send(signal.SIGTERM, _processes_of(runs))
    while left := _processes_of(runs):
        late = time.monotonic() - first_kill
        if late > _GIVE_UP:
            return
        if late >= 0:
            procfs.send(signal.SIGKILL, left)
        time.sleep(_POLL)
        reap()


def end_child(pid: int, *, grace: float = 1.0) -> None:
    """End and reap child *pid*."""
    procfs.send(signal.SIGTERM, {pid})
    deadline = time.monotonic() + grace
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                procfs.send(signal.SIGKILL, {pid})
                os.waitpid(pid, 0)
                return
            time.sleep(_POLL)


def _processes_of(runs: Mapping[int, str]) -> set[int]:
    parents = procfs.parents()
    wanted = {f"{VARIABLE}={ident}".encode() for ident in runs.values()}
    marked = {pid for pid in parents if not wanted.isdisjoint(procfs.read(pid, "environ").split(b"\0"))}
    # one that was just forked may not have its mark yet
    return procfs.with_descendants(marked | (runs.keys() & parents.keys()), parents=parents)
