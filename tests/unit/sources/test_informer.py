"""The informer in exact sequences that only an in-memory API server and a clock by hand can show."""

from __future__ import annotations

import asyncio
import re

import pytest

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.sources.informer import State
from runner.testing.apiserver import FakeApiServer
from runner.testing.clock import FakeClock
from runner.testing.cluster import CONFIG_MAPS, SECRETS
from runner.testing.faults import HttpFaultProxy, Rule, TcpFaultProxy
from runner.testing.informers import QUICK, Site, watching, with_settings
from runner.testing.waiting import eventually

WATCH = r"/secrets\?.*watch=1"
BACKOFF = with_settings(backoff_base=1.0, backoff_cap=8.0, missing_cap=3.0)
GADGETS = Resource(gvk=GVK("example.com", "v1", "Gadget"), plural="gadgets")


class RecordingClock(FakeClock):
    """A clock by hand that remembers the waits."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Remember and wait."""
        self.waits.append(seconds)
        await super().sleep(seconds)

    async def until_waits(self, count: int) -> list[float]:
        """Let each wait pass until there were *count* of them; return them."""
        while len(self.waits) < count:
            await eventually(lambda: self.sleeping)
            await self.advance(self.waits[-1])
        return self.waits[:count]


async def test_retries_back_off_exponentially_up_to_a_cap(site: Site) -> None:
    """Waits double from the base to the cap, each shortened by up to half at random."""
    clock = RecordingClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        proxy.rule(Rule(path="", status=503))
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with watching(site, kubeconfig=kubeconfig, clock=clock, settings=BACKOFF, synced=False):
            waits = await clock.until_waits(6)
    for wait, most in zip(waits, [1.0, 2.0, 4.0, 8.0, 8.0, 8.0], strict=True):
        assert most / 2 <= wait <= most


@pytest.mark.parametrize("status", [403, 404])
async def test_a_missing_or_forbidden_kind_is_tried_often(site: Site, status: int) -> None:
    """Where only a person can help the waits stay below a cap of their own."""
    clock = RecordingClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        proxy.rule(Rule(path="", status=status))
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with watching(site, kubeconfig=kubeconfig, clock=clock, settings=BACKOFF, synced=False):
            assert max(await clock.until_waits(6)) <= BACKOFF.missing_cap


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_asks_for_patience_gets_it(site: Site, status: int) -> None:
    """Retry-After is the least wait, however early in the back-off."""
    clock = RecordingClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        asked = proxy.rule(Rule(path="/secrets", status=status, times=1, headers={"Retry-After": "7"}))
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with watching(site, kubeconfig=kubeconfig, clock=clock, synced=False) as watched:
            await eventually(lambda: clock.sleeping)
            assert clock.waits == [7.0]
            await clock.advance(7.0)
            await eventually(lambda: watched.informer.has_synced)
            assert asked.hits == 1


async def test_a_server_that_ends_each_watch_at_once_is_not_hammered(server: FakeApiServer, site: Site) -> None:
    """A watch that ends before the shortest wait is opened again only after a wait."""
    clock = RecordingClock()
    async with watching(site, kubeconfig=site.kubeconfig, clock=clock, settings=BACKOFF) as watched:
        server.end_watches()
        await eventually(lambda: clock.sleeping)
        assert clock.waits[0] >= 0.5
        await clock.advance(1.0)
        await eventually(lambda: watched.informer.counters.rewatches == 1)
        assert watched.informer.counters.errors == 0


async def test_a_watch_that_always_expires_is_not_hammered(site: Site) -> None:
    """Where each list is too old for its watch the waits grow, and nothing but the first list is logged."""
    clock = RecordingClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        proxy.rule(Rule(path=WATCH, status=410))
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with watching(site, kubeconfig=kubeconfig, clock=clock, settings=BACKOFF, synced=False) as watched:
            assert (await clock.until_waits(4))[3] >= 4.0
            assert watched.sink.sentences() == ["Watching"]


