"""What a fork server prints, in the operator's log: bounded, with secrets masked.

It prints nothing where all is well. A pipe of our own, as its forks inherit the other end and may outlive it.
"""

from __future__ import annotations

import asyncio
import os

from runner.execution.scrub import Scrubber
from runner.logs import Logger

_LINES = 200
"""Of one fork server."""
_WIDTH = 2000
_BUFFER = 65536


class ServerOutput:
    """The reading end of a pipe; `far` is the other one, until it is closed."""

    def __init__(self, *, logger: Logger, scrubber: Scrubber) -> None:
        """Log each line that comes to *logger*, masked by *scrubber*."""
        self._log = logger
        self._scrubber = scrubber
        self._near, self.far = os.pipe()
        self._left = _LINES
        self._reading: asyncio.Task[None] | None = None
        self.last = ""
        """The last line that came."""

    async def __aenter__(self) -> ServerOutput:
        """Read from now on."""
        reader = asyncio.StreamReader(limit=_BUFFER)
        near = os.fdopen(self._near, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), near
        )
        self._reading = asyncio.create_task(self._read(reader, transport), name="output of the fork server")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take what came until now, and read no more."""
        self.close_far()
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=0.2)  # a fork that lives on holds the other end
            self._reading.cancel()
            await asyncio.wait({self._reading})

    def close_far(self) -> None:
        """Close the other end, which the fork server has."""
        if self.far >= 0:
            os.close(self.far)
            self.far = -1

    async def _read(self, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        rest = b""
        try:
            while block := await reader.read(_BUFFER):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    self._take(line)
                rest = rest[-_BUFFER:]  # an endless line is shown by its end
            self._take(rest)
        finally:
            transport.close()

    def _take(self, line: bytes) -> None:
        text = self._scrubber.text(line.decode(errors="replace").rstrip())[:_WIDTH]
        if not text:
            return
        self.last = text
        if self._left > 0:
            self._log.info("The fork server printed", text=text)
        elif self._left == 0:
            self._log.warning("The fork server printed more; this is not logged any more", lines=_LINES)
        self._left -= 1
