"""Byte streams of a tunnel: plain TCP, TLS over it, and the loop that copies one into another.

`tunnel` dials the API server with these and splices the result with the client's stream (`connection`). asyncio's own
TLS can't close one direction only: it answers the peer's close_notify by closing everything, and has no `write_eof`.
So TLS is done here on memory buffers, in which OpenSSL lets one side end while the other one goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import ssl
from typing import Protocol

CHUNK = 64 * 1024
"""Bytes read at once, and about what one direction holds while its reader is slow."""
_LINGER = 5.0
"""Seconds for the last bytes to a peer that doesn't read, or from one whose peer has said all."""


class Stream(Protocol):
    """One end of a tunnel. A connection that breaks raises OSError; `ssl.SSLError` is one."""

    async def read(self, limit: int) -> bytes:
        """Return the next bytes, at most *limit*; empty: the peer will send no more."""
        ...

    async def write(self, data: bytes) -> None:
        """Send *data*, and return when there is room for more."""
        ...

    async def write_eof(self) -> None:
        """Send no more; reading goes on."""
        ...


class UpstreamStream(Stream, Protocol):
    """The end that we dialled, and that we close."""

    async def close(self) -> None:
        """Close both directions; never raises OSError."""
        ...


class TcpStream:
    """A connection without TLS: a socket and no transport, which would drop what has arrived when a write fails."""

    def __init__(self, connected: socket.socket) -> None:
        """Wrap a socket that is connected and doesn't block."""
        self._socket = connected
        self._loop = asyncio.get_running_loop()

    async def read(self, limit: int) -> bytes:
        """Return the next bytes."""
        return await self._loop.sock_recv(self._socket, limit)

    async def write(self, data: bytes) -> None:
        """Send *data*."""
        await self._loop.sock_sendall(self._socket, data)

    async def write_eof(self) -> None:
        """Send the end of our direction."""
        self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Close; the kernel sends what it has."""
        self._socket.close()


class TlsStream:
    """TLS over another stream."""

    def __init__(self, inner: UpstreamStream, *, context: ssl.SSLContext, server_hostname: str) -> None:
        """Prepare a client's side; `handshake` comes first."""
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._ending = False
        self._sending = asyncio.Lock()
        """Records leave in the order in which they were made, whichever direction made them."""

    async def handshake(self) -> None:
        """Shake hands and verify the server.

        Raises:
            ssl.SSLError: the server isn't trusted, or speaks no TLS.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    raise ConnectionResetError("the server closed the connection during the TLS handshake") from None
            else:
                await self._flush()
                return

    async def read(self, limit: int) -> bytes:
        """Return the next bytes."""
        while True:
            try:
                return self._tls.read(limit)
            except ssl.SSLWantReadError:
                self._send_ending()
                await self._flush()  # an answer of TLS itself, such as to a key update
                await self._fill()
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data: bytes) -> None:
        """Send *data*."""
        self._tls.write(data)
        await self._flush()

    async def write_eof(self) -> None:
        """Send a close_notify: as soon as what has arrived is read, which OpenSSL insists on."""
        self._ending = True
        if not self._incoming.pending and not self._tls.pending():
            self._send_ending()
            await self._flush()

    async def close(self) -> None:
        """Say so, and close."""
        with contextlib.suppress(OSError):
            self._tls.unwrap()
        if left := self._outgoing.read():
            with contextlib.suppress(OSError):
                async with asyncio.timeout(_LINGER):
                    await self._inner.write(left)
        await self._inner.close()

    def _send_ending(self) -> None:
        if self._ending:
            self._ending = False
            with contextlib.suppress(ssl.SSLWantReadError):  # the peer's own close_notify isn't there yet
                self._tls.unwrap()

    async def _fill(self) -> bool:
        data = await self._inner.read(CHUNK)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()  # without a close_notify before it, the next read raises
        return bool(data)

    async def _flush(self) -> None:
        if not self._outgoing.pending:
            return
        async with self._sending:
            if data := self._outgoing.read():
                await self._inner.write(data)


async def splice(client: Stream, server: Stream) -> None:
    """Copy both ways until both ends are done, each end's last bytes included.

    A client that has finished sending still gets all that the server answers. A server that has finished has nothing
    to answer any more: the client gets the end, and some seconds for what it has on the way. A server that takes
    nothing more may have said why, so the client gets what is left of it. A client that is gone ends everything.
    Returns quietly in each case; the caller closes the streams.
    """
    up = asyncio.create_task(_copy(client, server), name="tunnel to the API server")
    down = asyncio.create_task(_copy(server, client), name="tunnel to the client")
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if not down.done() and up.result() is not _End.SOURCE_GONE:
            await asyncio.wait({down})
        if down.done() and down.result() is _End.FINISHED:
            await asyncio.wait({up}, timeout=_LINGER)
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


class _End(enum.Enum):
    """Why no more is copied in one direction."""

    FINISHED = "the source has sent all, and the sink knows"
    SOURCE_GONE = "the source broke"
    SINK_GONE = "the sink broke"


async def _copy(source: Stream, sink: Stream) -> _End:
    while True:
        try:
            data = await source.read(CHUNK)
        except OSError:
            return _End.SOURCE_GONE
        try:
            if not data:
                await sink.write_eof()
                return _End.FINISHED
            await sink.write(data)
        except OSError:
            return _End.SINK_GONE
