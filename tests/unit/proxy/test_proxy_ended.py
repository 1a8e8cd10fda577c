"""What is under way for a run ends with the run, and what nobody in particular writes ends with the leadership."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from runner.kube.access import AccessSource
from runner.kube.objects import GVK
from runner.proxy.exchange import Exchange, Handler, Owner
from runner.proxy.fence import Fence
from runner.proxy.forward import Forward
from runner.proxy.identify import identify
from runner.proxy.kubeconfig import username_of
from runner.proxy.runs import LEADERSHIP_LOST, Runs
from runner.proxy.tunnel import Tunnel, Upgradeable
from runner.settings import KubeSettings
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.waiting import eventually
from tests.unit.proxy.proxy_upstream import Proxied, Received, Upstream, connected, reply, serving, status_message

WEB = Owner(gvk=GVK("apps.example.com", "v1", "Web"), namespace="shop", name="front", uid="8d7f0f0c")
OTHER = Owner(gvk=WEB.gvk, namespace="shop", name="back", uid="11111111")
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"
EXEC = b"POST /api/v1/namespaces/n/pods/p/exec HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\n"
WATCH = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /api/v1/namespaces/n/pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"


@dataclass(kw_only=True)
class World:
    """A proxy, the runs that it knows, and an API server that leaves everything open."""

    proxied: Proxied
    runs: Runs
    upstream: Upstream
    gone: list[str] = field(default_factory=list)
    """The targets whose connections have ended at the API server's side."""

    async def stay_open(self, received: Received, writer: asyncio.StreamWriter) -> None:
        """Begin an answer where it is one that goes on, and wait for the end of the connection."""
        upgrades = bool(received.all("Upgrade"))
        if upgrades or "watch" in received.target:
            writer.write(SWITCHING if upgrades else CHUNKED)
        with contextlib.suppress(ConnectionError):
            await received.reader.read()
        self.gone.append(received.target)

    @contextlib.asynccontextmanager
    async def asked(self, head: bytes, *, secret: str = "", owner: Owner = WEB) -> AsyncIterator[asyncio.StreamReader]:
        """Send a request of the run with *secret*, or of nobody in particular."""
        who = f"Authorization: {aiohttp.encode_basic_auth(username_of(owner), secret)}\r\n" if secret else ""
        async with connected(self.proxied) as (reader, writer):
            writer.write(head + who.encode() + (b"\r\n{}" if head is POST else b"\r\n"))
            async with asyncio.timeout(60):
                yield reader

    async def arrived(self, number: int = 1) -> None:
        """Wait until so many requests are at the API server."""
        await eventually(lambda: len(self.upstream.requests) == number)


@contextlib.asynccontextmanager
async def world_with(
    upstream: Upstream, folder: Path, *, layer: Callable[[Handler], Handler] = lambda handler: handler
) -> AsyncIterator[World]:
    """Run a proxy that identifies, has *layer*, and sends on."""
    kubeconfig = write_kubeconfig(folder / "kubeconfig", server=upstream.url, user={"token": "operators-token"})
    access, runs, fence = AccessSource(settings=KubeSettings(kubeconfig=str(kubeconfig))), Runs(), Fence(fenced=bool)
    forward = Forward(access=access, fence=fence)
    pick = Upgradeable(forward=forward, tunnel=Tunnel(access=access, fence=fence))
    try:
        async with serving(identify(runs=runs, count=lambda **_: None)(layer(pick))) as proxied:
            world = World(proxied=proxied, runs=runs, upstream=upstream)
            upstream.answer = world.stay_open
            yield world
    finally:
        await forward.close()


@pytest.fixture
async def world(upstream: Upstream, tmp_path: Path) -> AsyncIterator[World]:
    """Give a proxy without further layers."""
    async with world_with(upstream, tmp_path) as world:
        yield world


