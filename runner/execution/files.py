"""Private files: what `inputs`, `kubeconfigs` and `artifacts` write is readable for the operator's user alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runner.errors import ExecutionError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 10


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


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Make the private folder *path*, and keep every sweep away from it; its time tells when it was used last."""
    handle = _hold(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.utime(path)
        os.close(handle)


@contextlib.contextmanager
def unheld(path: Path) -> Iterator[bool]:
    """Tell whether no process holds *path*; none can take hold of it meanwhile."""
    handle = os.open(path, _FOLDER)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(handle)


def _hold(path: Path) -> int:
    """Return an open handle that holds *path*, which a sweep may remove until then."""
    while True:
        private_folder(path)
        try:
            handle = os.open(path, _FOLDER)
            with contextlib.suppress(OSError):  # where a file system knows no locks, only the time protects
                fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_still(path, handle=handle):
                os.utime(handle)
                return handle
            os.close(handle)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ExecutionError(f"cannot use the folder {path}: {error}; check its disk and rights") from error


def _is_still(path: Path, *, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(handle))
    return False


def _make(path: Path) -> None:
    """Make *path* and its parents; pathlib gives the mode to the last one only."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):  # a sweep took an empty parent away again
            _make_once(path)
            return
    raise FileNotFoundError(f"{path.parent} goes whenever it is made")


def _make_once(path: Path) -> None:
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
