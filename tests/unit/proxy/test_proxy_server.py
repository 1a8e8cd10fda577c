"""The proxy's server: where it listens, what it makes of errors, how it ends."""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from runner.errors import Call, ConfigError, Conflict, ConnectionFailed, LeaderElectionLost
from runner.kube.objects import GVK
from runner.logs import BUGS, Logger
from runner.proxy.exchange import Caller as Run
from runner.proxy.exchange import Exchange, Owner
from runner.proxy.refusals import refusal
from runner.proxy.server import MOST_READ, ProxyServer
from runner.testing.waiting import eventually
from tests.unit.proxy.proxy_upstream import Received, Upstream, connected, forwarding, reply, serving, status_message

CALL = Call(verb="get", resource="pods")


async def fine(_: Exchange) -> web.StreamResponse:
    """Answer."""
    return web.Response(text="fine")


async def test_it_listens_on_loopback_alone() -> None:
    """The server is reached at 127.0.0.1 and at no other address."""
    async with serving(fine) as proxied:
        sites = socket.create_connection(("127.0.0.1", proxied.server.port))
        sites.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", proxied.server.port))


async def test_a_taken_port_names_the_flag() -> None:
    """A port that another program has is an error that names the port, the flag and the remedy."""
    async with serving(fine) as first:
        port = first.server.port
        second = ProxyServer(handler=fine, port=port, logger=Logger())
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}: .*in use; give a free port with --proxy-port"):
            await second.start()
        await second.stop()


async def test_a_stopped_server_starts_again() -> None:
    """Stopping gives the port back, and stopping twice does no harm."""
    async with serving(fine) as first:
        port = first.server.port
        await first.server.stop()
        again = ProxyServer(handler=fine, port=port, logger=Logger())
        await again.start()
        await again.stop()


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (Conflict("changed", call=CALL, status=409), 409, "get pods: changed"),
        (ConnectionFailed("refused", call=CALL), 503, "the API server did not answer: get pods: refused"),
        (ConfigError("no kubeconfig"), 503, "no kubeconfig"),
        (LeaderElectionLost(), 403, "does not lead any more"),
    ],
)
async def test_an_error_of_ours_is_a_status(error: Exception, status: int, sentence: str) -> None:
    """What a layer raises of our own errors becomes a `Status` with the error's sentence, and no line of the log."""

    async def fails(_: Exchange) -> web.StreamResponse:
        raise error

    async with serving(fails) as proxied, aiohttp.ClientSession() as client, client.get(f"{proxied.url}/api") as answer:
        assert answer.status == status
        assert sentence in status_message(await answer.read())
    assert [record["level"] for record in proxied.records] == ["debug"]


async def test_a_bug_is_answered_and_logged_once() -> None:
    """A handler's bug becomes 500 without its text, and one line of the log; the connection serves on."""

    async def fails(exchange: Exchange) -> web.StreamResponse:
        if exchange.info.path == "/bug":
            raise LookupError("secret")
        return await fine(exchange)

    async with serving(fails) as proxied, aiohttp.ClientSession() as client:
        async with client.get(f"{proxied.url}/bug") as answer:
            assert answer.status == 500
            assert "secret" not in status_message(await answer.read())
        async with client.get(f"{proxied.url}/fine") as answer:
            assert answer.status == 200
    errors = [record for record in proxied.records if record["level"] == "error"]
    assert [(error["msg"], error["path"]) for error in errors] == [("The proxy failed on a request", "/bug")]
    assert isinstance(errors[0]["error"], LookupError) or "secret" in str(errors[0]["error"])


async def test_a_bugs_line_has_the_traceback() -> None:
    """With the stack level of bugs, the log line of a handler's bug carries the traceback of the handler."""

    async def fails(_: Exchange) -> web.StreamResponse:
        raise LookupError("here")

    records: list[dict[str, str]] = []
    logger = Logger(sink=lambda record: records.append(dict(record)), stacktrace_level=BUGS)
    server = ProxyServer(handler=fails, port=0, logger=logger)
    await server.start()
    try:
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{server.port}/x"):
            pass
    finally:
        await server.stop()
    assert ".fails\n" in records[0]["stacktrace"]


