"""Who may speak to the proxy: programs of this machine, not pages in its browsers."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
import pytest
from aiohttp import web

from runner.proxy.exchange import Exchange
from runner.proxy.hosts import is_loopback, refuse_foreign_hosts
from tests.unit.proxy.proxy_upstream import connected, serving, status_message


async def fine(_: Exchange) -> web.StreamResponse:
    """Answer."""
    return web.Response(text="fine")


@pytest.mark.parametrize(
    "authority",
    ["localhost", "LOCALHOST:8888", "localhost.:1", "127.0.0.1", "127.0.0.1:8888", "127.1.2.3", "[::1]", "[::1]:8888"],
)
def test_names_and_addresses_of_loopback(authority: str) -> None:
    """`localhost` and every loopback address name this machine, with a port or without."""
    assert is_loopback(authority)


@pytest.mark.parametrize(
    "authority",
    [
        "evil.example",
        "evil.example:8888",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example#localhost",
        "10.0.0.1",
        "0.0.0.0",  # noqa: S104 - a Host header
        "[::]",
        "[::ffff:10.0.0.1]:1",
        "",
        "null",
        "localhost:1:2",
        "2130706433",
    ],
)
def test_everything_else_is_foreign(authority: str) -> None:
    """Other names, tricks with names, and addresses that are not loopback are foreign."""
    assert not is_loopback(authority)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:8888"}, 200),
        ({"Host": "localhost", "Origin": "https://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": "http://localhost:8888"}, 200),
    ],
)
async def test_a_foreign_page_gets_403(headers: Mapping[str, str], status: int) -> None:
    """A Host or an Origin that is not this machine's is refused with a sentence that names it and the remedy."""
    async with (
        serving(refuse_foreign_hosts(fine)) as proxied,
        aiohttp.ClientSession() as client,
        client.post(f"{proxied.url}/api", headers=headers) as answer,
    ):
        assert answer.status == status
        if status == 403:
            message = status_message(await answer.read())
            assert "http://localhost" in message
            assert headers.get("Origin", headers["Host"]) in message


async def test_every_host_of_a_request_counts() -> None:
    """A second Host header can't hide a foreign one."""
    async with serving(refuse_foreign_hosts(fine)) as proxied, connected(proxied) as (reader, writer):
        writer.write(b"GET /api HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert (await reader.readuntil(b"\r\n"))[:12] in {b"HTTP/1.1 403", b"HTTP/1.1 400", b"HTTP/1.0 400"}
