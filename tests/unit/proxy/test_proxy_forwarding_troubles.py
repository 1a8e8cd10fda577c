"""Forwarding with troubles of credentials, API server, client and lease; and answers that are watched."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from runner.proxy.exchange import Exchange, Handler, Layer
from runner.proxy.fence import Fence
from runner.testing.waiting import eventually
from tests.unit.proxy.proxy_upstream import Answer, Received, Upstream, connected, forwarding, reply, status_message

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def accepting(token: str) -> Answer:
    """Return an answer that is 401 but for *token*."""

    async def answer(received: Received, writer: asyncio.StreamWriter) -> None:
        right = received.all("Authorization") == [f"Bearer {token}"]
        await (reply() if right else reply(status="401 Unauthorized"))(received, writer)

    return answer


@pytest.mark.parametrize("body", [None, b"", b'{"a":1}'])
async def test_a_refused_token_is_read_again(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path, body: bytes | None
) -> None:
    """After a 401 the token file is read again and the request is sent once more, with its body."""
    token = tmp_path / "token"
    token.write_text("old\n", encoding="utf-8")
    upstream.answer = accepting("old")
    async with forwarding(tmp_path, server=upstream.url, user={"tokenFile": str(token)}) as proxied:
        async with client.get(f"{proxied.url}/api") as answer:
            assert answer.status == 200
        upstream.answer = accepting("new")
        token.write_text("new\n", encoding="utf-8")
        async with client.post(f"{proxied.url}/api", data=body) as answer:
            assert answer.status == 200
    assert [request.body for request in upstream.requests[1:]] == [body or b""] * 2


async def test_a_streamed_body_is_not_sent_again_without_its_bytes(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A body that was streamed is gone after a 401: the client gets the 401, and its next request the new token."""
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")
    upstream.answer = accepting("new")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{}"

    async with forwarding(tmp_path, server=upstream.url, user={"tokenFile": str(token)}) as proxied:
        async with client.get(f"{proxied.url}/api") as answer:
            assert answer.status == 401
        upstream.requests.clear()
        token.write_text("new", encoding="utf-8")
        for expected in (401, 200):
            async with client.post(f"{proxied.url}/api", data=pieces()) as answer:
                assert answer.status == expected
    assert [request.body for request in upstream.requests] == [b"{}", b"{}"]


