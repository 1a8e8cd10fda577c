"""Connections to an API server of which none is left when their pool is closed.

Below `runner.kube.client` and the handlers' session: each of their pools stands on one `Connector`.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from aiohappyeyeballs import SocketFactoryType
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace


class Connector(aiohttp.TCPConnector):
    """A pool without a limit, whose `close` ends each connection that it ever made.

    aiohttp's own forgets a connection that a caller dropped (a watch that is left, a request that is cancelled): over
    TLS it then lives on until the server has answered the goodbye, for up to 30 seconds, and past the end of the pool.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | bool = True,
        force_close: bool = False,
        socket_factory: SocketFactoryType | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            tls: how servers are verified, where a request doesn't say otherwise.
            force_close: use each connection for one request only.
            socket_factory: makes the sockets, as in aiohttp.
        """
        super().__init__(limit=0, ssl=tls, force_close=force_close, socket_factory=socket_factory)
        self._made: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()

    async def connect(  # noqa: PLR0917 - the signature of aiohttp
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """Return a connection for *req*, and remember it."""
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None:
            self._made.add(connection.transport)
        return connection

    async def close(self, *, abort_ssl: bool = True) -> None:
        """Close all connections, those without the server's goodbye that were dropped before."""
        await super().close(abort_ssl=abort_ssl)
        for transport in tuple(self._made):
            transport.abort()