async def test_a_bug_in_mid_answer_cuts_the_answer() -> None:
    """A bug after the answer began closes the connection, so that the answer does not look complete."""

    async def fails(exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(exchange.request)
        await response.write(b"abc")
        raise LookupError

    async with serving(fails) as proxied, aiohttp.ClientSession() as client, client.get(f"{proxied.url}/x") as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_body_that_must_be_read_has_a_limit() -> None:
    """A body that a layer reads whole is refused with 413 and a sentence where it is longer than four MiB."""

    async def reads(exchange: Exchange) -> web.StreamResponse:
        return web.Response(text=str(len(await exchange.read())))

    async with serving(reads) as proxied, aiohttp.ClientSession() as client:
        async with client.post(f"{proxied.url}/x", data=io.BytesIO(b"x" * MOST_READ)) as answer:
            assert await answer.text() == str(MOST_READ)
        async with client.post(f"{proxied.url}/x", data=io.BytesIO(b"x" * (MOST_READ + 1))) as answer:
            assert answer.status == 413
            assert "4 MiB" in status_message(await answer.read())


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (b"GET http://localhost/api HTTP/1.1\r\nHost: localhost\r\n\r\n", "serves paths"),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "serves paths"),
        (b"POST /api/v1/pods#/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "percent-encoded"),
        (b"GET /api HTTP/1.1\r\nHost: localhost\r\nX-A: \xff\r\n\r\n", "not UTF-8"),
        *[
            (f"GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: {names}\r\n\r\n".encode(), f"names {name}, which")
            for names, name in [
                ("Impersonate-User", "impersonate-user"),
                ("keep-alive,\tIMPERSONATE-EXTRA-a ,x", "impersonate-extra-a"),
                ("close\r\nConnection: impersonate-uid", "impersonate-uid"),
                ("Upgrade, Sec-WebSocket-Protocol", "sec-websocket-protocol"),
                ("content-type", "content-type"),
                ("Content-Length", "content-length"),
                ("content-encoding", "content-encoding"),
                ("accept", "accept"),
                ("authorization", "authorization"),
                ("host", "host"),
            ]
        ],
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(head: bytes, sentence: str) -> None:
    """A target or a header that can't be passed on exactly as it is gets 400 and a sentence."""
    async with serving(fine) as proxied, connected(proxied) as (reader, writer):
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        length = int(answer.lower().partition(b"content-length:")[2].split()[0])
        assert sentence in status_message(await reader.readexactly(length))


@pytest.mark.parametrize(("expect", "status"), [("foo", 417), ("100-Continue", 100), ("100-continue, x", 417)])
async def test_an_expectation_that_nobody_knows_is_refused(expect: str, status: int) -> None:
    """As the API server itself does it, where a client would wait for what never comes."""
    async with serving(fine) as proxied, connected(proxied) as (reader, writer):
        writer.write(f"GET /api HTTP/1.1\r\nHost: localhost\r\nExpect: {expect}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n")).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("head", ["/api?{}", "/api HTTP/1.1\r\nX-A: {}"])
async def test_a_head_may_be_as_long_as_with_the_api_server(head: str) -> None:
    """A URL or a header of nearly a MiB is passed on; a longer one gets an answer too."""
    for length, status in ((1_000_000, b"200"), (1_100_000, b"400")):
        async with serving(fine) as proxied, connected(proxied) as (reader, writer):
            first, _, rest = head.format("a" * length).partition(" HTTP/1.1")
            writer.write(f"GET {first} HTTP/1.1{rest}\r\nHost: localhost\r\n\r\n".encode())
            assert (await reader.readuntil(b"\r\n")).split()[1] == status


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01 hello\r\n\r\n", "GET /é HTTP/1.1\r\n\r\n".encode()])
async def test_garbage_costs_no_line(caplog: pytest.LogCaptureFixture, garbage: bytes) -> None:
    """What is no HTTP gets an answer of 400, and a line for developers alone."""
    caplog.set_level(logging.DEBUG)
    async with serving(fine) as proxied, connected(proxied) as (reader, writer):
        writer.write(garbage)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.0 400 ")
    assert proxied.records == []
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


