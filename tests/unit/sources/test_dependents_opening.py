"""How the watches on dependents open: waits, trouble at the start, and what happened before they were open."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.proxy.exchange import Caller
from runner.sources.informer import State
from runner.sources.own_writes import OwnWrites
from runner.testing.apiserver import FakeApiServer
from runner.testing.clock import FakeClock
from runner.testing.cluster import CONFIG_MAPS, SECRETS
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.informers import Site
from runner.testing.waiting import ended, eventually
from tests.unit.sources.dependents_following import (
    MINE,
    ONE,
    OWNER,
    PROBE,
    barrier,
    following,
    owned,
    replace_with,
)


async def test_a_kind_that_must_not_be_listed_costs_no_wait(site: Site, tmp_path: Path) -> None:
    """It is known at once, is shown as forbidden, logged once, and watched as soon as the right is there."""
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        rule = proxy.rule(Rule(path="/configmaps", status=403))
        clock = FakeClock()  # it stands still: whoever waits for two seconds waits for ever
        async with following(proxy.kubeconfig(tmp_path / "faulty"), clock=clock) as found:
            await found.ensure()
            assert found.sources.states() == {CONFIG_MAPS.gvk: {"": State.FORBIDDEN}}
            await found.ensure()
            rule.cancel()
            await clock.advance(1.0)
            await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}})
            assert [record["msg"] for record in found.sink.records if record["level"] == "error"] == [
                "A right to list or watch is missing; waiting for it"
            ]
            await site.client.create(CONFIG_MAPS, namespace="test", body=owned("dep"))
            await replace_with(site, owned("dep", data={"k": "v"}))
            await eventually(lambda: found.enqueued == [ONE])


async def test_a_server_that_is_silent_is_waited_for_once(site: Site, tmp_path: Path) -> None:
    """After two seconds all who wait go on; later ones don't wait."""
    clock = FakeClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        rule = proxy.rule(Rule(path="/configmaps", hold=True))
        async with following(proxy.kubeconfig(tmp_path / "slow"), clock=clock) as found:
            first = asyncio.create_task(found.ensure())
            await clock.advance(1.0)
            waiting = asyncio.gather(first, found.ensure())
            await clock.advance(0.9)
            assert not first.done()
            await clock.advance(0.2)
            await waiting
            await found.ensure()
            assert found.sources.states() == {CONFIG_MAPS.gvk: {"": State.STARTING}}
            rule.release()
            await eventually(lambda: found.sources.states()[CONFIG_MAPS.gvk][""] is State.SYNCED)


async def test_a_client_that_leaves_while_it_waits_was_waited_for(site: Site, tmp_path: Path) -> None:
    """It may time out in less than two seconds, again and again: the writes after it don't wait."""
    clock = FakeClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        proxy.rule(Rule(path="/configmaps", hold=True))
        async with following(proxy.kubeconfig(tmp_path / "slow"), clock=clock) as found:
            leaving = asyncio.create_task(found.ensure())
            await clock.advance(1.0)
            assert not leaving.done()
            await ended(leaving)
            later = asyncio.create_task(found.ensure())
            await clock.settle()
            assert later.done()


async def test_what_is_there_already_is_followed_without_a_wait(site: Site) -> None:
    """The watch opens by itself, once; a kind that is not to be watched is told."""
    async with following(site.kubeconfig, watches=[replace(PROBE, blacklist=(SECRETS.gvk,))]) as found:
        for _ in range(2):
            found.sources.follow(CONFIG_MAPS, namespace="test", owner=OWNER)
            found.sources.follow(SECRETS, namespace="test", owner=OWNER)
        await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}})
        assert len(found.refusals()) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_error_that_is_over_in_a_moment_is_waited_for(site: Site, tmp_path: Path, status: int) -> None:
    """An overloaded server refuses the first list: the watch is open all the same when `ensure` returns."""
    clock = FakeClock()
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        proxy.rule(Rule(path="/configmaps", status=status, times=1))
        async with following(proxy.kubeconfig(tmp_path / "busy"), clock=clock) as found:
            task = asyncio.create_task(found.ensure())
            await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.ERROR}})
            await eventually(lambda: clock.sleeping == 2)
            assert not task.done()
            await clock.advance(1.5)
            await task
            assert found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}}


