"""Which process a folder with secrets belongs to, so that the next operator may sweep what a killed one left.

A process id alone doesn't tell: a later process may have it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

_PROC = Path("/proc")
_START_TIME = 19
"""Where `stat` has it, counted from the state on."""
_MARK = "owner"


def identity(pid: int) -> str:
    """Return what tells process *pid* from an earlier or later one of the same id; empty if it doesn't live."""
    fields = stat_fields(pid)
    return f"{pid}-{int(fields[_START_TIME])}" if lives(fields) and len(fields) > _START_TIME else ""


def own_identity() -> str:
    """Return the `identity` of this process; on a system without /proc it is the bare id."""
    return identity(os.getpid()) or str(os.getpid())


def stat_fields(pid: int) -> list[bytes]:
    """Return what `stat` says after the command's name, which may hold blanks and brackets: state, parent's id, ..."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return []  # it ended meanwhile
    return text.rpartition(b")")[2].split()


def lives(fields: list[bytes]) -> bool:
    """Tell whether these are the `stat_fields` of a living process; a zombie only waits for its parent."""
    return len(fields) > 1 and fields[0] not in {b"Z", b"X"}


def mark(folder: Path) -> None:
    """Write into *folder* that it belongs to this process.

    Raises:
        OSError: it cannot be written.
    """
    handle = os.open(folder / _MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump({"pid": os.getpid(), "identity": own_identity()}, file)


def is_orphaned(folder: Path) -> bool:
    """Tell whether *folder* names its owner, and that one is dead."""
    try:
        owner = json.loads((folder / _MARK).read_text())
        return identity(int(owner["pid"])) != str(owner["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
