"""The primary source of a watch: which lists it reads, what it puts into the queue, what it knows."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.clock import SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery, Resource
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings
from runner.sources.informer import State, WatchContext
from runner.sources.primary import PrimarySource
from runner.testing.apiserver import FakeApiServer
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.informers import QUICK, Site
from runner.testing.waiting import ended, eventually
from runner.watches.model import Content, Watch
from runner.workqueue.request import Request


@dataclass(frozen=True, kw_only=True)
class Running:
    """A source at work."""

    source: PrimarySource
    enqueued: list[Request]

    async def until(self, *requests: Request) -> None:
        """Return when all *requests* were enqueued."""
        await eventually(lambda: set(requests) <= set(self.enqueued))


def request(name: str, *, namespace: str = "test", resource: Resource = SECRETS) -> Request:
    """Build a request."""
    return Request(resource.gvk, namespace, name)


@contextlib.asynccontextmanager
async def running(
    kubeconfig: Path, *, resource: Resource = SECRETS, namespaces: Sequence[str] = (), synced: bool = True, **keys: Any
) -> AsyncIterator[Running]:
    """Run a source for a kind; *keys* are keys of its watch."""
    enqueued: list[Request] = []

    def enqueue(request: Request, *, fresh: bool) -> None:
        assert fresh
        enqueued.append(request)

    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        context = WatchContext(
            client=client,
            discovery=Discovery(client=client),
            settings=QUICK,
            clock=SystemClock(),
            logger=Logger("informer", sink=RecordingSink()),
        )
        watch = Watch(gvk=resource.gvk, content=Content(), **keys)
        source = PrimarySource(watch=watch, context=context, enqueue=enqueue, namespaces=namespaces)
        task = asyncio.create_task(source.run())
        try:
            if synced:
                await eventually(lambda: source.synced)
            yield Running(source=source, enqueued=enqueued)
        finally:
            await ended(task)


def lists_of(proxy: HttpFaultProxy, resource: Resource) -> list[str]:
    """Return the paths of the lists that were asked for."""
    found = [record.path for record in proxy.requests if re.search(rf"/{resource.plural}\?", record.path)]
    return [path.partition("?")[0] for path in found if "watch=1" not in path]


async def test_what_passes_the_predicates_is_enqueued_as_fresh(site: Site) -> None:
    """Existing and new objects, changes and deletions become requests that go ahead of periodic ones."""
    await site.create("a")
    async with running(site.kubeconfig) as at_work:
        assert at_work.enqueued == [request("a")]
        await site.create("b")
        await site.touch("a")
        await site.delete("b")
        await eventually(lambda: len(at_work.enqueued) == 4)
        assert at_work.enqueued[1:] == [request("b"), request("a"), request("b")]


async def test_an_object_is_known_until_it_is_gone(site: Site) -> None:
    """`knows` tells whether the object of a request was there when it was looked at last."""
    await site.create("a")
    async with running(site.kubeconfig) as at_work:
        assert at_work.source.knows(request("a"))
        assert not at_work.source.knows(request("b"))
        await site.delete("a")
        await eventually(lambda: len(at_work.enqueued) == 2)
        assert not at_work.source.knows(request("a"))


async def test_namespaces_are_listed_one_by_one(site: Site) -> None:
    """With two namespaces nothing is asked for cluster-wide, and objects of a third one stay unseen (case W4)."""
    for namespace in ("ns1", "ns2", "ns3"):
        await site.client.create(SECRETS, namespace=namespace, body={"metadata": {"name": "a"}})
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with running(kubeconfig, namespaces=("ns1", "ns2")) as at_work:
            assert sorted(at_work.enqueued) == [request("a", namespace="ns1"), request("a", namespace="ns2")]
            assert sorted(lists_of(proxy, SECRETS)) == [f"/api/v1/namespaces/ns{n}/secrets" for n in (1, 2)]
            assert at_work.source.states() == {"ns1": State.SYNCED, "ns2": State.SYNCED}
            assert at_work.source.knows(request("a", namespace="ns2"))
            assert not at_work.source.knows(request("a", namespace="ns3"))


async def test_without_namespaces_there_is_one_list_over_all(site: Site) -> None:
    """An empty namespace list means a single cluster-wide informer."""
    for namespace in ("ns1", "ns2"):
        await site.client.create(SECRETS, namespace=namespace, body={"metadata": {"name": "a"}})
    async with (
        HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy,
        running(proxy.kubeconfig(site.folder / "proxy")) as at_work,
    ):
        assert len(at_work.enqueued) == 2
        assert lists_of(proxy, SECRETS) == ["/api/v1/secrets"]
        assert at_work.source.states() == {"": State.SYNCED}


async def test_a_cluster_scoped_kind_is_listed_once_whatever_the_namespaces(site: Site) -> None:
    """A cluster-scoped primary works with a namespace list, and is watched once (case W4)."""
    await site.create("a", resource=NAMESPACES)
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with running(kubeconfig, resource=NAMESPACES, namespaces=("ns1", "ns2")) as at_work:
            assert at_work.enqueued == [request("a", namespace="", resource=NAMESPACES)]
            assert at_work.source.synced
            assert at_work.source.states() == {"": State.SYNCED}
            assert lists_of(proxy, NAMESPACES) == ["/api/v1/namespaces"]
            assert at_work.source.knows(request("a", namespace="", resource=NAMESPACES))


async def test_a_source_is_synced_when_each_namespace_is(site: Site) -> None:
    """One namespace without rights keeps the source from being synced, and does not disturb the other."""
    await site.client.create(SECRETS, namespace="ns1", body={"metadata": {"name": "a"}})
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        denied = proxy.rule(Rule(path="/ns2/secrets", status=403))
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with running(kubeconfig, namespaces=("ns1", "ns2"), synced=False) as at_work:
            await at_work.until(request("a", namespace="ns1"))
            await denied.wait_hit(3)
            assert not at_work.source.synced
            assert at_work.source.states() == {"ns1": State.SYNCED, "ns2": State.FORBIDDEN}
            denied.cancel()
            await eventually(lambda: at_work.source.synced)


async def test_a_kind_that_comes_late_is_picked_up_in_each_namespace(server: FakeApiServer, site: Site) -> None:
    """Informers of further namespaces start once the kind is known, however late that is."""
    server.undefine(CONFIG_MAPS.plural)
    namespaces = ("ns1", "ns2")
    async with running(site.kubeconfig, resource=CONFIG_MAPS, namespaces=namespaces, synced=False) as at_work:
        await eventually(lambda: at_work.source.states() == dict.fromkeys(namespaces, State.MISSING))
        server.define(CONFIG_MAPS)
        await eventually(lambda: at_work.source.synced)
        await site.client.create(CONFIG_MAPS, namespace="ns2", body={"metadata": {"name": "a"}})
        await at_work.until(request("a", namespace="ns2", resource=CONFIG_MAPS))
        assert set(at_work.source.counters()) == {"ns1", "ns2"}


async def test_a_forbidden_discovery_is_told_for_each_namespace(site: Site) -> None:
    """While the first namespace's informer may not ask for the kind, the state of all is forbidden, not starting."""
    async with HttpFaultProxy(upstream_kubeconfig=site.kubeconfig) as proxy:
        denied = proxy.rule(Rule(path=r"/api/v1$", status=403))
        kubeconfig = proxy.kubeconfig(site.folder / "proxy")
        async with running(kubeconfig, namespaces=("ns1", "ns2"), synced=False) as at_work:
            await eventually(lambda: at_work.source.states() == {"ns1": State.FORBIDDEN, "ns2": State.FORBIDDEN})
            denied.cancel()
            await eventually(lambda: at_work.source.states() == {"ns1": State.SYNCED, "ns2": State.SYNCED})
