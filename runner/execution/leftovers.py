"""Scratch folders of runs, and what must go when the operator cannot wait: called by `cold` and the composition root.

A scratch folder holds a kubeconfig and gathered facts. `kill_all_runs` is for an operator that ends at once,
`sweep_leftovers` for the next one, after an operator that had no time for that.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from runner import owner
from runner.execution.files import is_own_folder
from runner.execution.processes import in_use, kill_now
from runner.kube import credential_files

PREFIX = "ansible-operator-run-"
_SWEPT = (PREFIX, credential_files.PREFIX)
_KILL_LIMIT = 2.0
"""Seconds until killed processes are given up; they are gone at once, but for one that hangs in the kernel."""

_under_way: dict[str, Path] = {}
"""The scratch folder of each run of this process, by ident; a last-minute exit can ask nobody else."""


def new_scratch(ident: str) -> Path:
    """Make the private scratch folder of run *ident*, which is under way from now on.

    Raises:
        OSError: it cannot be made.
    """
    path = Path(tempfile.mkdtemp(prefix=PREFIX)).absolute()
    try:
        (path / "tmp").mkdir(mode=0o700)
        owner.mark(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    _under_way[ident] = path
    return path


def run_is_over(ident: str) -> None:
    """Forget run *ident*: what lives on of it, a task that was detached on purpose, is nobody's to kill."""
    _under_way.pop(ident, None)


def kill_all_runs() -> int:
    """Kill each process of each run that is under way in this process, remove their scratch folders, return at once.

    Returns:
        how many processes were signalled.
    """
    runs = dict(_under_way)
    signalled = kill_now(runs.keys(), limit=_KILL_LIMIT) if runs else 0
    for path in runs.values():
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
