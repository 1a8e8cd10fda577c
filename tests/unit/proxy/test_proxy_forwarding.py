"""Plain forwarding: what arrives at the API server and what comes back, byte for byte."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from runner.proxy.exchange import Exchange, Handler
from tests.unit.proxy.proxy_upstream import (
    Received,
    Upstream,
    connected,
    forwarding,
    read_chunk,
    reply,
)


async def test_path_and_query_are_sent_as_they_came(upstream: Upstream, tmp_path: Path) -> None:
    """Percent-encoding, empty segments, dots, pluses and the order of the query are untouched."""
    target = "/api/v1//namespaces/a%2Fb/../x;y,z/pods?labelSelector=a+in+%28b%2Cc%29&x=1&x=%2B&fieldSelector=a%3db?&q"
    async with forwarding(tmp_path, server=upstream.url) as proxied, connected(proxied) as (reader, writer):
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
    assert (upstream.last.method, upstream.last.target) == ("GET", target)


async def test_the_path_of_the_servers_url_is_kept(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A kubeconfig whose server has a path, as Rancher's has, gets every request below that path."""
    async with (
        forwarding(tmp_path, server=f"{upstream.url}/k8s/clusters/c-1/") as proxied,
        client.get(f"{proxied.url}/api/v1/pods?watch=0") as answer,
    ):
        assert answer.status == 200
    assert upstream.last.target == "/k8s/clusters/c-1/api/v1/pods?watch=0"


