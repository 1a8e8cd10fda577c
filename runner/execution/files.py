"""Private files: what `inputs`, `kubeconfigs` and `artifacts` write is readable for the operator's user alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from runner.errors import ExecutionError


def private_folder(path: Path) -> Path:
    """Make *path* (parents too, all 0700) or narrow an own folder to 0700, and return it.

    Raises:
        ExecutionError: it is a link or another user's: somebody may have put it there to read or replace our files.
    """
    try:
        _make(path)
        found = path.lstat()
        if path.is_symlink() or found.st_uid != os.geteuid():
            raise ExecutionError(f"{path} is a link or belongs to user {found.st_uid}; remove it, then it is made anew")
        if found.st_mode & 0o777 != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise ExecutionError(f"cannot make the folder {path}: {error}; make its parent writable") from error
    return path


def _make(path: Path) -> None:
    """Make *path* and its parents; pathlib gives the mode to the last one only."""
    for folder in [*reversed(path.parents), path]:
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, content: str | bytes) -> None:
    """Replace *path* by a file of mode 0600 in one step, so that a reader sees the old or the new content."""
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
