"""Scratch folders of runs and fork servers, and what must go when the operator cannot wait.

Called by `play`, `warm` and the composition root. A run's scratch folder holds a kubeconfig and gathered facts, a fork
server's the socket of its modules. `kill_all_runs` is for an operator that ends at once, `sweep_leftovers` for the next
one, after an operator that had no time for that.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from runner import owner
from runner.execution.files import is_own_folder
from runner.execution.processes import MARK, SERVER_IDENT, in_use, kill_now
from runner.kube import credential_files

PREFIX = "ansible-operator-run-"
SERVER_PREFIX = "ansible-operator-warm-"
_SWEPT = (PREFIX, SERVER_PREFIX, credential_files.PREFIX)
_KILL_LIMIT = 2.0
"""Seconds until killed processes are given up; they are gone at once, but for one that hangs in the kernel."""

_under_way: dict[str, Path] = {}
"""The scratch folder of each run of this process, by ident; a last-minute exit can ask nobody else."""
servers: set[Path] = set()
"""The scratch folders of the fork servers of this process."""


def new_scratch(ident: str) -> Path:
    """Make the private scratch folder of run *ident*, which is under way from now on.

    Raises:
        OSError: it cannot be made.
    """
    path = _under_way[ident] = _private_folder(PREFIX)
    return path


def new_server_scratch() -> Path:
    """Make the private scratch folder of a fork server, which lives from now on.

    Raises:
        OSError: it cannot be made.
    """
    path = _private_folder(SERVER_PREFIX)
    servers.add(path)
    return path


def _private_folder(prefix: str) -> Path:
    path = Path(tempfile.mkdtemp(prefix=prefix)).absolute()
    try:
        (path / "tmp").mkdir(mode=0o700)
        owner.mark(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path


def run_is_over(ident: str) -> None:
    """Forget run *ident*: what lives on of it, a task that was detached on purpose, is nobody's to kill."""
    _under_way.pop(ident, None)


def server_is_over(path: Path) -> bool:
    """Forget the fork server of scratch folder *path*; tell whether it was still known, so that nobody killed it."""
    known = path in servers
    servers.discard(path)
    return known


def server_variables(path: Path) -> Mapping[str, str]:
    """Return what the processes of the fork server of scratch folder *path* have, and those of its runs haven't."""
    return {MARK: SERVER_IDENT, "TMPDIR": str(path / "tmp")}


def kill_all_runs() -> int:
    """Kill the processes of each run that is under way in this process, and the fork servers; remove their folders.

    Returns:
        how many processes were signalled.
    """
    runs, ended = dict(_under_way), list(servers)
    servers.clear()  # whoever waits for one sees that it was meant to end
    marks = [server_variables(path) for path in ended]
    signalled = kill_now(runs.keys(), limit=_KILL_LIMIT, servers=marks) if runs or ended else 0
    for path in [*ended, *runs.values()]:
        shutil.rmtree(path, ignore_errors=True)
    return signalled


def sweep_leftovers(folder: Path) -> int:
    """Remove what operators that are dead left in *folder*: scratch folders that no living process uses, and keys.

    Returns:
        how many were removed.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for path in sorted(path for prefix in _SWEPT for path in folder.absolute().glob(f"{prefix}*")):
            if is_own_folder(path) and owner.is_orphaned(path) and not in_use(path):
                shutil.rmtree(path, ignore_errors=True)
                removed += not path.exists()
    return removed
