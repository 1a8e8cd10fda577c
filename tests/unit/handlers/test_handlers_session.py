"""kopf's way to the API server: what its answers say of the indexes, and which requests are sent no more."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import kopf
import pytest
from aiohttp import web

from runner.handlers.kopf_internals import Insights
from runner.handlers.session import Connection, IndexProgress, Login
from runner.settings import KubeSettings
from runner.testing.clock import FakeClock
from runner.testing.kubeconfig import write_kubeconfig

EMPTY = b'{"items": []}'
ONE = b'{"items": [{"metadata": {"name": "one"}}]}'
NESTED = b'{"items": [{"metadata": {"name": "one"}, "spec": {"volumes": [{"configMap": {"items": []}}]}}]}'
THINGS = "/apis/demo.example.com/v1/namespaces/{}/things"


@dataclass(kw_only=True)
class Server:
    """An API server with an answer for each path, an empty list for others."""

    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer."""
        self.asked.append(f"{request.method} {request.path}")
        status, body = self.answers.get(request.path, (200, EMPTY))
        return web.Response(status=status, body=body, content_type="application/json")


def insights_of(*namespaces: str) -> Insights:
    """Return what kopf knows when things are indexed in *namespaces*."""
    insights = Insights()
    insights.indexed_resources.add(
        kopf.Resource(group="demo.example.com", version="v1", plural="things", namespaced=True)
    )
    insights.namespaces.update(namespaces)  # type: ignore[arg-type]  # a private subtype of str
    insights.ready_namespaces.set()
    insights.ready_resources.set()
    return insights


@contextlib.asynccontextmanager
async def logged_in(
    folder: Path, *, progress: IndexProgress, clock: FakeClock | None = None
) -> AsyncIterator[tuple[Server, Login, kopf.AiohttpSession]]:
    """Serve, and log in."""
    server, application = Server(), web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server=f"http://127.0.0.1:{runner.addresses[0][1]}")
        login = Login(
            Connection(kube=KubeSettings(kubeconfig=str(kubeconfig))), progress=progress, away_limit=30.0, clock=clock
        )
        try:
            yield server, login, await login.session()
        finally:
            await login.close()
    finally:
        await runner.cleanup()


async def get(session: kopf.AiohttpSession, path: str) -> int:
    """Ask for *path*; return the status."""
    async with session.aiohttp_session.get(f"{session.server.rstrip('/')}{path}") as response:
        await response.read()
        return response.status


async def test_empty_lists_of_all_namespaces_make_complete_indexes(tmp_path: Path) -> None:
    """Each list must be there, be empty, and be followed by its watch."""
    progress = IndexProgress(insights_of("a", "b"))
    a, b = THINGS.format("a"), THINGS.format("b")
    async with logged_in(tmp_path, progress=progress) as (_, _login, session):
        assert progress.missing() == (f"{a} is not listed yet", f"{b} is not listed yet")
        await get(session, a)
        await get(session, f"{a}?watch=true")
        assert progress.missing() == (f"{b} is not listed yet",)
        await get(session, b)
        assert progress.missing() == (f"{b} is not watched yet",)
        assert not progress.complete
        await get(session, f"{b}?watch=true")
        assert (progress.complete, progress.missing()) == (True, ())


@pytest.mark.parametrize("body", [ONE, NESTED])
async def test_a_list_with_objects_waits_for_their_indexing(tmp_path: Path, body: bytes) -> None:
    """What kopf says then counts, and an empty field called items inside an object is no empty list."""
    progress = IndexProgress(insights_of("a"))
    path = THINGS.format("a")
    async with logged_in(tmp_path, progress=progress) as (server, _, session):
        server.answers[path] = (200, body)
        await get(session, path)
        await get(session, f"{path}?watch=true")
        assert not progress.complete
        assert progress.missing() == ("the objects of a list, to be indexed",)
        progress.tell()
        assert (progress.complete, progress.missing()) == (True, ())


async def test_an_empty_last_page_makes_no_empty_list(tmp_path: Path) -> None:
    """A list in pieces has what any of them has."""
    progress = IndexProgress(insights_of("a"))
    path = THINGS.format("a")
    async with logged_in(tmp_path, progress=progress) as (server, _, session):
        server.answers[path] = (200, ONE)
        await get(session, path)
        server.answers[path] = (200, EMPTY)
        await get(session, f"{path}?continue=more")
        await get(session, f"{path}?watch=true")
        assert not progress.complete


async def test_a_list_that_is_refused_is_named_with_the_answer(tmp_path: Path) -> None:
    """A missing right is no empty list, and the person reads which one it is."""
    progress = IndexProgress(insights_of("a"))
    path = THINGS.format("a")
    async with logged_in(tmp_path, progress=progress) as (server, _, session):
        server.answers[path] = (403, b"{}")
        await get(session, path)
        assert progress.missing() == (f"GET {path}: 403",)
        del server.answers[path]
        await get(session, path)
        await get(session, f"{path}?watch=true")
        assert progress.complete


async def test_before_the_kinds_are_known_nothing_is_complete(tmp_path: Path) -> None:
    """Without the list of kinds no index is known to be empty; what the API server refuses is named."""
    progress = IndexProgress(Insights())
    assert (progress.complete, progress.missing()) == (False, ("the API server's list of kinds",))
    async with logged_in(tmp_path, progress=progress) as (server, _, session):
        server.answers["/apis"] = (503, b"{}")
        await get(session, "/apis")
        assert (progress.complete, progress.missing()) == (False, ("GET /apis: 503",))


async def test_a_second_list_means_that_changes_were_lost(tmp_path: Path) -> None:
    """A list after the watch is told; pages of the first one, and lists of kinds that nobody indexes, aren't."""
    lost: list[str] = []
    path = THINGS.format("a")
    async with logged_in(tmp_path, progress=IndexProgress(insights_of("a"), again=lost.append)) as (_, _login, session):
        for asked in (path, f"{path}?continue=more", f"{path}?watch=true", "/api/v1/pods", "/api/v1/pods"):
            await get(session, asked)
        assert lost == []
        await get(session, path)
        assert lost == [path]


async def test_an_aggregated_api_counts_as_missing_after_half_a_minute(tmp_path: Path) -> None:
    """Until then it may only be slow to start; then kopf gets 404, and goes on with the others."""
    clock, path = FakeClock(), "/apis/demo.example.com/v1"
    async with logged_in(tmp_path, progress=IndexProgress(Insights()), clock=clock) as (server, _, session):
        server.answers[path] = (503, b"{}")
        answers = [await get(session, path) for _ in range(10)]
        await clock.advance(29.0)
        answers.append(await get(session, path))
        assert answers == [503] * 11
        await clock.advance(1.0)
        assert await get(session, path) == 404
        del server.answers[path]
        assert await get(session, path) == 200
        server.answers[path] = (503, b"{}")
        assert await get(session, path) == 503


async def test_a_life_that_has_ended_sends_nothing(tmp_path: Path) -> None:
    """What goes on beside the next life has no session any more, gets none, and uses none that it still has."""
    async with logged_in(tmp_path, progress=IndexProgress(Insights())) as (server, login, session):
        async with aiohttp.ClientSession(middlewares=session.aiohttp_session._middlewares) as kept:
            await login.close()
            assert session.aiohttp_session.closed
            with pytest.raises(kopf.PermanentError, match="has ended"):
                await login.session()
            with pytest.raises(aiohttp.ClientConnectionError, match="has ended"):
                await kept.get(f"{session.server.rstrip('/')}/api")
        assert server.asked == []
