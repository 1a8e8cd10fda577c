"""Private files: what `inputs`, `kubeconfigs` and `artifacts` write is readable for the operator's user alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from itertools import islice
from pathlib import Path

from runner.clock import Clock
from runner.errors import ExecutionError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 16
_TRIES = 10
_PAUSE = 0.05
"""Seconds between two looks whether a sweep is over."""


def private_folder(path: Path) -> Path:
    """Make *path* (parents too, all 0700) or narrow an own folder to 0700, and return it.

    Raises:
        ExecutionError: it, or a folder between it and the one for temporary files, is a link or another user's:
            somebody may have put it there to read or replace our files. Root may own those between (a volume).
    """
    try:
        _make(path)
        _refuse_foreign(path, owners={os.geteuid()})
        if path.lstat().st_mode & 0o777 != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise _cannot_make(path, error) from error
    return path


def private_subfolder(path: Path) -> Path:
    """Do as `private_folder` does, for a folder in a private one: of what leads there nothing has to be looked at."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)  # noqa: PTH102 - this is done many times for each run
        _refuse_foreign(path, owners={os.geteuid()})
        if os.stat(path).st_mode & 0o777 != 0o700:  # noqa: PTH116
            path.chmod(0o700)
    except FileNotFoundError:
        return private_folder(path)
    except OSError as error:
        raise _cannot_make(path, error) from error
    return path


def _cannot_make(path: Path, error: OSError) -> ExecutionError:
    return ExecutionError(f"cannot make the folder {path}: {error}; make its parent writable")


def _refuse_foreign(folder: str | Path, *, owners: Collection[int]) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners:
        raise ExecutionError(f"{folder} is a link or belongs to user {found.st_uid}; remove it, then it is made anew")


@contextlib.asynccontextmanager
async def held(path: Path, *, clock: Clock) -> AsyncIterator[None]:
    """Make the private folder *path*, and keep every sweep away from it; its time tells when it was used last.

    A sweep that is removing it is waited for by looking now and then: no thread, and not the event loop, stands still.
    """
    while (handle := _hold(path)) is None:
        await clock.sleep(_PAUSE)
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


def is_own_folder(path: Path) -> bool:
    """Tell whether *path* is a folder of this user, and no link: what a sweep may look into.

    Raises:
        OSError: nobody can tell.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.is_dir() and not path.is_symlink() and path.lstat().st_uid == os.geteuid()
    return False


def _hold(path: Path) -> int | None:
    """Return an open handle that holds *path*, which a sweep may remove until then; None where one is about it."""
    private_folder(path)
    try:
        handle = os.open(path, _FOLDER)
        if _locked(handle) and _is_still(path, handle=handle):
            os.utime(handle)
            return handle
        os.close(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExecutionError(f"cannot use the folder {path}: {error}; check its disk and rights") from error
    return None


def _locked(handle: int) -> bool:
    """Take the lock of runs, and tell whether no sweep has its own."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # where a file system knows no locks, only the time protects
    return True


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
    whole = str(path.absolute())
    shared = f"{Path(tempfile.gettempdir())}{os.sep}"
    complete = os.path.isdir(whole)  # noqa: PTH112 - texts: this is done many times for each run
    for folder in _line(whole):
        if not complete and not os.path.exists(folder):  # noqa: PTH110
            Path(folder).mkdir(mode=0o700, exist_ok=True)
        if folder.startswith(shared):  # where everybody may make some
            _refuse_foreign(folder, owners={os.geteuid(), 0})


def _line(path: str) -> Iterator[str]:
    """Return the folders that lead to *path*, an absolute one, and itself, the outermost first."""
    end = path.find(os.sep, 1)
    while end > 0:
        yield path[:end]
        end = path.find(os.sep, end + 1)
    yield path


def write_private(path: Path, content: str | bytes) -> None:
    """Replace *path* by a file of mode 0600 in one step, so that a reader sees the old or the new content."""
    temporary = f"{path.parent}{os.sep}.{secrets.token_hex(8)}"
    try:
        create_private(temporary, content)
        os.replace(temporary, path)  # noqa: PTH105 - this is done many times for each run
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def create_private(path: str | Path, content: str | bytes) -> None:
    """Make the file *path*, which is not there yet, with mode 0600; a reader may see the beginning of *content*.

    Raises:
        FileExistsError: it is there, or a link is.
    """
    left = memoryview(content.encode() if isinstance(content, str) else content)
    handle = os.open(path, _NEW_FILE, 0o600)
    try:
        while left:
            left = left[os.write(handle, left) :]
    finally:
        os.close(handle)


def has_few_entries(path: Path, *, limit: int = 100) -> bool:
    """Tell whether what lies below *path* is quickly removed, so that no thread is worth its costs."""
    folders, seen = [str(path)], 0
    while folders and seen <= limit:
        try:
            with os.scandir(folders.pop()) as entries:
                found = list(islice(entries, limit + 1))
        except OSError:
            return False
        seen += len(found)
        folders += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    return seen <= limit


def read_all(path: str | Path) -> bytes:
    """Return what the file *path* holds; plain calls of the system, for what is done many times for each run."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)
