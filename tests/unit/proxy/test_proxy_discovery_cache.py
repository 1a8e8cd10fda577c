"""Discovery documents from memory: when a run gets one, and when the API server is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from runner.kube.objects import GVK
from runner.proxy.discovery_cache import DiscoveryCache
from runner.proxy.exchange import Caller, Exchange, Owner
from runner.proxy.request_info import parse
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DOCUMENTS = ["/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis?timeout=32s"]


class Upstream:
    """Stands where the API server is asked: each answer has a number in it."""

    def __init__(self) -> None:
        """Answer at once, with 200."""
        self.asked: list[str] = []
        self.status = 200
        self.gate = asyncio.Event()
        self.gate.set()
        self.slow = 0
        self.late = asyncio.Event()
        self.padding = 0
        self.shown = True

    async def handle(self, exchange: Exchange) -> web.StreamResponse:
        """Answer one request, watchers first."""
        self.asked.append(exchange.request.raw_path)
        body = f"answer {len(self.asked)}".encode() + b" " * self.padding
        await self.gate.wait()
        if len(self.asked) == self.slow:
            await self.late.wait()
        headers = {"Content-Type": "application/json;g=x", "ETag": '"1"', "Content-Length": str(len(body))}
        for watcher in exchange.answer_watchers:
            watcher(self.status, headers, body if self.shown else b"")
        return web.Response(status=self.status, body=body, headers=headers)


class World:
    """A cache before an upstream, and requests to it."""

    def __init__(self, *, limit: int = 2**20, most: int = 100) -> None:
        """Begin with nothing in memory."""
        self.clock = FakeClock()
        self.upstream = Upstream()
        self.ended: set[str] = set()
        self.cache = DiscoveryCache(
            clock=self.clock, lives=lambda caller: caller.run not in self.ended, life=10, limit=limit, most=most
        )
        self._handle = self.cache(self.upstream.handle)

    async def ask(
        self, target: str = "/apis", *, run: str = "1", method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> str:
        """Send a request of *run* (empty: of nobody); return the body of the answer."""
        response = await self.send(target, run=run, method=method, headers=headers)
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        return response.body.decode().strip()

    async def send(
        self, target: str, *, run: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """Send a request and return the answer."""
        owner = Owner(gvk=GVK("a.example.com", "v1", "A"), namespace="n", name="a", uid="u")
        request = make_mocked_request(method, target, headers={"Accept": "application/json", **(headers or {})})
        caller = Caller(owner=owner, run=run) if run else None
        return await self._handle(Exchange(request=request, info=parse(method, target), caller=caller))


@pytest.fixture
def world() -> World:
    """Give an empty cache."""
    return World()


@pytest.mark.parametrize("target", DOCUMENTS)
async def test_the_next_run_gets_the_document_from_memory(world: World, target: str) -> None:
    """A run gets what an earlier run was told, byte for byte and with its headers, and the API server is not asked."""
    first = await world.send(target, run="1")
    second = await world.send(target, run="2")
    assert world.upstream.asked == [target]
    assert isinstance(first, web.Response)
    assert isinstance(second, web.Response)
    assert (second.status, second.body) == (200, first.body)
    assert (second.headers["Content-Type"], second.headers["ETag"]) == ("application/json;g=x", '"1"')


async def test_a_run_that_asks_again_gets_a_new_answer(world: World) -> None:
    """A second request of one run goes to the API server, and later runs get what that one brought."""
    assert await world.ask(run="1") == "answer 1"
    assert await world.ask(run="1") == "answer 2"
    assert await world.ask(run="2") == "answer 2"
    assert await world.ask(run="2") == "answer 3"


async def test_a_run_that_asks_again_after_the_life_of_a_document_gets_a_new_answer(world: World) -> None:
    """What a run asked is remembered longer than the answer: a younger document of another run isn't new enough."""
    await world.ask(run="1")
    await world.clock.advance(11)
    assert await world.ask(run="2") == "answer 2"
    assert await world.ask(run="1") == "answer 3"


