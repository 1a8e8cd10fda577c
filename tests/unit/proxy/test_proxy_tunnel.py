"""Requests that upgrade their connection go through the proxy byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from runner.kube.access import AccessSource
from runner.proxy.connection import Server
from runner.proxy.exchange import Exchange
from runner.proxy.fence import Fence, is_upgrade
from runner.proxy.refusals import refusal
from runner.proxy.request_info import parse
from runner.proxy.tunnel import Tunnel, Upgradeable
from runner.settings import KubeSettings
from runner.testing.waiting import eventually
from tests.unit.proxy.upstream import SWITCHING, count, echo, says, upstream

_EXEC = "/api/v1/namespaces/n/pods/p/exec?command=sh&command=-c&command=echo%20a%2Fb&stdout=true"
_WEBSOCKET = (
    f"GET {_EXEC} HTTP/1.1\r\nHost: localhost:1\r\nAuthorization: Basic c2VjcmV0\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Protocol: v5.channel.k8s.io,v4.channel.k8s.io\r\n\r\n"
).encode()
_SPDY = (
    f"POST {_EXEC} HTTP/1.1\r\nHost: localhost:1\r\nAuthorization: Basic c2VjcmV0\r\nUpgrade: SPDY/3.1\r\n"
    "Connection: Upgrade\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
    "X-Stream-Protocol-Version: v3.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
).encode()
_OTHER = f"GET {_EXEC} HTTP/1.1\r\nHost: localhost:1\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\n\r\n".encode()
_PLAIN = b"GET /plain HTTP/1.1\r\nHost: localhost:1\r\n\r\n"
_ALL = pytest.mark.parametrize("head", [_WEBSOCKET, _SPDY, _OTHER], ids=["websocket", "spdy", "other"])

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _forward(exchange: Exchange) -> web.StreamResponse:
    return web.Response(text=f"forwarded {exchange.info.path}")


@contextlib.asynccontextmanager
async def _proxy(kubeconfig: Path, *, refuse: bool = False, fence: Fence | None = None) -> AsyncIterator[int]:
    """Serve a proxy that has nothing but the two handlers, and maybe a layer that refuses upgrades."""
    access = AccessSource(settings=KubeSettings(kubeconfig=str(kubeconfig)))
    pick = Upgradeable(forward=_forward, tunnel=Tunnel(access=access, fence=fence))

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if refuse and is_upgrade(request):
            return refusal(message="not now")
        return await pick(Exchange(request=request, info=parse(request.method, request.raw_path)))

    runner = web.ServerRunner(Server(handle, access_log=None), shutdown_timeout=3600)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _http_proxy(*, allowed: bool) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve an HTTP proxy that connects, or refuses to; it keeps the heads that it got."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        if allowed:
            host, port = seen[-1].split(b" ")[1].decode().split(":")
            there, back = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
        else:
            writer.write(b"HTTP/1.1 407 No\r\n\r\n")
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def _client(port: int, head: bytes) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(head)
    try:
        yield reader, writer
    finally:
        writer.close()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _lines(head: bytes) -> list[str]:
    return head.decode().split("\r\n")[1:]


def _token(head: bytes) -> str:
    return next(line.partition(": ")[2] for line in _lines(head) if line.startswith("Authorization"))


async def _status(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the document of a refusal."""
    head = await _head(reader)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    status: dict[str, Any] = json.loads(await reader.readexactly(length))
    assert head.startswith(f"HTTP/1.1 {status['code']} ".encode())
    return status


async def _head(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return await reader.readuntil(b"\r\n\r\n")


@_ALL
async def test_the_head_reaches_the_api_server_with_other_credentials_only(tmp_path: Path, head: bytes) -> None:
    """Path prefix, repeated query parameters and all headers are the client's; Host and Authorization are ours."""
    with upstream(tmp_path, echo) as stub:
        config = stub.kubeconfig(tmp_path / "kubeconfig", prefix="/k8s/c-1")
        async with _proxy(config) as port, _client(port, head) as (reader, _):
            assert await _head(reader) == SWITCHING
    (seen,) = stub.heads
    method, *_ = head.decode().split(" ")
    assert seen.decode().startswith(f"{method} /k8s/c-1{_EXEC} HTTP/1.1\r\n")
    ours = {f"Host: 127.0.0.1:{stub.port}", "Authorization: Bearer operators-own"}
    theirs = {"Host: localhost:1", "Authorization: Basic c2VjcmV0"}
    assert sorted(set(_lines(seen)) - ours) == sorted(set(_lines(head)) - theirs)
    assert ours <= set(_lines(seen))


@_ALL
async def test_a_mebibyte_goes_there_and_back(tmp_path: Path, head: bytes) -> None:
    """What the client sends and what the API server echoes are equal, while both are under way at once."""
    data = os.urandom(2**20)
    with upstream(tmp_path, echo) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, head) as (reader, writer),
        ):
            assert await _head(reader) == SWITCHING
            writer.write(data)
            async with asyncio.timeout(60):
                assert await reader.readexactly(len(data)) == data


