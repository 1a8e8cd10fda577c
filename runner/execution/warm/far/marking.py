"""The mark of a forked process: what /proc/PID/environ says of it, rewritten in place.

The operator finds the processes of a run by a variable in /proc/PID/environ. That is the memory that the kernel filled
when the program was started, and what a process does to its variables later doesn't change it. So the server is started
with room for a mark there, and every process that is forked from it writes its own into that room.
"""

from __future__ import annotations

import ctypes

VARIABLE = "ANSIBLE_OPERATOR_RUN"
"""As `runner.execution.processes.MARK`, which this side cannot import."""
ROOM = "0" * 19
"""What the server is started with; an ident has no more digits."""


class MarkError(Exception):
    """A process can't be marked: it would not be found, and could outlive its run."""


class _Room:
    address = 0
    size = 0


def remember() -> None:
    """Find the room, before anything in this process changes the variable: that would move it elsewhere.

    Raises:
        MarkError: the process was started without it.
    """
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    address = libc.getenv(VARIABLE.encode())
    if not address:
        raise MarkError(f"{VARIABLE} is not in the environment; start the server with {len(ROOM)} zeros in it")
    _Room.address = address
    _Room.size = len(ctypes.string_at(address))


def write(ident: str) -> None:
    """Make *ident* the mark of this process, and of those that it forks from now on.

    Raises:
        MarkError: there is not that much room, or `remember` was not called.
    """
    mark = ident.encode()
    if not 0 < len(mark) <= _Room.size:
        raise MarkError(f"a mark of {len(mark)} bytes has no room in {_Room.size}")
    ctypes.memmove(_Room.address, mark.ljust(_Room.size, b"\0"), _Room.size)
