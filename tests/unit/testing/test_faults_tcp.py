"""The TCP fault proxy: bytes pass until a test says otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from runner.testing.faults_tcp import TcpFaultProxy
from runner.testing.waiting import eventually

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1000):
        writer.write(piece)
        await writer.drain()
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[TcpFaultProxy]:
    """Give a proxy in front of an echo server."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    try:
        async with TcpFaultProxy(host="127.0.0.1", port=server.sockets[0].getsockname()[1]) as proxy:
            yield proxy
    finally:
        server.close()
        await server.wait_closed()


async def connected(proxy: TcpFaultProxy) -> Streams:
    """Open a connection and see one byte come back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    await said((reader, writer), data=b"0")
    return reader, writer


async def said(streams: Streams, *, data: bytes) -> None:
    """Send *data* and see it come back."""
    reader, writer = streams
    writer.write(data)
    assert await asyncio.wait_for(reader.readexactly(len(data)), timeout=30) == data


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a client's connection."""
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_bytes_pass_both_ways(proxy: TcpFaultProxy) -> None:
    """Without a fault the proxy is invisible, and counts connections."""
    reader, writer = await connected(proxy)
    await said((reader, writer), data=b"hello" * 50_000)
    assert (proxy.accepted, proxy.open_connections) == (1, 1)
    await closed(writer)
    await eventually(lambda: proxy.open_connections == 0)


async def test_dropped_connections_are_reset(proxy: TcpFaultProxy) -> None:
    """After `drop` clients see a reset, and new connections work."""
    reader, writer = await connected(proxy)
    await proxy.drop()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(1), timeout=30)
    await closed(writer)
    _, again = await connected(proxy)
    await closed(again)


async def test_refused_connections_come_back_on_the_same_port(proxy: TcpFaultProxy) -> None:
    """After `refuse` nobody listens while standing connections go on; `accept` opens the same port."""
    reader, writer = await connected(proxy)
    port = proxy.port
    await proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await said((reader, writer), data=b"still here")
    await proxy.accept()
    assert proxy.port == port
    _, again = await connected(proxy)
    await closed(again)
    await closed(writer)


async def test_a_half_open_connection_says_nothing_until_it_is_resumed(proxy: TcpFaultProxy) -> None:
    """After `half_open` nothing passes over standing connections, not even an end; new ones work."""
    reader, writer = await connected(proxy)
    proxy.half_open()
    writer.write(b"lost?")
    answer = asyncio.create_task(reader.readexactly(5))
    _, other = await connected(proxy)  # a whole round trip on another connection
    assert not answer.done()
    proxy.resume()
    assert await asyncio.wait_for(answer, timeout=30) == b"lost?"
    await closed(other)
    await closed(writer)


async def test_a_delay_holds_each_piece_back(proxy: TcpFaultProxy) -> None:
    """With a delay data still arrives, and not before its time."""
    reader, writer = await connected(proxy)
    proxy.delay = 0.05
    loop = asyncio.get_running_loop()
    began = loop.time()
    await said((reader, writer), data=b"x")
    assert loop.time() - began >= 0.1
    await closed(writer)


@pytest.mark.parametrize("steps", range(8))
def test_a_connection_in_the_moment_of_the_end_is_closed(steps: int) -> None:
    """However far a new connection has come when the proxy ends, its client sees an end, and no socket is left."""

    async def ended_at_once(client: socket.socket) -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        async with server, TcpFaultProxy(host="127.0.0.1", port=server.sockets[0].getsockname()[1]) as proxy:
            client.connect(("127.0.0.1", proxy.port))
            for _ in range(steps):
                await asyncio.sleep(0)

    with socket.socket() as client:
        client.settimeout(10)
        asyncio.run(ended_at_once(client))
        with contextlib.suppress(ConnectionError):
            assert client.recv(1) == b""