async def _end_of(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        return await reader.read()
    return b""


async def _message(reader: asyncio.StreamReader) -> str:
    """Return the sentence of a 403."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 ")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return status_message(await reader.readexactly(length))


def _superseded(runs: Runs, own: contextlib.ExitStack) -> None:
    del own  # goes on, as a run that was superseded may
    with runs.open(owner=WEB, run="8"):
        pass


ENDS = pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda _runs, own: own.close(), "the run 7 is over"),
        (_superseded, "the run 7 was superseded"),
        (lambda runs, _own: runs.close_all(LEADERSHIP_LOST), LEADERSHIP_LOST),
    ],
    ids=["ended", "superseded", "leadership lost"],
)
End = Callable[[Runs, contextlib.ExitStack], None]


@ENDS
@pytest.mark.parametrize("head", [EXEC, WATCH], ids=["exec", "watch"])
async def test_what_streams_for_a_run_ends_with_it(world: World, end: End, told: str, head: bytes) -> None:
    """A shell in a Pod and a watch are cut off at both ends, whoever holds them, and the answer looks incomplete."""
    with contextlib.ExitStack() as own:
        secret = own.enter_context(world.runs.open(owner=WEB, run="7"))
        async with world.asked(head, secret=secret) as reader:
            await reader.readuntil(b"\r\n\r\n")
            end(world.runs, own)
            assert await _end_of(reader) == b"", told
    await eventually(lambda: len(world.gone) == 1)


@ENDS
async def test_a_write_that_waits_for_the_api_server_s_answer_is_told(world: World, end: End, told: str) -> None:
    """The connection to the API server is closed, and the client gets 403 with the end's own sentence."""
    with contextlib.ExitStack() as own:
        secret = own.enter_context(world.runs.open(owner=WEB, run="7"))
        async with world.asked(POST, secret=secret) as reader:
            await world.arrived()
            end(world.runs, own)
            message = await _message(reader)
    assert message.startswith(told)
    assert "may have been done or not" in message
    await eventually(lambda: len(world.gone) == 1)


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("head", [EXEC, POST], ids=["exec", "write"])
@ENDS
async def test_what_waits_in_a_layer_is_not_sent(
    upstream: Upstream,
    tmp_path: Path,
    end: End,
    told: str,
    head: bytes,
    stubborn: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A write that waits for a watch when its run ends gets 403; so does one that a layer passes on nonetheless."""
    waits, never = asyncio.Event(), asyncio.Event()

    def layer(handler: Handler) -> Handler:
        async def handle(exchange: Exchange) -> web.StreamResponse:
            waits.set()
            try:
                await never.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise
            return await handler(exchange)

        return handle

    async with world_with(upstream, tmp_path, layer=layer) as world:
        with contextlib.ExitStack() as own:
            secret = own.enter_context(world.runs.open(owner=WEB, run="7"))
            async with world.asked(head, secret=secret) as reader:
                await waits.wait()
                end(world.runs, own)
                assert (await _message(reader)).startswith(told)
    assert upstream.requests == []


async def test_other_runs_go_on(world: World) -> None:
    """The end of a run touches neither another run's watch nor one of nobody in particular."""
    with contextlib.ExitStack() as own, world.runs.open(owner=OTHER, run="8") as other:
        secret = own.enter_context(world.runs.open(owner=WEB, run="7"))
        async with (
            world.asked(WATCH, secret=secret) as ended,
            world.asked(WATCH, secret=other, owner=OTHER) as second,
            world.asked(EXEC) as third,
        ):
            for reader in (ended, second, third):
                await reader.readuntil(b"\r\n\r\n")
            own.close()
            assert await _end_of(ended) == b""
            await eventually(lambda: len(world.gone) == 1)
            assert not second.at_eof()
            assert not third.at_eof()


async def test_lost_leadership_ends_what_nobody_in_particular_writes(world: World) -> None:
    """A tunnel and a write that are under way are ended; a watch goes on, as reads may."""
    async with world.asked(WATCH) as watch, world.asked(EXEC) as tunnel, world.asked(POST) as write:
        for reader in (watch, tunnel):
            await reader.readuntil(b"\r\n\r\n")
        await world.arrived(3)
        world.runs.close_all(LEADERSHIP_LOST)
        assert (await _message(write)).startswith(LEADERSHIP_LOST)
        assert await _end_of(tunnel) == b""
        await eventually(lambda: len(world.gone) == 2)
        assert not watch.at_eof()


async def test_a_client_that_has_its_answer_does_not_notice_the_end(world: World) -> None:
    """Requests that are answered before the run ends are whole, and the connection serves who comes next."""
    world.upstream.answer = reply(b'{"fine": true}')
    async with aiohttp.ClientSession() as client:
        for number in range(20):
            with world.runs.open(owner=WEB, run=str(number)) as secret:
                assert await _sent(client, f"{world.proxied.url}/api", secret=secret) == (200, {"fine": True})


async def _sent(client: aiohttp.ClientSession, url: str, *, secret: str) -> tuple[int, object]:
    header = {"Authorization": aiohttp.encode_basic_auth(username_of(WEB), secret)}
    async with client.post(url, data=b"{}", headers=header) as answer:
        return answer.status, await answer.json()