async def test_a_late_answer_to_an_early_question_replaces_nothing(world: World) -> None:
    """Of two answers the one that was asked for later is kept, whichever comes first."""
    world.upstream.slow = 1
    early = asyncio.create_task(world.ask(run="1"))
    await eventually(lambda: len(world.upstream.asked) == 1)
    await world.clock.advance(1)
    assert await world.ask(run="1") == "answer 2"
    world.upstream.late.set()
    assert await early == "answer 1"
    assert await world.ask(run="2") == "answer 2"


async def test_a_document_lives_shortly(world: World) -> None:
    """After its life a document is asked for anew; it counts from the moment of the question."""
    await world.ask(run="1")
    await world.clock.advance(9.9)
    assert await world.ask(run="2") == "answer 1"
    await world.clock.advance(0.1)
    assert await world.ask(run="3") == "answer 2"


async def test_forms_of_a_document_are_kept_apart(world: World) -> None:
    """Accept, Accept-Encoding and the query each make another document."""
    assert await world.ask(run="1") == "answer 1"
    assert await world.ask(run="2", headers={"Accept": "application/json;as=APIGroupDiscoveryList"}) == "answer 2"
    assert await world.ask(run="3", headers={"Accept-Encoding": "gzip"}) == "answer 3"
    assert await world.ask("/apis?timeout=1s", run="4") == "answer 4"


@pytest.mark.parametrize(
    ("target", "method", "headers"),
    [
        ("/apis", "HEAD", {}),
        ("/apis", "OPTIONS", {}),
        ("/apis", "GET", {"If-None-Match": '"1"'}),
        ("/apis", "GET", {"Impersonate-User": "jane"}),
        ("/apis", "GET", {"Cache-Control": "no-cache"}),
        ("/apis", "GET", {"Content-Length": "2"}),
        ("/apis", "GET", {"Accept": "application/json," * 40}),
        ("/apis", "GET", {"Accept-Encoding": "gzip," * 120}),
        (f"/apis?timeout={'1' * 512}s", "GET", {}),
        (f"/apis/{'g' * 512}/v1", "GET", {}),
        ("/apis/", "GET", {}),
        ("/apis/apps%2Fv1", "GET", {}),
        ("/healthz", "GET", {}),
        ("/openapi/v2", "GET", {}),
        ("/apis/apps/v1/deployments", "GET", {}),
        ("/api/v1/pods", "GET", {}),
    ],
)
async def test_everything_else_passes_through(
    world: World, target: str, method: str, headers: Mapping[str, str]
) -> None:
    """What is no plain GET of a discovery document is never answered from memory, nor kept."""
    await world.ask("/apis", run="1")
    for run in ("2", "3"):
        await world.send(target, run=run, method=method, headers=headers)
    assert len(world.upstream.asked) == 3
    assert await world.ask("/apis", run="4") == "answer 1"


async def test_nobody_but_a_run_is_answered_from_memory(world: World) -> None:
    """A request without credentials goes to the API server, and its answer is not kept."""
    assert await world.ask(run="") == "answer 1"
    assert await world.ask(run="1") == "answer 2"
    assert await world.ask(run="") == "answer 3"


@pytest.mark.parametrize("status", [304, 404, 500, 503])
async def test_only_good_answers_are_kept(world: World, status: int) -> None:
    """A document that could not be had is asked for by each run."""
    world.upstream.status = status
    await world.ask(run="1")
    world.upstream.status = 200
    assert await world.ask(run="2") == "answer 2"


async def test_an_answer_that_cannot_be_shown_is_not_kept(world: World) -> None:
    """An answer too large or encoded in its own way comes to the layer without a body, and nobody gets that."""
    world.upstream.shown = False
    await world.ask(run="1")
    assert await world.ask(run="2") == "answer 2"