async def test_a_bookmark_moves_the_position(server: FakeApiServer, site: Site) -> None:
    """After a bookmark the next watch starts there, so a quiet kind survives the compaction of the history."""
    async with (
        HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
        watching(site, kubeconfig=proxy.kubeconfig(site.folder / "proxy")) as watched,
    ):
        await site.create("foreign", resource=CONFIG_MAPS)
        await eventually(lambda: proxy.watches(WATCH) == 1)
        position = server.bookmark()
        server.compact()
        server.end_watches()
        await eventually(lambda: watched.informer.counters.rewatches == 1)
        await site.create("after")
        await watched.until("ADDED after")
        assert watched.informer.counters.relists == 0
        last = [record.path for record in proxy.requests if record.is_watch][-1]
        assert re.search(rf"[?&]resourceVersion={position}(&|$)", last)


async def test_a_compacted_history_is_listed_anew(server: FakeApiServer, site: Site) -> None:
    """A position that the server forgot costs one list, and no change of state."""
    await site.create("a")
    async with TcpFaultProxy.before(site.kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(site.folder / "proxy", source=site.kubeconfig)
        async with watching(site, kubeconfig=kubeconfig) as watched:
            await proxy.refuse()
            await proxy.drop()
            await site.delete("a")
            server.compact()
            await proxy.accept()
            await watched.until("DELETED a")
            await eventually(lambda: watched.informer.state is State.SYNCED)
            assert watched.informer.counters.relists == 1


async def test_a_kind_may_come_late_go_and_come_back(server: FakeApiServer, site: Site) -> None:
    """A missing kind is waited for; when it goes its objects are deleted; when it comes back they are told anew."""
    async with watching(site, kubeconfig=site.kubeconfig, gvk=GADGETS.gvk, synced=False) as watched:
        await eventually(lambda: watched.informer.counters.errors >= 3)
        assert watched.informer.state is State.MISSING
        server.define(GADGETS)
        await eventually(lambda: watched.informer.has_synced)
        await site.create("g", resource=GADGETS)
        await watched.until("ADDED g")
        server.undefine("gadgets")
        await watched.until("DELETED g")
        await eventually(lambda: watched.informer.state is State.MISSING)
        server.define(Resource(gvk=GADGETS.gvk, plural="gadgets", namespaced=False))
        await eventually(lambda: watched.informer.state is State.SYNCED)
        assert watched.informer.resource is not None
        assert not watched.informer.resource.namespaced
        assert len(watched.sink.records) <= 5


async def test_an_object_larger_than_the_read_buffer_comes_whole(server: FakeApiServer, site: Site) -> None:
    """A watch event of several megabytes is put together."""
    async with watching(site, kubeconfig=site.kubeconfig) as watched:
        body = {"metadata": {"name": "big"}, "data": {"blob": "x" * 5_000_000}}
        server.put(SECRETS, namespace=site.namespace, body=body)
        await watched.until("ADDED big")
        assert len(watched.changes[0].obj["data"]["blob"]) == 5_000_000


async def test_cancelling_ends_the_task(site: Site) -> None:
    """A cancelled informer ends with CancelledError and leaves no task behind."""
    async with watching(site, kubeconfig=site.kubeconfig) as watched:
        second = asyncio.create_task(watched.informer.run())
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_interruptions_in_a_row_cost_one_log_line_a_minute(site: Site) -> None:
    """A peer that cuts every watch is mentioned once a minute, not once a cut."""
    clock = RecordingClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with watching(site, kubeconfig=kubeconfig, clock=clock, settings=QUICK) as watched:
            for count in range(1, 6):
                await eventually(lambda: proxy.watches(WATCH) == 1)
                await proxy.inject(b"garbage", path=WATCH)
                await eventually(lambda: clock.sleeping)
                await clock.advance(QUICK.backoff_cap)
                await watched.rewatched(count)
            assert watched.sink.sentences() == ["Watching", "The watch was interrupted; resuming"]
            await clock.advance(60)
            await eventually(lambda: proxy.watches(WATCH) == 1)
            await proxy.inject(b"garbage", path=WATCH)
            await eventually(lambda: len(watched.sink.records) == 3)
