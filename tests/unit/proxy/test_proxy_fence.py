"""The fence: what an instance that lost its lease may still do."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from runner.proxy.exchange import Exchange
from runner.proxy.fence import Fence
from tests.unit.proxy.proxy_upstream import serving, status_message

UPGRADE = {"Connection": "keep-alive, Upgrade", "Upgrade": "SPDY/3.1"}


async def fine(_: Exchange) -> web.StreamResponse:
    """Answer."""
    return web.Response(text="fine")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 200),
        ("HEAD", {}, 200),
        ("OPTIONS", {}, 200),
        ("GET", {"Upgrade": "SPDY/3.1"}, 200),
        ("GET", UPGRADE, 403),
        ("GET", {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMA"}, 200),
        ("GET", {"Connection": "Upgrade", "Upgrade": "h2c, websocket"}, 403),
        ("POST", {}, 403),
        ("PUT", {}, 403),
        ("PATCH", {}, 403),
        ("DELETE", {}, 403),
        ("TRACE", {}, 403),
    ],
)
async def test_an_instance_that_does_not_lead_writes_nothing(method: str, headers: dict[str, str], status: int) -> None:
    """Reads go on; every other method, and an upgrade whatever its method, is refused."""
    fence = Fence(fenced=lambda: True)
    async with (
        serving(fence(fine)) as proxied,
        aiohttp.ClientSession() as client,
        client.request(method, f"{proxied.url}/api/v1/namespaces/n/pods/p", headers=headers) as answer,
    ):
        assert answer.status == status
        if status == 403:
            assert "does not lead any more" in status_message(await answer.read())


async def test_the_leader_writes() -> None:
    """While the instance leads everything passes."""
    leads = Fence(fenced=lambda: False)
    async with (
        serving(leads(fine)) as proxied,
        aiohttp.ClientSession() as client,
        client.delete(f"{proxied.url}/api/v1/pods", headers=UPGRADE) as answer,
    ):
        assert answer.status == 200


async def test_the_sentence_names_what_was_not_done() -> None:
    """The refusal says which write was not sent, subresource included, and who goes on."""
    fence = Fence(fenced=lambda: True)
    async with (
        serving(fence(fine)) as proxied,
        aiohttp.ClientSession() as client,
        client.patch(f"{proxied.url}/apis/apps/v1/namespaces/n/deployments/web/scale") as answer,
    ):
        message = status_message(await answer.read())
    assert "so its patch deployments/scale web was not sent" in message
    assert "the instance that leads now runs the reconcile again" in message