@_ALL
async def test_bytes_right_behind_a_head_are_not_lost(tmp_path: Path, head: bytes) -> None:
    """A hasty client's and a hasty server's first bytes arrive, though no parser understands them."""
    hasty = b"\x80\x03\x00\x01GET \r\n\r\n\x00"

    def hasty_echo(connection: socket.socket) -> None:
        connection.sendall(SWITCHING + b"hello")
        while data := connection.recv(65536):
            connection.sendall(data)

    with upstream(tmp_path, hasty_echo) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, head + hasty) as (reader, _),
        ):
            assert await _head(reader) == SWITCHING
            async with asyncio.timeout(60):
                expected = b"hello" + hasty
                assert await reader.readexactly(len(expected)) == expected


@pytest.mark.parametrize("back", [0, 1, 2, 3, 4, 5, 100])
@_ALL
async def test_a_head_may_come_in_two_reads(tmp_path: Path, head: bytes, back: int) -> None:
    """Bytes right behind a head arrive though the head's end, or more of it, came in a read of its own."""
    cut, hasty = len(head) - back, b"\x80\x03\x00\x01GET \r\n\r\n\x00"
    with upstream(tmp_path, echo) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, _PLAIN + head[:cut]) as (reader, writer),
            asyncio.timeout(60),
        ):
            await reader.readuntil(b"forwarded /plain")  # so the first part has been read
            writer.write(head[cut:] + hasty)
            assert await _head(reader) == SWITCHING
            assert await reader.readexactly(len(hasty)) == hasty


@pytest.mark.parametrize("body", [b"", b"{}"])
async def test_an_offer_of_http_2_is_no_upgrade(tmp_path: Path, body: bytes) -> None:
    """Java's client and `curl --http2` are served by HTTP/1.1, and their connection goes on."""
    head = (
        f"POST /x HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: {len(body)}\r\n"
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    ).encode()
    with upstream(tmp_path, echo) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, head + body) as (reader, writer),
            asyncio.timeout(60),
        ):
            await reader.readuntil(b"forwarded /x")
            writer.write(_PLAIN)
            await reader.readuntil(b"forwarded /plain")
    assert not stub.heads


@_ALL
async def test_a_client_that_has_finished_sending_gets_the_answer(tmp_path: Path, head: bytes) -> None:
    """The API server is told of the end over TLS, and what it says after that arrives, then its own end."""
    with upstream(tmp_path, count) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, head) as (reader, writer),
        ):
            assert await _head(reader) == SWITCHING
            writer.write(b"x" * 300_000)
            writer.write_eof()
            async with asyncio.timeout(60):
                assert await reader.read() == b"300000 bytes"


async def test_a_server_that_has_finished_sending_gets_the_rest(tmp_path: Path) -> None:
    """The client sees the end, and what it sends after that still arrives; here without TLS."""
    rest: list[bytes] = []

    def first_to_finish(connection: socket.socket) -> None:
        connection.sendall(SWITCHING + b"last words")
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(65536):
            rest.append(data)
        rest.append(b"")

    with upstream(tmp_path, first_to_finish, tls=False) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, _SPDY) as (reader, writer),
        ):
            assert await _head(reader) == SWITCHING
            async with asyncio.timeout(60):
                assert await reader.read() == b"last words"
            writer.write(b"so long")
            writer.close()
            await eventually(lambda: rest and not rest[-1])
    assert b"".join(rest) == b"so long"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            b"HTTP/1.1 403 Forbidden\r\nX-A: b\r\nContent-Length: 4\r\n\r\nnope",
            [b"HTTP/1.1 403 Forbidden\r\n", b"X-A: b\r\n", b"\r\n\r\nnope"],
        ),
        (
            b"HTTP/1.1 500 Oh dear\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            [b"HTTP/1.1 500 Oh dear\r\n", b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"],
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            [b"HTTP/1.1 404 Not Found\r\n", b"Content-Length: 0\r\n"],
        ),
        (
            b"HTTP/1.0 503 Busy\r\n\r\nuntil the end",
            [b"HTTP/1.1 503 Busy\r\n", b"\r\nuntil the end\r\n0\r\n\r\n"],
        ),
    ],
    ids=["length", "chunked", "empty", "until closed"],
)
@_ALL
async def test_an_answer_that_upgrades_nothing_is_passed_on_whole(
    tmp_path: Path, head: bytes, answer: bytes, expected: list[bytes]
) -> None:
    """Status, reason, headers and body arrive, and the client's connection serves its next request."""
    with upstream(tmp_path, says(answer)) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port,
            _client(port, head + _PLAIN) as (reader, _),
            asyncio.timeout(60),
        ):
            seen = await reader.readuntil(b"forwarded /plain")
    for part in expected:
        assert part in seen