@pytest.mark.parametrize(
    ("target", "method"),
    [
        (CRDS, "POST"),
        (f"{CRDS}/as.example.com", "PUT"),
        (f"{CRDS}/as.example.com", "PATCH"),
        (f"{CRDS}/as.example.com", "DELETE"),
        (CRDS, "DELETE"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", "POST"),
    ],
)
async def test_a_write_to_kinds_empties_the_memory(world: World, target: str, method: str) -> None:
    """After it, whoever sent it, each run asks the API server until that had the time to serve what was written."""
    await world.ask(run="1")
    await world.send(target, run="", method=method)
    assert await world.ask(run="2") == "answer 3"
    assert await world.ask(run="3") == "answer 4"
    await world.clock.advance(10)
    assert await world.ask(run="4") == "answer 5"
    assert await world.ask(run="5") == "answer 5"


async def test_an_answer_from_before_a_write_is_not_kept(world: World) -> None:
    """A document that was asked for before a write and comes after it serves nobody but who asked."""
    world.upstream.gate.clear()
    early = asyncio.create_task(world.ask(run="1"))
    waiting = asyncio.create_task(world.ask(run="2"))
    await eventually(lambda: len(world.upstream.asked) == 1)
    write = asyncio.create_task(world.send(CRDS, run="1", method="POST"))
    await eventually(lambda: len(world.upstream.asked) == 3)
    await world.clock.advance(11)
    world.upstream.gate.set()
    await write
    assert (await early, await waiting) == ("answer 1", "answer 3")
    await world.clock.advance(11)
    assert await world.ask(run="3") == "answer 4"


async def test_runs_that_ask_at_once_share_one_question(world: World) -> None:
    """Of many runs that want a document that isn't there, one asks."""
    world.upstream.gate.clear()
    tasks = [asyncio.create_task(world.ask(run=str(number))) for number in range(5)]
    await eventually(lambda: len(world.upstream.asked) > 0)
    world.upstream.gate.set()
    assert set(await asyncio.gather(*tasks)) == {"answer 1"}


async def test_those_who_wait_ask_themselves_where_the_first_one_fails(world: World) -> None:
    """A client that goes away, and an answer that isn't good, spoil it for nobody else."""
    world.upstream.gate.clear()
    first = asyncio.create_task(world.ask(run="1"))
    await eventually(lambda: len(world.upstream.asked) == 1)
    second = asyncio.create_task(world.ask(run="2"))
    await world.clock.settle()
    first.cancel()
    await eventually(lambda: len(world.upstream.asked) == 2)
    world.upstream.gate.set()
    assert await second == "answer 2"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_one_who_waits_may_go_away(world: World) -> None:
    """A waiting client that ends its connection doesn't end the question of the others."""
    world.upstream.gate.clear()
    tasks = [asyncio.create_task(world.ask(run=str(number))) for number in range(3)]
    await eventually(lambda: len(world.upstream.asked) == 1)
    await world.clock.settle()
    tasks[1].cancel()
    await world.clock.settle()
    world.upstream.gate.set()
    assert [await tasks[0], await tasks[2]] == ["answer 1", "answer 1"]


async def test_the_memory_is_bounded() -> None:
    """The oldest documents make room, and one of more than a quarter of the memory is not kept at all."""
    world = World(limit=1000)
    world.upstream.padding = 210
    for number in range(6):
        await world.ask(f"/apis/g{number}", run="1")
    assert await world.ask("/apis/g5", run="2") == "answer 6"
    assert await world.ask("/apis/g0", run="2") == "answer 7"
    world.upstream.padding = 300
    await world.ask("/apis/big", run="1")
    assert await world.ask("/apis/big", run="2") == "answer 9"


async def test_what_a_run_asked_is_forgotten_when_it_has_ended(world: World) -> None:
    """A live run's questions stay however many runs come and go; those of one that ended are gone with the next run."""
    await world.ask(run="lives")
    gone = {str(number) for number in range(5)}
    for run in sorted(gone):
        await world.ask(run=run)
    assert await world.ask(run="lives") == "answer 2"
    world.ended = gone
    await world.ask(run="next")
    assert await world.ask(run="0") == "answer 2"  # as if it had never asked
    assert await world.ask(run="lives") == "answer 3"


async def test_many_small_documents_are_bounded_too() -> None:
    """Each costs more than its body, so their number has a limit of its own."""
    world = World(most=3)
    for number in range(4):
        await world.ask(f"/apis/g{number}", run="1")
    assert await world.ask("/apis/g1", run="2") == "answer 2"
    assert await world.ask("/apis/g0", run="2") == "answer 5"
