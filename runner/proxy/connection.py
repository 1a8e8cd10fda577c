"""A connection of the proxy's server that can be taken over as raw bytes: what upgrades need and aiohttp lacks.

aiohttp's parser hands over a connection for `Upgrade: websocket` only; behind any other upgrade, such as kubectl's
SPDY/3.1, it goes on parsing HTTP. Here a request that asks for an upgrade is the last one that the parser sees until it
is answered: bytes behind its head are held, and the transport is paused. Either a handler takes the connection over
(`take_over`), or its answer is an ordinary one, and HTTP goes on with what was held. What is no upgrade to
`runner.proxy.fence` is none here: the client of a watch that is not read from could leave unnoticed.

Relies on these parts of aiohttp 3.14: `web.Server.__call__` makes the protocol (with `_loop` and `_kwargs`);
`RequestHandler.data_received` appends `(message, payload)` to `_messages` and counts `_request_count`;
a `RawRequestMessage` (a message that was parsed) has `upgrade` true for `Connection: upgrade` with any `Upgrade`, and
its `headers`; `finish_response` sends each answer;
`_message_tail` has what came behind a WebSocket's head; `_drain_helper`, `_pause_transport_reading` and
`_resume_transport_reading` are its flow control; `shutdown` is called when the server stops.

A client that sends the upgraded protocol's bytes before it has the 101 does what RFC 9110 forbids; they arrive all the
same, however the head comes in pieces.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from runner.proxy.fence import is_upgrade
from runner.proxy.streams import CHUNK

_HEAD_END = b"\r\n\r\n"
_LOOKED_BACK = 5
"""Bytes: one less than the longest of what is looked for."""


class Server(web.Server):
    """`web.Server` whose connections can be taken over."""

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)


class ClientStream:
    """The client's connection as a stream of bytes, once it is taken over."""

    def __init__(self, connection: Connection, *, transport: asyncio.Transport, early: bytes) -> None:
        """Begin with what came *early*, before anybody had taken the connection over."""
        self._connection = connection
        self._transport = transport
        self._reader = asyncio.StreamReader(limit=CHUNK)
        self._reader.set_transport(transport)  # so that a full buffer stops the peer
        self.feed(early)

    async def read(self, limit: int) -> bytes:
        """Return the next bytes, at most *limit*; empty: the client will send no more."""
        return await self._reader.read(limit)

    async def write(self, data: bytes) -> None:
        """Send *data*, and return when there is room for more."""
        if self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._connection._drain_helper()  # noqa: SLF001 - ours; the two are one connection

    async def write_eof(self) -> None:
        """Send no more; reading goes on."""
        if not self._transport.is_closing():
            self._transport.write_eof()

    def abort(self) -> None:
        """Break the connection off now."""
        self._transport.abort()
        self.lost(ConnectionAbortedError("the proxy stops"))

    def feed(self, data: bytes) -> None:
        """Take bytes from the client."""
        if data:
            self._reader.feed_data(data)

    def feed_eof(self) -> None:
        """Take the end of what the client sends."""
        self._reader.feed_eof()

    def lost(self, error: Exception | None) -> None:
        """Take it that the connection is gone."""
        if error is None:
            self._reader.feed_eof()
        else:
            self._reader.set_exception(error)


class Connection(RequestHandler):
    """One client's connection."""

    _held = b""
    """What came behind the head of a request for an upgrade that isn't answered yet."""
    _holding = False
    _taken: ClientStream | None = None
    _before = b""
    """The end of what came before, for what is looked for and comes in two reads."""
    _upgrade_named = False
    """Whether the word was there since the last end of a head."""

    def take_over(self) -> ClientStream:
        """Return the connection as raw bytes; HTTP is over on it.

        Raises:
            ConnectionResetError: the client is gone.
        """
        if self.transport is None:
            raise ConnectionResetError("the client is gone")
        early, self._held, self._message_tail = self._message_tail + self._held, b"", b""
        self.keep_alive(val=False)
        self._taken = ClientStream(self, transport=self.transport, early=early)
        self._holding = False
        self._resume_transport_reading()
        return self._taken

    def data_received(self, data: bytes) -> None:
        """Pass bytes to whom they belong: the tunnel, the parser, or nobody yet."""
        if self._taken is not None:
            self._taken.feed(data)
            return
        if self._holding:
            self._hold(data)
            return
        while True:
            part, data = self._through_head(data)
            before = self._request_count
            super().data_received(part)
            if self._request_count > before and self._asks_for_upgrade():
                self._hold(data)
                return
            if not data:
                return

    def eof_received(self) -> bool | None:  # type: ignore[override] # aiohttp narrows asyncio's signature to None
        """Leave the other direction of a tunnel open."""
        if self._taken is None:
            return super().eof_received()
        self._taken.feed_eof()
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the tunnel."""
        super().connection_lost(exc)
        if self._taken is not None:
            self._taken.lost(exc if isinstance(exc, Exception) else None)

    async def finish_response(  # noqa: PLR0917 - aiohttp's signature
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; HTTP goes on where it answers a request for an upgrade in another way."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            if self._holding and not self._messages:
                self._release()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """End the tunnel at once: nobody can tell when it would end by itself."""
        if self._taken is not None:
            self._taken.abort()
        await super().shutdown(timeout)

    def _asks_for_upgrade(self) -> bool:
        message, payload = self._messages[-1]
        if not isinstance(message, RawRequestMessage):  # what the parser refused
            return False
        return bool(message.upgrade) and is_upgrade(message) and payload.is_eof()

    def _through_head(self, data: bytes) -> tuple[bytes, bytes]:
        """Cut *data* behind the first end of a head that may ask for an upgrade; the parser doesn't mind either way."""
        seen = self._before + data
        self._upgrade_named = self._upgrade_named or b"pgrade" in seen or b"PGRADE" in seen
        start = max(len(self._before) - len(_HEAD_END) + 1, 0)
        found = seen.find(_HEAD_END, start) if self._upgrade_named else -1
        if found < 0:
            self._before = seen[-_LOOKED_BACK:]
            return data, b""
        end = found + len(_HEAD_END) - len(self._before)
        self._before, self._upgrade_named = b"", False
        return data[:end], data[end:]

    def _hold(self, data: bytes) -> None:
        self._holding = True
        self._held += data
        self._pause_transport_reading()

    def _release(self) -> None:
        held, self._held, self._holding = self._held, b"", False
        if not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()
        if held:
            self.data_received(held)


def take_over(request: web.BaseRequest) -> ClientStream:
    """Return the connection of *request* as raw bytes; the handler answers it with `TakenOver` in the end.

    Raises:
        ConnectionResetError: the client is gone.
    """
    connection = request.protocol
    if not isinstance(connection, Connection):
        raise TypeError("only connections of runner.proxy.connection.Server can be taken over")
    stream = connection.take_over()
    request.writer.output_size += 1  # what is sent from here on is not the library's, which must not answer any more
    return stream


def is_begun(request: web.BaseRequest) -> bool:
    """Tell whether the client has got something of an answer, so that no other one can be sent."""
    return bool(request.writer.output_size)


class TakenOver(web.StreamResponse):
    """The answer of a handler that has taken the connection over: nothing more is sent."""

    def __init__(self) -> None:
        """Make the answer after which the connection is closed."""
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send no head: the API server's went to the client as it was."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send no end."""