async def test_a_dependent_that_was_changed_before_its_watch_was_open_starts_a_run(site: Site, tmp_path: Path) -> None:
    """The first list shows it in a version that no run wrote; what is as a run wrote it, or nobody's, starts none."""
    clock, run = FakeClock(), Caller(owner=OWNER, run="1")
    own = OwnWrites(lives=lambda _run: True, clock=clock)

    async def make(name: str) -> None:
        with own.writing(CONFIG_MAPS, namespace="test", name="", verb="create", caller=run) as write:
            made = await site.client.create(CONFIG_MAPS, namespace="test", body=owned(name))
            write.answered(status=201, body=json.dumps(made).encode())

    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        rule = proxy.rule(Rule(path="/configmaps", status=403))
        async with following(proxy.kubeconfig(tmp_path / "late"), clock=clock) as found:
            found.ledger.real = own
            await found.ensure()
            await make("dep")
            await make("same")
            await site.client.create(CONFIG_MAPS, namespace="test", body=owned("earlier", owner="two"))
            await replace_with(site, owned("dep", data={"k": "by hand"}))
            rule.cancel()
            await clock.advance(1.0)
            await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}})
            assert found.enqueued == [ONE]
            await barrier(site, found)
            assert found.enqueued == [ONE]


async def test_a_list_hides_no_change_behind_an_own_write(server: FakeApiServer, site: Site, tmp_path: Path) -> None:
    """A hand, then the run, while the watch is away: its owner runs once more, and so it does for a deletion."""
    async with (
        HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
        following(proxy.kubeconfig(tmp_path / "away")) as found,
    ):
        await found.ensure()
        for name in ("dep", "gone"):
            await site.client.create(CONFIG_MAPS, namespace="test", body=owned(name))
        await eventually(lambda: len(found.sources.kept(CONFIG_MAPS.gvk)) == 2)
        away = proxy.rule(Rule(path="/configmaps", status=503))
        await proxy.end_watches()
        await replace_with(site, owned("dep", data={"by": "hand"}))
        await replace_with(site, owned("dep", data={"by": "hand", "own": "2"}))
        await site.client.delete(CONFIG_MAPS, namespace="test", name="gone")
        found.ledger.writers = frozenset({MINE})
        server.compact()
        away.cancel()
        await eventually(lambda: found.enqueued == [ONE, ONE])
        assert found.reported == [], "nobody can say that it was somebody else"
        await replace_with(site, owned("dep", data={"own": "3"}))
        await eventually(lambda: found.sources.kept(CONFIG_MAPS.gvk)[0].get("data") == {"own": "3"})
        assert found.enqueued == [ONE, ONE]


async def test_kinds_are_listed_in_small_pages(server: FakeApiServer, site: Site, tmp_path: Path) -> None:
    """Whole objects of everybody are parsed on the event loop, fifty at a time."""
    for number in range(60):
        server.put(CONFIG_MAPS, namespace="test", body={"metadata": {"name": f"foreign-{number}"}})
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        async with following(proxy.kubeconfig(tmp_path / "pages")) as found:
            await found.ensure()
        lists = [request.path for request in proxy.requests if "limit=" in request.path]
    assert [path.partition("?")[2] for path in lists] == ["limit=50", "limit=50&continue=50"]


async def test_a_kind_that_is_not_served_is_told_as_missing(site: Site) -> None:
    """The proxy may know a kind that is gone in the same moment; that costs no wait."""
    gone = Resource(gvk=GVK("", "v1", "Gone"), plural="gones")
    async with following(site.kubeconfig, clock=FakeClock()) as found:
        await found.ensure(gone)
        assert found.sources.states() == {gone.gvk: {"": State.MISSING}}


async def test_what_is_asked_for_before_the_start_begins_with_it(site: Site) -> None:
    """Nobody waits for sources that don't run yet."""
    async with following(site.kubeconfig, running=False) as found:
        await found.ensure()
        assert found.sources.states() == {CONFIG_MAPS.gvk: {"": State.STARTING}}
        task = asyncio.create_task(found.sources.run())
        await eventually(lambda: found.sources.states() == {CONFIG_MAPS.gvk: {"": State.SYNCED}})
        await ended(task)
        await found.ensure(SECRETS)  # an operator that ends
