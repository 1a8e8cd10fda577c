"""What forks have to say to the operator's log: over a pipe to the server that forked them, which hands it on.

Only a run's own process (of ansible-runner) and the server of modules, with its templates, use that pipe: what these
start or fork besides closes it before it runs anything that is not ours. Nothing secret may be told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from .protocol import Note, ProtocolError, decode, encode

COLD_MODULE = "Modules are started cold"
"""Told by the server of modules for each one that it refuses; the server of runs counts them."""
_LIMIT = 4096
"""Bytes that the kernel writes to a pipe in one piece, so that lines of several processes never mix."""


class _Pipe:
    writing: int | None = None
    run: int | None = None


@contextlib.contextmanager
def pipe() -> Iterator[int]:
    """Give the reading end of a pipe that forks of this process write to."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    _Pipe.writing = writing
    try:
        yield reading
    finally:
        _Pipe.writing = None
        os.close(reading)
        os.close(writing)


def speak_for(run: int) -> None:
    """In a fork: what is told from now on is about *run*."""
    _Pipe.run = run


def descriptors() -> tuple[int, ...]:
    """Return what must stay open, for `forking.become_child`."""
    return () if _Pipe.writing is None else (_Pipe.writing,)


def tell(message: str, **fields: Any) -> None:
    """Have the operator log *message*; it is dropped where nobody reads, or where it is far too long."""
    line = encode(Note(level="info", message=message, fields=fields, run=_Pipe.run))
    if _Pipe.writing is not None and len(line) <= _LIMIT:
        with contextlib.suppress(OSError):
            os.write(_Pipe.writing, line)


def told(reading: int) -> list[Note]:
    """Return what forks have told."""
    with contextlib.suppress(BlockingIOError, ProtocolError):
        messages = [decode(line) for line in os.read(reading, 16 * _LIMIT).splitlines()]
        return [message for message in messages if isinstance(message, Note)]
    return []