async def test_one_line_per_request_without_the_query() -> None:
    """The debug line has method, path, status, seconds and run, but nothing of the query."""
    gvk = GVK(group="g", version="v1", kind="K")

    async def known(exchange: Exchange) -> web.StreamResponse:
        exchange.caller = Run(owner=Owner(gvk=gvk, name="n", uid="u"), run="77")
        return refusal(message="no")

    async with (
        serving(known) as proxied,
        aiohttp.ClientSession() as client,
        client.get(f"{proxied.url}/api/v1/pods?token=secret"),
    ):
        pass
    [record] = proxied.records
    assert record.pop("seconds") >= 0
    assert "ts" in record
    assert record.pop("ts")
    assert record == {
        "level": "debug",
        "logger": "proxy",
        "msg": "Proxied a request",
        "method": "GET",
        "path": "/api/v1/pods",
        "status": 403,
        "run": "77",
    }


async def test_many_watches_and_requests_at_once(tmp_path: Path) -> None:
    """Fifty open watches and requests side by side don't wait for each other."""
    async with Upstream() as upstream, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        upstream.answer = watch_or_reply
        async with forwarding(tmp_path, server=upstream.url) as proxied:
            watches = [await client.get(f"{proxied.url}/api/v1/pods?watch=1") for _ in range(50)]

            async def status() -> int:
                async with client.get(f"{proxied.url}/api") as answer:
                    return answer.status

            assert await asyncio.gather(*(status() for _ in range(50))) == [200] * 50
            for watch in watches:
                assert not watch.content.at_eof()
                watch.close()


async def watch_or_reply(received: Received, writer: asyncio.StreamWriter) -> None:
    """Hold a watch open, answer everything else."""
    if "watch" not in received.target:
        await reply()(received, writer)
        return
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    await received.reader.read()


@pytest.mark.parametrize("target", ["/api/v1/pods?watch=1", "/api/v1/namespaces/n/pods/p/log?follow=1"])
async def test_the_end_closes_what_streams(tmp_path: Path, target: str) -> None:
    """Stopping cuts open watches and logs at once, on both sides, and leaves no task."""
    ended = asyncio.Event()

    async def stream(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        assert await received.reader.read() == b""
        ended.set()

    before = asyncio.all_tasks()
    async with Upstream() as upstream, aiohttp.ClientSession() as client:
        upstream.answer = stream
        async with forwarding(tmp_path, server=upstream.url, grace=3600) as proxied:
            answer = await client.get(f"{proxied.url}{target}")
            assert await answer.content.readexactly(2) == b"{}"
            await proxied.server.stop()
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()
            answer.close()
            async with asyncio.timeout(60):
                await ended.wait()
    await eventually(lambda: asyncio.all_tasks() == before)


async def stopping(*, grace: float, lets_go: Callable[[asyncio.Event], None]) -> int | None:
    """Stop a server in the middle of a write, *lets_go* of the write then; return its status, None if it was cut."""
    entered, goes = asyncio.Event(), asyncio.Event()

    async def write(exchange: Exchange) -> web.StreamResponse:
        entered.set()
        await goes.wait()
        return await fine(exchange)

    async with serving(write, grace=grace) as proxied, aiohttp.ClientSession() as client:
        request = asyncio.create_task(client.post(f"{proxied.url}/api/v1/pods", data=b"{}"))
        await entered.wait()
        stop = asyncio.create_task(proxied.server.stop())
        lets_go(goes)
        try:
            return (await request).status
        except aiohttp.ServerDisconnectedError:
            return None
        finally:
            await stop


async def test_the_end_waits_for_a_write() -> None:
    """A write that is under way when the server stops gets its answer."""
    assert await stopping(grace=3600, lets_go=lambda event: event.set()) == 200


async def test_the_end_does_not_wait_for_ever() -> None:
    """A write that hangs is cut after the grace."""
    assert await stopping(grace=0.01, lets_go=lambda _: None) is None
