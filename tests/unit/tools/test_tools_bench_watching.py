"""The benchmark's watch: what it waits for is told however often the stream ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from tools.bench.watching import collection
from tools.proxy_bench.target import Target, Way, opened

_KIND = Resource(gvk=GVK(group="bench.example.com", version="v1", kind="Thing"), plural="things", namespaced=True)


def _thing(*, size: int, version: str) -> dict[str, Any]:
    return {"metadata": {"name": "one", "resourceVersion": version}, "spec": {"size": size}}


class _Server:
    """Answers lists and watches one after the other from what a test says."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.streams: list[list[dict[str, Any]]] = []
        self.asked: list[str] = []
        self.over = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a list, or a watch: its events, and then its end; the last one stays open."""
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "10"}, "items": self.items})
        self.asked.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        events = self.streams.pop(0) if self.streams else None
        if events is None:
            await self.over.wait()
        for event in events or ():
            await response.write(json.dumps(event).encode() + b"\n")
        return response


@pytest.fixture
async def server() -> AsyncIterator[tuple[_Server, Way]]:
    """Give a server of things, and the way to it."""
    it, application = _Server(), web.Application()
    application.router.add_get("/{path:.*}", it.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with opened(Target(name="server", base=f"http://127.0.0.1:{port}")) as way:
            yield it, way
    finally:
        it.over.set()
        await runner.cleanup()


async def test_a_watch_that_ends_is_renewed_where_it_ended(server: tuple[_Server, Way]) -> None:
    """After the end of a stream the next one begins at the last version that was told."""
    it, way = server
    it.streams = [[{"type": "ADDED", "object": _thing(size=1, version="11")}], []]
    it.streams += [[{"type": "MODIFIED", "object": _thing(size=2, version="12")}]]
    async with collection(way, kind=_KIND, namespace="here") as objects:
        told = await asyncio.wait_for(objects.expect("one", test=lambda obj: obj["spec"]["size"] == 2), timeout=30)
    assert (told.obj["metadata"]["resourceVersion"], it.asked[:3]) == ("12", ["10", "11", "11"])


async def test_a_watch_that_is_too_old_begins_with_a_list(server: tuple[_Server, Way]) -> None:
    """Where the API server has forgotten a version, what was missed is told from a list."""
    it, way = server
    it.items = [_thing(size=3, version="9")]
    it.streams = [[{"type": "ERROR", "object": {"kind": "Status", "code": 410, "metadata": {}}}]]
    async with collection(way, kind=_KIND, namespace="here") as objects:
        told = await asyncio.wait_for(objects.expect("one", test=lambda obj: obj["spec"]["size"] == 3), timeout=30)
    assert told.obj["kind"] == "Thing"


async def test_a_server_that_is_not_there_is_told(server: tuple[_Server, Way]) -> None:
    """What keeps a watch from beginning is raised to who wants it."""
    _, way = server
    broken = Way(Target(name="nobody", base="http://127.0.0.1:1"), way._session)
    with pytest.raises(OSError, match="Cannot connect"):
        async with collection(broken, kind=_KIND, namespace="here"):
            pass
