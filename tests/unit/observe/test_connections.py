"""What strangers may cost an HTTP server of ours: connections without a request, and requests that are none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest

from runner.logs import Logger, RecordingSink, records_of_libraries
from runner.observe.connections import MOST_CONNECTIONS
from runner.observe.metrics import Metrics
from runner.observe.user_metrics_server import UserMetricsServer
from runner.testing.waiting import eventually

HEAD = b"POST /metrics HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def connected(port: int | None) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Hold one bare connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def serving(sink: RecordingSink) -> UserMetricsServer:
    """Return the server that takes bodies."""
    return UserMetricsServer(address=("127.0.0.1", 0), handle=Metrics().user.handle, logger=Logger(sink=sink))


async def test_idle_connections_are_bounded_and_keep_nobody_out() -> None:
    """The oldest connection that asks nothing is closed for a new one, which is answered."""
    server = serving(RecordingSink())
    await server.start()
    async with contextlib.AsyncExitStack() as stack:
        first, _ = await stack.enter_async_context(connected(server.port))
        for _ in range(MOST_CONNECTIONS):
            await stack.enter_async_context(connected(server.port))
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{server.port}/metrics") as answer:
                assert answer.status == 405
            assert await first.read() == b""
    await server.stop()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", b"400"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello", b"400"),
        (b"GARBAGE\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 2000000\r\n\r\n" + b"1" * 2_000_000, b"413"),
        (HEAD + b"Content-Length: 500\r\n\r\nhello", None),
    ],
    ids=["no-gzip", "no-chunk", "no-http", "too-large", "unfinished"],
)
async def test_a_broken_request_is_the_clients_fault(request_: bytes, status: bytes | None) -> None:
    """It is answered with 4xx where it can be, and is no warning or error of the operator, nor a traceback."""
    sink = RecordingSink()
    server = serving(sink)
    with records_of_libraries(Logger(sink=sink, level="debug")):
        await server.start()
        async with connected(server.port) as (reader, writer):
            writer.write(request_)
            if status is not None:
                assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == status
        if status is None:
            await eventually(lambda: any("Error handling" in text for text in sink.sentences()))
        await server.stop()
    assert not [record for record in sink.records if record["level"] not in {"info", "debug"}]


def test_errors_of_ours_stay_errors() -> None:
    """Only what a client did wrong is for a developer."""
    sink = RecordingSink()
    with records_of_libraries(Logger(sink=sink)):
        logging.getLogger("aiohttp.server.ours").error("bug", exc_info=KeyError("x"))
    assert [(record["level"], record["error"]) for record in sink.records] == [("error", "'x'")]
