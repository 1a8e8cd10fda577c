"""A fork of the play server that stands by for the next run: what every run needs is done before there is one.

It holds nothing of a run and of the server's connection, and it changes nothing that a run could notice: it has only
forked in turn, and has copied pages that will be written to. An order makes it the run's process; without one it ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NoReturn

from . import forking, telling
from .protocol import Run, decode, encode

_CHUNK = 1 << 18


class Standby:
    """One process that waits for a run."""

    def __init__(self, *, become: Callable[[Callable[[], Run | None]], NoReturn]) -> None:
        """Fork it. *become* is called in the child, with what waits for the run: None where there will be none.

        Raises:
            ForkError: it cannot be forked.
            OSError: there are no descriptors left.
        """
        reading, self._orders = os.pipe()
        try:
            self.pid = forking.fork()
        except forking.ForkError:
            os.close(self._orders)
            raise
        finally:
            if getattr(self, "pid", None) != 0:
                os.close(reading)
        if self.pid == 0:
            try:
                forking.close_descriptors({reading, *telling.descriptors()})
                become(lambda: _received(reading))
            finally:
                os._exit(forking.BROKEN)

    def give(self, run: Run) -> bool:
        """Have it become *run*; tell whether it was there to do so."""
        try:
            with open(self._orders, "wb") as pipe:  # noqa: PTH123 - a descriptor
                pipe.write(encode(run))
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """Let it end, and wait for that, as there is nothing to run."""
        os.close(self._orders)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _received(reading: int) -> Run | None:
    data = b""
    while chunk := os.read(reading, _CHUNK):
        data += chunk
    os.close(reading)
    run = decode(data) if data else None
    return run if isinstance(run, Run) else None