async def test_many_refused_requests_share_the_new_token(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Requests that are refused together all succeed with the token that was read again."""
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")
    async with forwarding(tmp_path, server=upstream.url, user={"tokenFile": str(token)}) as proxied:

        async def status() -> int:
            async with client.get(f"{proxied.url}/api") as answer:
                return answer.status

        assert await status() == 200
        upstream.answer = accepting("new")
        token.write_text("new", encoding="utf-8")
        assert await asyncio.gather(*(status() for _ in range(20))) == [200] * 20


async def test_a_lasting_refusal_comes_back(upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """Where the new credentials are refused too the client gets the 401, after two tries."""
    upstream.answer = reply(b"no", status="401 Unauthorized")
    async with forwarding(tmp_path, server=upstream.url) as proxied, client.get(f"{proxied.url}/api") as answer:
        assert (answer.status, await answer.read()) == (401, b"no")
    assert len(upstream.requests) == 2


async def test_an_unreachable_server_is_named(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """Where the API server refuses connections the client gets 503 with a sentence that says nothing was sent."""
    async with Upstream() as gone:
        url = gone.url
    async with forwarding(tmp_path, server=url) as proxied, client.get(f"{proxied.url}/api") as answer:
        assert answer.status == 503
        message = status_message(await answer.read())
    assert "can't be reached, so nothing was sent" in message
    assert url.removeprefix("http://") in message


async def test_broken_credentials_are_named(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """Where the operator's kubeconfig can't be used the client gets 503 with the reason."""
    user = {"tokenFile": str(tmp_path / "missing")}
    async with (
        forwarding(tmp_path, server="http://127.0.0.1:1", user=user) as proxied,
        client.get(f"{proxied.url}/api") as answer,
    ):
        assert answer.status == 503
        assert "missing" in status_message(await answer.read())


async def test_a_server_that_hangs_up_without_an_answer_gives_502(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A write whose connection broke before the answer came is answered with 502: it may have been done."""

    async def hang_up(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.close()

    upstream.answer = hang_up
    async with (
        forwarding(tmp_path, server=upstream.url) as proxied,
        client.post(f"{proxied.url}/api", data=b"{}") as answer,
    ):
        assert answer.status == 502
        assert "may have been done or not" in status_message(await answer.read())
    assert len(upstream.requests) == 1


async def test_an_answer_that_is_cut_does_not_look_complete(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """When the API server dies in the middle of an answer the client sees a broken one, not a short one."""

    async def cut(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await writer.drain()
        writer.close()

    upstream.answer = cut
    async with forwarding(tmp_path, server=upstream.url) as proxied, client.get(f"{proxied.url}/api") as answer:
        assert await answer.content.readexactly(3) == b"abc"
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()


@pytest.mark.parametrize(
    "offer",
    [b"", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"],
    ids=["plain", "h2c"],
)
async def test_a_client_that_leaves_ends_the_request(upstream: Upstream, tmp_path: Path, offer: bytes) -> None:
    """When the client of a watch hangs up, the connection to the API server is closed at once, by nobody's write."""
    ended = asyncio.Event()

    async def watch(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        assert await received.reader.read() == b""
        ended.set()

    upstream.answer = watch
    async with forwarding(tmp_path, server=upstream.url) as proxied:
        async with connected(proxied) as (reader, writer):
            writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: localhost\r\n" + offer + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(60):
            await ended.wait()


async def test_a_client_that_leaves_in_mid_upload_ends_the_request(upstream: Upstream, tmp_path: Path) -> None:
    """An upload that the client broke off does not arrive as a complete one."""
    ends = asyncio.Queue[bool]()
    upstream.reads_bodies = False

    async def take(received: Received, _: asyncio.StreamWriter) -> None:
        rest = await received.reader.read()
        ends.put_nowait(rest.endswith(b"0\r\n\r\n"))

    upstream.answer = take
    async with forwarding(tmp_path, server=upstream.url) as proxied:
        async with connected(proxied) as (_, writer):
            writer.write(b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            await eventually(lambda: upstream.requests)
        async with asyncio.timeout(60):
            assert await ends.get() is False


async def test_the_lease_is_looked_at_last(upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """A write is refused when leadership was lost after all layers had passed it; a read goes through."""
    lost = False

    def loses(handler: Handler) -> Handler:
        async def handle(exchange: Exchange) -> web.StreamResponse:
            nonlocal lost
            lost = True
            return await handler(exchange)

        return handle

    fence = Fence(fenced=lambda: lost)

    def layers(handler: Handler) -> Handler:
        return fence(loses(handler))

    async with forwarding(tmp_path, server=upstream.url, fence=fence, layer=layers) as proxied:
        async with client.put(f"{proxied.url}/api/v1/namespaces/n/pods/p", data=b"{}") as answer:
            assert answer.status == 403
            assert "its update pods p was not sent" in status_message(await answer.read())
        async with client.get(f"{proxied.url}/api/v1/namespaces/n/pods/p") as answer:
            assert answer.status == 200
    assert [request.method for request in upstream.requests] == ["GET"]


async def test_requests_are_counted_as_the_clients_are(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """Each request to the API server is told with method, status and host; one without an answer as `<error>`."""
    counted: list[tuple[str, str, str]] = []

    def observe(method: str, *, code: str, host: str) -> None:
        counted.append((method, code, host))

    async with Upstream() as upstream:
        upstream.answer = reply(status="404 Not Found")
        async with forwarding(tmp_path, server=upstream.url, observe=observe) as proxied:
            async with client.get(f"{proxied.url}/api"):
                pass
            await upstream.__aexit__()
            async with client.post(f"{proxied.url}/api"):
                pass
    host = f"127.0.0.1:{upstream.port}"
    assert counted == [("GET", "404", host), ("POST", "<error>", host)]


Seen = list[tuple[int, bytes]]


def watching(seen: Seen) -> Layer:
    """Return a layer that watches each answer."""

    def note(status: int, _: Mapping[str, str], body: bytes) -> None:
        seen.append((status, body))

    def layer(handler: Handler) -> Handler:
        async def handle(exchange: Exchange) -> web.StreamResponse:
            exchange.answer_watchers.append(note)
            return await handler(exchange)

        return handle

    return layer


async def test_a_watched_answer_is_seen_before_the_client_has_it(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A watcher of the answer gets status and whole body, uncompressed, before the client gets the same."""
    seen: Seen = []

    async def slowly(received: Received, writer: asyncio.StreamWriter) -> None:
        assert received.all("Accept-Encoding") == ["identity"]
        writer.write(CHUNKED + b"2\r\n{}\r\n1\r\n\n\r\n0\r\n\r\n")

    upstream.answer = slowly
    async with (
        forwarding(tmp_path, server=upstream.url, layer=watching(seen)) as proxied,
        client.post(f"{proxied.url}/api", data=b"{}", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert seen == [(200, b"{}\n")]
        assert await answer.read() == b"{}\n"


async def test_a_watched_answer_that_is_too_large_is_streamed(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """An answer of more than eight MiB reaches the client whole, and its watcher without the body."""
    seen: Seen = []
    body = b"x" * (9 * 1024 * 1024)
    upstream.answer = reply(body)
    async with (
        forwarding(tmp_path, server=upstream.url, layer=watching(seen)) as proxied,
        client.get(f"{proxied.url}/api") as answer,
    ):
        assert await answer.read() == body
    assert seen == [(200, b"")]


async def test_a_watched_answer_that_is_encoded_nonetheless_has_no_body_to_see(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A watcher never takes compressed bytes for an object; the client gets them."""
    seen: Seen = []
    packed = gzip.compress(b"{}")
    upstream.answer = reply(packed, headers=("Content-Encoding: gzip",))
    async with (
        forwarding(tmp_path, server=upstream.url, layer=watching(seen)) as proxied,
        client.get(f"{proxied.url}/api") as answer,
    ):
        assert await answer.read() == packed
    assert seen == [(200, b"")]


async def test_a_watched_answer_that_breaks_gives_502(
    upstream: Upstream, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """An answer that ends too early is not shown to its watcher, and the client is told."""
    seen: Seen = []

    async def cut(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await writer.drain()
        writer.close()

    upstream.answer = cut
    async with (
        forwarding(tmp_path, server=upstream.url, layer=watching(seen)) as proxied,
        client.post(f"{proxied.url}/api", data=b"{}") as answer,
    ):
        assert answer.status == 502
    assert seen == []
