"""The password of an HTTP proxy on the way to the API server is told nobody, whatever goes wrong and whoever asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from runner.errors import Call, OperatorError
from runner.kube.access import AccessSource
from runner.kube.client import KubeClient
from runner.proxy.forward import Forward
from runner.proxy.tunnel import Tunnel, Upgradeable
from runner.settings import KubeSettings
from runner.testing.kubeconfig import write_kubeconfig
from tests.unit.proxy.proxy_upstream import serving, status_message

SECRET = "hunter2"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


@contextlib.asynccontextmanager
async def _refusing() -> AsyncIterator[int]:
    """Serve an HTTP proxy that connects nobody."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _told(kubeconfig: Path, *, by: str) -> str:
    """Return what is told of a request that can't reach the API server."""
    settings = KubeSettings(kubeconfig=str(kubeconfig))
    if by == "client":
        async with KubeClient(settings=settings) as client:
            with pytest.raises(OperatorError) as caught:
                await client.request("GET", "/api", call=Call(verb="get"))
        return str(caught.value)
    access = AccessSource(settings=settings)
    forward = Forward(access=access)
    headers = UPGRADE if by == "tunnel" else {}
    async with (
        serving(Upgradeable(forward=forward, tunnel=Tunnel(access=access))) as proxied,
        aiohttp.ClientSession() as session,
        session.get(f"{proxied.url}/api", headers=headers) as answer,
    ):
        text = await answer.read()
        assert answer.status in {502, 503}, text
    await forward.close()
    assert SECRET not in str(proxied.records)
    return status_message(text)


@pytest.mark.parametrize("by", ["forward", "tunnel", "client"])
@pytest.mark.parametrize(
    ("proxy", "names"),
    [
        (f"http://me:{SECRET}@127.0.0.1:{{port}}", "the proxy http://127.0.0.1:{port} answered 407 Who are you"),
        (f"http://me:{SECRET}@127.0.0.1:1", "127.0.0.1"),
        (f"http://me:{SECRET}@", ""),
        (f"http://me:{SECRET}@127.0.0.1:port", ""),
        (f"http://me:{SECRET}/x@127.0.0.1:1", ""),
        (f"http://me:x@{SECRET}@127.0.0.1:1", ""),
    ],
    ids=["refuses", "is away", "no host", "no port", "with a slash", "with an at sign"],
)
async def test_what_is_told_of_a_proxy_has_no_password(tmp_path: Path, by: str, proxy: str, names: str) -> None:
    """Client, forward and tunnel name the proxy's origin and what it answered at most."""
    path = write_kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1", insecure=True)
    async with _refusing() as port:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        document["clusters"][0]["cluster"]["proxy-url"] = proxy.format(port=port)
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        told = await _told(path, by=by)
    assert SECRET not in told
    assert names.format(port=port) in told


@pytest.mark.parametrize("by", ["forward", "tunnel", "client"])
async def test_a_password_in_the_server_s_url_is_not_told_either(tmp_path: Path, by: str) -> None:
    """A server that is away is named without what stands before its host."""
    path = write_kubeconfig(tmp_path / "kubeconfig", server=f"https://me:{SECRET}@127.0.0.1:1", insecure=True)
    assert SECRET not in await _told(path, by=by)
