"""A TCP proxy with faults: bytes pass untouched (TLS stays between client and server) until a test says otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from runner.testing.kubeconfig import derived_kubeconfig

_PIECE = 65536
_ACCEPTING = 3
"""Turns of the loop from asyncio's accept to our callback: its own task's start, the transport, the protocol. A server
that is closed in between loses the socket (Python 3.11: `Server._attach` fails), so nothing more is accepted before."""


class TcpFaultProxy:
    """Forwards connections to one address; an async context manager that listens on a free port of 127.0.0.1."""

    def __init__(self, *, host: str, port: int) -> None:
        """Forward to *host*:*port*."""
        self._target = (host, port)
        self.port = 0
        self.accepted = 0
        """How many connections came so far."""
        self.delay = 0.0
        """Seconds that each piece of data waits before it is passed on."""
        self._server: asyncio.Server | None = None
        self._links: dict[_Link, asyncio.Task[None]] = {}

    @classmethod
    def before(cls, kubeconfig: Path) -> TcpFaultProxy:
        """Return a proxy for the API server of *kubeconfig*'s first cluster."""
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        address = urlsplit(document["clusters"][0]["cluster"]["server"])
        return cls(host=address.hostname or "127.0.0.1", port=address.port or 443)

    async def __aenter__(self) -> TcpFaultProxy:
        """Listen."""
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections and stop listening; one that comes in this moment is ended too."""
        await self.refuse()
        await self.drop()

    def kubeconfig(self, path: Path, *, source: Path) -> Path:
        """Write a copy of *source* (mode 0600) whose server is this proxy."""
        document = yaml.safe_load(source.read_text(encoding="utf-8"))
        scheme = urlsplit(document["clusters"][0]["cluster"]["server"]).scheme
        return derived_kubeconfig(path, source=source, server=f"{scheme}://127.0.0.1:{self.port}")

    @property
    def open_connections(self) -> int:
        """Return how many connections stand."""
        return len(self._links)

    async def accept(self) -> None:
        """Listen (again, on the same port)."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Stop listening: new connections are refused; standing ones stay."""
        if self._server is not None:
            loop = asyncio.get_running_loop()
            for listening in self._server.sockets:
                loop.remove_reader(listening.fileno())
            for _ in range(_ACCEPTING):
                await asyncio.sleep(0)
            self._server.close()
            self._server = None

    async def drop(self) -> None:
        """Reset all connections."""
        links = dict(self._links)
        for link in links:
            link.reset()
        await asyncio.gather(*links.values())

    def half_open(self) -> None:
        """Pass nothing on any more over the standing connections, without telling either side; new ones work."""
        for link in self._links:
            link.flowing.clear()

    def resume(self) -> None:
        """Let half-open connections go on."""
        for link in self._links:
            link.flowing.set()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # No coroutine: asyncio would run it as a task that we don't know, so that between a connection and its task's
        # first step `drop` would miss it, and the end of the loop would leave its socket to the garbage collector.
        self.accepted += 1
        link = _Link(self, near=writer)
        self._links[link] = task = asyncio.create_task(link.run(reader, target=self._target))
        task.add_done_callback(lambda _: self._links.pop(link))
        task.add_done_callback(lambda _: writer.close())  # cancelled before its first step the task closes nothing


class _Link:
    """One client's connection and the one to the target."""

    def __init__(self, proxy: TcpFaultProxy, *, near: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._near = near
        self._pumps: list[asyncio.Task[None]] = []
        self._was_reset = False
        self.flowing = asyncio.Event()
        self.flowing.set()

    def reset(self) -> None:
        self._was_reset = True
        self.flowing.set()
        for pump in self._pumps:
            pump.cancel()

    async def run(self, reader: asyncio.StreamReader, *, target: tuple[str, int]) -> None:
        try:
            far_reader, far = await asyncio.open_connection(*target)
        except OSError:
            _reset(self._near)
            return
        self._pumps = [
            asyncio.create_task(self._pump(reader, far)),
            asyncio.create_task(self._pump(far_reader, self._near)),
        ]
        if self._was_reset:
            self.reset()
        try:
            await asyncio.wait(self._pumps, return_when=asyncio.FIRST_COMPLETED)
            await self.flowing.wait()  # an end of one side must not be seen through a half-open connection
        finally:
            for pump in self._pumps:
                pump.cancel()
            if self._was_reset:
                _reset(self._near)
            self._near.close()
            far.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await source.read(_PIECE):
                if self._proxy.delay:
                    await asyncio.sleep(self._proxy.delay)
                await self.flowing.wait()
                sink.write(piece)
                await sink.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN, as a server does that died and forgot the connection."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