async def test_headers_are_passed_but_for_those_of_the_connection(upstream: Upstream, tmp_path: Path) -> None:
    """The API server sees the client's headers, its own Host, the operator's Authorization, no hop-by-hop header."""
    async with forwarding(tmp_path, server=upstream.url) as proxied, connected(proxied) as (reader, writer):
        writer.write(
            b"GET /api HTTP/1.1\r\nHost: localhost:1\r\nAuthorization: Basic c2VjcmV0\r\nConnection: X-Mine, close\r\n"
            b"X-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: Basic eA==\r\nX-Two: a\r\nX-Two: b\r\n"
            b"Accept: application/json;as=Table\r\nImpersonate-User: jane\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
    assert sorted(upstream.last.headers) == [
        ("Accept", "application/json;as=Table"),
        ("Authorization", "Bearer operators-token"),
        ("Host", f"127.0.0.1:{upstream.port}"),
        ("Impersonate-User", "jane"),
        ("X-Two", "a"),
        ("X-Two", "b"),
    ]


async def test_a_password_of_the_kubeconfig_is_sent(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A user with name and password speaks by Basic authentication."""
    user = {"username": "u", "password": "p"}
    async with forwarding(tmp_path, server=upstream.url, user=user) as proxied, client.get(f"{proxied.url}/version"):
        pass
    assert upstream.last.all("Authorization") == ["Basic dTpw"]


async def test_status_reason_and_headers_come_back(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """An answer has the API server's status, reason and headers, several of one name included, and none added."""
    headers = ("Warning: 299 - a", "Warning: 299 - b", "Audit-Id: 7", "Date: then", "Keep-Alive: 3", "Trailer: X")
    upstream.answer = reply(b'{"code":409}', status="409 My Conflict", headers=headers)
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.post(f"{proxied.url}/api/v1/pods", json={}) as answer,
    ):
        assert (answer.status, answer.reason, await answer.read()) == (409, "My Conflict", b'{"code":409}')
    assert sorted(answer.headers.items()) == [
        ("Audit-Id", "7"),
        ("Content-Length", "12"),
        ("Content-Type", "application/json"),
        ("Date", "then"),
        ("Warning", "299 - a"),
        ("Warning", "299 - b"),
    ]


async def test_a_compressed_answer_stays_compressed(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Bytes of an answer are passed as they are, with their Content-Encoding."""
    packed = gzip.compress(b'{"items":[]}')
    upstream.answer = reply(packed, headers=("Content-Encoding: gzip",))
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.get(f"{proxied.url}/api/v1/pods", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert (answer.headers["Content-Encoding"], await answer.read()) == ("gzip", packed)
    assert upstream.last.all("Accept-Encoding") == ["gzip"]


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [("HEAD", "200 OK", "2"), ("GET", "304 Not Modified", None), ("DELETE", "204 No Content", None)],
)
async def test_answers_without_a_body_end_at_once(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path, method: str, status: str, length: str | None
) -> None:
    """HEAD, 304 and 204 have no body, and the connection serves the next request."""

    async def bare(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nEtag: x\r\n{'Content-Length: 2' if length else 'X-Y: 1'}\r\n\r\n".encode())

    upstream.answer = bare
    async with forwarding(tmp_path, server=upstream.url) as proxied:
        for _ in range(2):
            async with client.request(method, f"{proxied.url}/api") as answer:
                assert (answer.status, answer.headers["Etag"], await answer.read()) == (int(status[:3]), "x", b"")
                assert answer.headers.get("Content-Length") == length
    assert [request.method for request in upstream.requests] == [method] * 2


async def test_a_redirect_is_passed_on(upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """A redirect of the API server is the client's business."""
    upstream.answer = reply(status="307 Temporary Redirect", headers=("Location: /elsewhere",))
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.get(f"{proxied.url}/here", allow_redirects=False) as answer,
    ):
        assert (answer.status, answer.headers["Location"]) == (307, "/elsewhere")
    assert len(upstream.requests) == 1


async def test_pieces_of_an_answer_are_not_held_back(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """The client has the headers and each event of a watch before the API server sends the next one."""
    seen = asyncio.Queue[bytes]()

    async def watch(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(3):
            assert await seen.get() == b"%d" % number
            writer.write(b"4\r\n{%d}\n\r\n" % number)
        writer.write(b"0\r\n\r\n")

    upstream.answer = watch
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.get(f"{proxied.url}/api/v1/pods?watch=1") as answer,
    ):
        for number in range(3):
            seen.put_nowait(b"%d" % number)
            assert await answer.content.readline() == b"{%d}\n" % number
        assert await answer.content.read() == b""


async def test_a_chunked_upload_is_streamed(upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """A body without a length reaches the API server piece by piece, while the client still writes."""
    arrived = asyncio.Queue[bytes]()
    upstream.reads_bodies = False

    async def take(received: Received, writer: asyncio.StreamWriter) -> None:
        while chunk := await read_chunk(received.reader):
            arrived.put_nowait(chunk)
        await reply()(received, writer)

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"%d" % number
            assert await arrived.get() == b"%d" % number

    upstream.answer = take
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.post(f"{proxied.url}/api/v1/x", data=pieces()) as answer,
    ):
        assert answer.status == 200


async def test_a_large_body_keeps_its_length(upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """A body of eight MiB goes through unchanged, with its Content-Length: the proxy has no limit of its own."""
    body = bytes(range(256)) * 32 * 1024
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.put(f"{proxied.url}/api/v1/x", data=iter_of(body), headers=length_of(body)) as answer,
    ):
        assert answer.status == 200
    assert upstream.last.body == body
    assert upstream.last.all("Content-Length") == [str(len(body))]


async def iter_of(body: bytes) -> AsyncIterator[bytes]:
    """Yield *body* in pieces."""
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


def length_of(body: bytes) -> dict[str, str]:
    """Return the headers of *body*."""
    return {"Content-Length": str(len(body)), "Content-Type": "application/octet-stream"}


async def test_a_client_that_asks_first_is_told_to_continue(upstream: Upstream, tmp_path: Path) -> None:
    """`Expect: 100-continue` is answered, then the body is taken, and the API server sees no Expect."""
    async with forwarding(tmp_path, server=upstream.url) as proxied, connected(proxied) as (reader, writer):
        writer.write(b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
    assert (upstream.last.body, upstream.last.all("Expect")) == (b"{}", [])


async def test_a_replaced_body_is_sent_with_its_length_and_type(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """What a layer puts in the place of the client's body is sent, with its own type and length."""

    def replaces(handler: Handler) -> Handler:
        async def handle(exchange: Exchange) -> web.StreamResponse:
            assert await exchange.read() == b"a: 1"
            exchange.body, exchange.content_type = b'{"a":1,"b":2}', "application/json"
            return await handler(exchange)

        return handle

    async with forwarding(tmp_path, server=upstream.url, layer=replaces) as proxied:
        headers = {"Content-Type": "application/yaml", "Content-Encoding": "identity"}
        async with client.post(f"{proxied.url}/api/v1/x", data=b"a: 1", headers=headers) as answer:
            assert answer.status == 200
    assert upstream.last.body == b'{"a":1,"b":2}'
    assert upstream.last.all("Content-Type") == ["application/json"]
    assert upstream.last.all("Content-Length") == ["13"]
    assert upstream.last.all("Content-Encoding") == []
