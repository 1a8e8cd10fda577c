"""Scratch folders of runs, and what must go when the operator cannot wait: called by `cold` and the composition root.

A scratch folder holds a kubeconfig and gathered facts. `kill_all_runs` is for an operator that ends at once,
`sweep_leftovers` for the next one, after an operator that had no time for that.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from runner.execution.files import write_private
from runner.execution.processes import identity, in_use, kill_now, own_identity

PREFIX = "ansible-operator-run-"
_OWNER = "owner"
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
        write_private(path / _OWNER, json.dumps({"pid": os.getpid(), "identity": own_identity()}))
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
    """Remove the scratch folders in *folder* of operators that are dead, unless a living process uses them.

    Returns:
        how many were removed.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for path in sorted(folder.absolute().glob(f"{PREFIX}*")):
            if _is_own_folder(path) and _is_orphaned(path) and not in_use(path):
                shutil.rmtree(path, ignore_errors=True)
                removed += not path.exists()
    return removed


def _is_own_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_orphaned(path: Path) -> bool:
    """Tell whether the folder names its owner, and that one is dead; a later process may have its id."""
    try:
        owner = json.loads((path / _OWNER).read_text())
        return identity(int(owner["pid"])) != str(owner["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
