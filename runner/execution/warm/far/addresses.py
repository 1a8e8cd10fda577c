"""Names for unix sockets whose folder may have a long path, as below a TMPDIR of the user's: a name has 108 bytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def short(address: str) -> Iterator[str]:
    """Give a name for the socket at the path *address* that always fits, to bind or connect to within the block."""
    path = Path(address)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
