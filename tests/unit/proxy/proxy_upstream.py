"""A stand-in for the API server that notes each request byte for byte, and the proxy in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.kube.access import AccessSource
from runner.kube.client import Observe
from runner.logs import Logger
from runner.proxy.exchange import Handler
from runner.proxy.fence import Fence
from runner.proxy.forward import Forward
from runner.proxy.server import ProxyServer
from runner.settings import KubeSettings
from runner.testing.kubeconfig import write_kubeconfig


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request as it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    reader: asyncio.StreamReader
    body: bytes = b""

    def all(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


Answer = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes = b"{}", *, status: str = "200 OK", headers: tuple[str, ...] = ()) -> Answer:
    """Return an answer with a length."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return answer


class Upstream:
    """Listens on a free port of 127.0.0.1; an async context manager."""

    def __init__(self) -> None:
        """Answer 200 and `{}` to everything."""
        self.requests: list[Received] = []
        self.answer: Answer = reply()
        self.reads_bodies = True
        """False: the answer reads what it wants of the body."""
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Upstream:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and end every connection."""
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def url(self) -> str:
        """Return the address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Received:
        """Return the newest request."""
        return self.requests[-1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    received = await self._receive(reader)
                    await self.answer(received, writer)
        except asyncio.CancelledError:
            pass  # the end of the test; asyncio would log it otherwise
        finally:
            self._connections.discard(task)
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader) -> Received:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        head = Received(method=method, target=target, headers=headers, reader=reader)
        body = await read_body(head) if self.reads_bodies else b""
        received = Received(method=method, target=target, headers=headers, reader=reader, body=body)
        self.requests.append(received)
        return received


async def read_body(received: Received) -> bytes:
    """Return the whole body, with a length or in chunks."""
    if received.all("Transfer-Encoding") == ["chunked"]:
        body = b""
        while chunk := await read_chunk(received.reader):
            body += chunk
        return body
    return await received.reader.readexactly(int((received.all("Content-Length") or ["0"])[0]))


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """Return the next chunk of a body."""
    size = int((await reader.readuntil(b"\r\n")).strip(), 16)
    chunk = await reader.readexactly(size)
    await reader.readexactly(2)
    return chunk


@dataclass(kw_only=True)
class Proxied:
    """The proxy of a test."""

    server: ProxyServer
    records: list[Any]

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.server.port}"


@contextlib.asynccontextmanager
async def serving(handler: Handler, *, grace: float = 2.0) -> AsyncIterator[Proxied]:
    """Run a server with *handler*."""
    records: list[Any] = []
    server = ProxyServer(
        handler=handler, port=0, logger=Logger("proxy", level="debug", sink=records.append), grace=grace
    )
    await server.start()
    try:
        yield Proxied(server=server, records=records)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def forwarding(
    folder: Path,
    *,
    server: str,
    user: dict[str, Any] | None = None,
    fence: Fence | None = None,
    observe: Observe | None = None,
    layer: Callable[[Handler], Handler] = lambda handler: handler,
    grace: float = 2.0,
) -> AsyncIterator[Proxied]:
    """Run a proxy that only forwards, to the API server at *server* as *user*."""
    kubeconfig = write_kubeconfig(folder / "kubeconfig", server=server, user=user or {"token": "operators-token"})
    access = AccessSource(settings=KubeSettings(kubeconfig=str(kubeconfig)))
    forward = Forward(access=access, fence=fence, observe=observe)
    try:
        async with serving(layer(forward), grace=grace) as proxied:
            yield proxied
    finally:
        await forward.close()


@contextlib.asynccontextmanager
async def connected(proxied: Proxied) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a plain connection to the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxied.server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def status_message(body: bytes) -> str:
    """Return the sentence of a `Status` answer."""
    status = json.loads(body)
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    message: str = status["message"]
    return message