async def test_a_401_is_tried_once_more_with_credentials_that_are_read_again(tmp_path: Path) -> None:
    """The token of a configuration that was rotated meanwhile goes out, and the client sees the 101 only."""
    config = tmp_path / "kubeconfig"

    def rotates(connection: socket.socket) -> None:
        stub.kubeconfig(config, user={"token": "new"})
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    with upstream(tmp_path, rotates, echo) as stub:
        stub.kubeconfig(config, user={"token": "old"})
        async with _proxy(config) as port, _client(port, _SPDY) as (reader, _):
            assert await _head(reader) == SWITCHING
    assert [_token(head) for head in stub.heads] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_the_answer(tmp_path: Path) -> None:
    """Credentials that stay wrong are tried twice, not for ever."""
    with upstream(tmp_path, says(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")) as stub:
        async with _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port, _client(port, _SPDY) as (reader, _):
            assert (await _head(reader)).startswith(b"HTTP/1.1 401 ")
    assert len(stub.heads) == 2


@_ALL
async def test_after_a_refusal_by_a_layer_the_connection_goes_on(tmp_path: Path, head: bytes) -> None:
    """The layers before the tunnel see the request; what the client sent behind a refused one is served."""
    with upstream(tmp_path, echo) as stub:
        async with (
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig"), refuse=True) as port,
            _client(port, _PLAIN + head + _PLAIN + head) as (reader, writer),
            asyncio.timeout(60),
        ):
            for expected in (b"forwarded /plain", b"not now", b"forwarded /plain", b"not now"):
                await reader.readuntil(expected)
            writer.write(b'"x"' + _PLAIN)  # nobody understands this
            assert b" 400 " in await reader.read()
    assert not stub.heads


async def test_an_api_server_that_cannot_be_reached_is_told_in_a_sentence(tmp_path: Path) -> None:
    """The answer is a Status of 503 that says that nothing was sent."""
    with upstream(tmp_path, echo) as stub:
        config = stub.kubeconfig(tmp_path / "kubeconfig")
    async with _proxy(config) as port, _client(port, _SPDY) as (reader, _):
        status = await _status(reader)
    assert status["code"] == 503
    assert "can't be reached, so nothing was sent" in status["message"]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 101", b"SSH-2.0-x\r\n\r\n"], ids=["none", "half", "no HTTP"])
async def test_an_answer_that_does_not_come_is_told_in_a_sentence(tmp_path: Path, answer: bytes) -> None:
    """The answer is a Status of 502 that names the path."""
    with upstream(tmp_path, says(answer)) as stub:
        async with _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port, _client(port, _SPDY) as (reader, _):
            status = await _status(reader)
    assert status["code"] == 502
    assert "/api/v1/namespaces/n/pods/p/exec" in status["message"]


async def test_what_is_fenced_while_the_connection_is_made_is_not_sent(tmp_path: Path) -> None:
    """The last look comes right before the head: an instance that lost its lease opens no tunnel."""
    with upstream(tmp_path, echo) as stub:
        config = stub.kubeconfig(tmp_path / "kubeconfig")
        async with (
            _proxy(config, fence=Fence(fenced=lambda: True)) as port,
            _client(port, _WEBSOCKET) as (reader, _),
        ):
            status = await _status(reader)
    assert status["code"] == 403
    assert "does not lead any more" in status["message"]
    assert not stub.heads


async def test_an_untrusted_api_server_gets_no_credentials(tmp_path: Path) -> None:
    """A certificate of another authority ends the attempt before a header is sent."""
    other = tmp_path / "other"
    other.mkdir()
    with upstream(tmp_path, echo) as stub, upstream(other, echo) as stranger:
        stub.port = stranger.port
        async with _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port, _client(port, _SPDY) as (reader, _):
            assert (await _status(reader))["code"] == 503
    assert not stranger.heads


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_http_proxy_on_the_way_is_asked_to_connect(tmp_path: Path, allowed: bool) -> None:  # noqa: FBT001 - a parameter
    """`proxy-url` of the configuration holds for upgrades too: TLS goes through it, with its own credentials only."""
    with upstream(tmp_path, echo) as stub:
        async with (
            _http_proxy(allowed=allowed) as (between, seen),
            _proxy(stub.kubeconfig(tmp_path / "kubeconfig", proxy=f"http://me:word@127.0.0.1:{between}")) as port,
            _client(port, _SPDY) as (reader, _),
        ):
            head = await _head(reader)
            body = b"" if allowed else await reader.readuntil(b'"code": 503}')
    assert (head == SWITCHING) is allowed
    assert (b"answered 407 No" in body) is not allowed
    assert seen[0].startswith(f"CONNECT 127.0.0.1:{stub.port} HTTP/1.1\r\n".encode())
    assert _token(seen[0].replace(b"Proxy-Auth", b"Auth")) == "Basic bWU6d29yZA=="
    assert b"operators-own" not in seen[0]


async def test_stopping_the_proxy_ends_tunnels_at_once(tmp_path: Path) -> None:
    """Both sides of an open, silent tunnel see the end, without the time that requests get to finish."""
    with upstream(tmp_path, echo) as stub:
        async with asyncio.timeout(120):
            async with _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(_SPDY)
                assert await _head(reader) == SWITCHING
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
        stub.ended.get(timeout=60)


async def test_a_client_that_does_not_read_stops_the_server(tmp_path: Path) -> None:
    """Of 64 MiB only as much leaves the API server as sockets and two small buffers hold; the rest comes when read."""
    total, sent = 2**26, [0]
    stalled = threading.Event()

    def flood(connection: socket.socket) -> None:
        connection.sendall(SWITCHING)
        connection.settimeout(0.5)
        chunk = bytes(2**16)
        while sent[0] < total:
            try:
                connection.send(chunk)
                sent[0] += len(chunk)
            except TimeoutError:
                stalled.set()
        stalled.set()

    with upstream(tmp_path, flood) as stub:
        async with _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port, _client(port, _SPDY) as (reader, writer):
            assert await _head(reader) == SWITCHING
            writer.transport.pause_reading()  # type: ignore[attr-defined] # a socket's transport
            await eventually(stalled.is_set)
            assert sent[0] < total
            writer.transport.resume_reading()  # type: ignore[attr-defined] # a socket's transport
            async with asyncio.timeout(60):
                await reader.readexactly(total)


async def test_a_server_that_does_not_read_stops_the_client(tmp_path: Path) -> None:
    """Of 64 MiB only as much leaves the client as sockets and two small buffers hold; the rest goes when read."""
    total, got = 2**26, [0]
    read_on = threading.Event()

    def reluctant(connection: socket.socket) -> None:
        connection.sendall(SWITCHING)
        read_on.wait(120)
        while data := connection.recv(65536):
            got[0] += len(data)

    async def flood(writer: asyncio.StreamWriter) -> int:
        for chunk in range(1, total // 2**16 + 1):
            writer.write(bytes(2**16))
            try:
                await asyncio.wait_for(writer.drain(), 1)
            except TimeoutError:
                return chunk * 2**16
        return total

    with upstream(tmp_path, reluctant) as stub:
        config = stub.kubeconfig(tmp_path / "kubeconfig")
        async with _proxy(config) as port, _client(port, _SPDY) as (reader, writer):
            assert await _head(reader) == SWITCHING
            sent = await flood(writer)
            assert sent < total
            read_on.set()
            writer.write_eof()
            async with asyncio.timeout(60):
                assert await reader.read() == b""
    assert got[0] == sent


async def test_fifty_tunnels_leave_nothing_behind(tmp_path: Path) -> None:
    """However they ended, by the client, by the server or refused, files and tasks are as many as before."""
    refused = says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    conversations = [echo, says(SWITCHING, b"bye"), refused, says(), count]
    with upstream(tmp_path, *(conversations * 10)) as stub:
        async with _proxy(stub.kubeconfig(tmp_path / "kubeconfig")) as port:

            async def one() -> None:
                async with _client(port, _SPDY) as (reader, writer):
                    await _head(reader)
                    writer.write(b"some bytes")

            await one()
            files, tasks = _open_files(), len(asyncio.all_tasks())
            for _ in range(49):
                await one()
            await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
            await eventually(lambda: _open_files() <= files)
