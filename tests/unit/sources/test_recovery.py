"""The search for dependents of earlier runs: what is listed, what is watched, and how trouble is taken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.kube.catalogue import Catalogue
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.logs import Logger, RecordingSink
from runner.proxy.exchange import Owner
from runner.settings import KubeSettings
from runner.sources.recovery import Recovery
from runner.testing.clock import FakeClock
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.waiting import ended, eventually
from runner.watches.model import Content, DependentStatus, Watch
from tests.unit.sources.recovery_server import Kind, RecoveryServer

WEBAPP = GVK("example.com", "v1", "WebApp")
WATCH = Watch(gvk=WEBAPP, content=Content())
OWNERS = Kind(group="example.com", kind="WebApp", plural="webapps")
OURS: Object = {
    "name": "d",
    "namespace": "ns",
    "ownerReferences": [{"apiVersion": "example.com/v1beta1", "kind": "WebApp", "name": "shop", "uid": "u"}],
}
FOREIGN: Object = {
    "name": "f",
    "namespace": "ns",
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop", "uid": "u"}],
}
ANNOTATED: Object = {
    "name": "a",
    "annotations": {
        "operator-sdk/primary-resource": "elsewhere/shop",
        "operator-sdk/primary-resource-type": "WebApp.example.com",
    },
}


class Search:
    """One search, its clock, its log and what it asked to be watched."""

    def __init__(
        self, server: RecoveryServer, *, client: KubeClient, watches: list[Watch], namespaces: list[str]
    ) -> None:
        """Prepare it."""
        self.server = server
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.watched: list[tuple[str, str, Owner]] = []
        self.recovery = Recovery(
            watches=watches,
            namespaces=namespaces,
            dependents=self,
            catalogue=Catalogue(client=client),
            clock=self.clock,
            logger=Logger(sink=self.sink, level="debug"),
        )

    async def ensure(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Note what is to be watched: `runner.proxy.dependents.Dependents`."""
        self.watched.append((str(resource.gvk), namespace, owner))

    def follow(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Refuse: runs begin when the watches are open."""
        raise AssertionError

    def kinds(self) -> list[str]:
        """Return the kinds that are to be watched."""
        return sorted({kind for kind, _, _ in self.watched})

    def lines(self, level: str) -> list[Any]:
        """Return the log records of *level*."""
        return [record for record in self.sink.records if record["level"] == level]


@contextlib.asynccontextmanager
async def searching(
    server: RecoveryServer, *, folder: Path, watches: tuple[Watch, ...] = (WATCH,), namespaces: tuple[str, ...] = ()
) -> AsyncIterator[Search]:
    """Give a search on *server* that has not begun."""
    async with server:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server=server.url)
        async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
            yield Search(server, client=client, watches=list(watches), namespaces=list(namespaces))


def config_maps(*pages: list[Object], **changed: Any) -> Kind:
    """Return the kind ConfigMap with *pages* of objects."""
    return Kind(**{"kind": "ConfigMap", "plural": "configmaps", "pages": list(pages) or [[OURS]], **changed})


@pytest.mark.parametrize("aggregated", [True, False])
async def test_kinds_with_a_dependent_are_watched(tmp_path: Path, *, aggregated: bool) -> None:
    """A reference to an owner of ours, in any version, on any page; kinds without one are left alone."""
    server = RecoveryServer(
        config_maps([FOREIGN], [FOREIGN, OURS]),
        Kind(kind="Secret", plural="secrets", pages=[[FOREIGN]]),
        Kind(group="apps", kind="Deployment", plural="deployments", pages=[[OURS, OURS]]),
        OWNERS,
        aggregated=aggregated,
    )
    async with searching(server, folder=tmp_path) as search:
        await search.recovery.run()
    owner = Owner(gvk=WEBAPP, namespace="ns", name="shop", uid="")
    assert sorted(search.watched, key=str) == [
        ("/v1, Kind=ConfigMap", "ns", owner),
        ("apps/v1, Kind=Deployment", "ns", owner),
    ]
    (line,) = search.lines("info")
    assert line["watched"] == ["/v1, Kind=ConfigMap", "apps/v1, Kind=Deployment"]
    assert line["lists"] == 4


async def test_a_kind_is_read_no_further_than_needed(tmp_path: Path) -> None:
    """When every watch has a dependent of a kind, its other pages are not asked for."""
    async with searching(RecoveryServer(config_maps([OURS], [OURS], [OURS]), OWNERS), folder=tmp_path) as search:
        await search.recovery.run()
    assert search.server.listed("configmaps") == 1


async def test_an_expired_page_is_read_anew_in_one_answer(tmp_path: Path) -> None:
    """The API server forgot how to continue: the kind is listed once more, without pages."""
    async with searching(
        RecoveryServer(config_maps([FOREIGN], [OURS], expires=True), OWNERS), folder=tmp_path
    ) as search:
        await search.recovery.run()
    assert search.kinds() == ["/v1, Kind=ConfigMap"]
    limits = [query.get("limit") for path, query in search.server.lists if path.endswith("/configmaps")]
    assert limits == ["500", "500", None]


async def test_only_what_can_be_a_dependent_is_listed(tmp_path: Path) -> None:
    """Not Events, virtual kinds, the blacklist, or cluster-scoped kinds for a watch that doesn't ask for them."""
    server = RecoveryServer(
        Kind(kind="Event", plural="events", pages=[[OURS]]),
        Kind(group="events.k8s.io", kind="Event", plural="events", pages=[[OURS]]),
        Kind(group="metrics.k8s.io", kind="PodMetrics", plural="podmetrics", verbs=("get", "list"), pages=[[OURS]]),
        Kind(kind="Secret", plural="secrets", pages=[[OURS]]),
        Kind(kind="Node", plural="nodes", namespaced=False, pages=[[ANNOTATED]]),
        OWNERS,
    )
    watch = replace(WATCH, blacklist=(GVK("", "v1", "Secret"),))
    async with searching(server, folder=tmp_path, watches=(watch,)) as search:
        await search.recovery.run()
    assert [path for path, _ in search.server.lists] == ["/apis/example.com/v1/webapps"]


@pytest.mark.parametrize(
    ("watch", "kind"),
    [
        (replace(WATCH, watch_cluster_scoped_resources=True), OWNERS),
        (WATCH, replace(OWNERS, namespaced=False)),
    ],
    ids=["watchClusterScopedResources", "cluster-scoped owner"],
)
async def test_cluster_scoped_kinds_are_listed_where_they_count(tmp_path: Path, watch: Watch, kind: Kind) -> None:
    """For a watch that asks for them, and for an owner that is cluster-scoped itself."""
    item = OURS if not kind.namespaced else ANNOTATED
    nodes = Kind(kind="Node", plural="nodes", namespaced=False, pages=[[{**item, "namespace": ""}]])
    async with searching(RecoveryServer(nodes, kind), folder=tmp_path, watches=(watch,)) as search:
        await search.recovery.run()
    assert search.kinds() == ["/v1, Kind=Node"]


async def test_watched_namespaces_alone_are_listed(tmp_path: Path) -> None:
    """With WATCH_NAMESPACE each namespace is listed by itself, a cluster-scoped kind once."""
    nodes = Kind(kind="Node", plural="nodes", namespaced=False)
    watch = replace(WATCH, watch_cluster_scoped_resources=True)
    server = RecoveryServer(config_maps(), nodes)
    server.kinds.append(OWNERS)
    async with searching(server, folder=tmp_path, watches=(watch,), namespaces=("a", "b")) as search:
        await search.recovery.run()
    assert sorted(path for path, _ in search.server.lists) == [
        "/api/v1/namespaces/a/configmaps",
        "/api/v1/namespaces/b/configmaps",
        "/api/v1/nodes",
        "/apis/example.com/v1/namespaces/a/webapps",
        "/apis/example.com/v1/namespaces/b/webapps",
    ]


async def test_a_kind_is_watched_in_one_version(tmp_path: Path) -> None:
    """The server's first one, or that which `watchDependentStatus` names."""
    first = Kind(group="x.io", version="v2", kind="Thing", plural="things", pages=[[OURS]])
    second = replace(first, version="v1")
    async with searching(RecoveryServer(first, second, OWNERS), folder=tmp_path) as search:
        await search.recovery.run()
    assert search.kinds() == ["x.io/v2, Kind=Thing"]
    named = DependentStatus(gvk=GVK("x.io", "v1", "Thing"), fields=("status.a",))
    watch = replace(WATCH, watch_dependent_status=(named,))
    async with searching(RecoveryServer(first, second, OWNERS), folder=tmp_path, watches=(watch,)) as search:
        await search.recovery.run()
    assert search.kinds() == ["x.io/v1, Kind=Thing"]


READS = ["get", "list", "watch"]


@pytest.mark.parametrize(
    ("rule", "incomplete", "listed"),
    [
        ({"apiGroups": [""], "resources": ["secrets"], "verbs": READS}, False, {"secrets"}),
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, False, {"secrets", "configmaps", "webapps"}),
        ({"apiGroups": [""], "resources": ["secrets"], "verbs": READS, "resourceNames": ["a"]}, False, set()),
        ({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}, False, set()),
        ({"apiGroups": ["apps"], "resources": ["secrets"], "verbs": READS}, False, set()),
        ({"apiGroups": [], "resources": [], "verbs": []}, True, {"secrets", "configmaps", "webapps"}),
    ],
    ids=["one kind", "all", "by name", "no watch", "another group", "the server can't tell"],
)
async def test_what_may_not_be_listed_is_not_tried(
    tmp_path: Path, *, rule: Object, incomplete: bool, listed: set[str]
) -> None:
    """One review a namespace tells the rights, so that nothing is refused; where it can't tell all, all is tried."""
    server = RecoveryServer(config_maps(), Kind(kind="Secret", plural="secrets"), OWNERS)
    server.rules, server.incomplete = [rule], incomplete
    async with searching(server, folder=tmp_path, namespaces=("a",)) as search:
        await over(search)
    assert server.reviewed == ["a"]
    assert {path.rpartition("/")[2] for path, _ in server.lists} == listed


async def over(search: Search, *, rounds: int = 0) -> bool:
    """Run a search until it has looked at everything, and *rounds* of five minutes longer; tell whether it ended."""
    task = asyncio.create_task(search.recovery.run())
    await search.recovery.wait(unless=asyncio.Event(), limit=10)
    await eventually(lambda: task.done() or search.clock.sleeping)
    for _ in range(rounds):
        await search.clock.advance(300)
        await eventually(lambda: task.done() or search.clock.sleeping)
    finished = task.done()
    await ended(task)
    return finished


ALL_RIGHTS: list[Object] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@pytest.mark.parametrize("told", [True, False], ids=["known before", "refused"])
async def test_a_right_that_comes_later_heals_by_itself(tmp_path: Path, *, told: bool) -> None:
    """Every five minutes one review asks for it, quietly; then the kind is looked at, and only that one."""
    secrets = Kind(kind="Secret", plural="secrets", pages=[[OURS]], status=200 if told else 403)
    server = RecoveryServer(config_maps(), secrets, OWNERS)
    narrow = [{"apiGroups": ["", "example.com"], "resources": ["configmaps", "webapps"], "verbs": READS}]
    server.rules = narrow if told else None
    async with searching(server, folder=tmp_path) as search:
        task = asyncio.create_task(search.recovery.run())
        await search.recovery.wait(unless=asyncio.Event(), limit=10)
        server.rules = narrow
        for _ in range(3):
            await eventually(lambda: search.clock.sleeping)
            before = server.requests
            await search.clock.advance(300)
            await eventually(lambda: search.clock.sleeping)
            assert server.requests == before + 1
        assert (search.kinds(), len(search.lines("info"))) == (["/v1, Kind=ConfigMap"], 1)
        server.rules, secrets.status = ALL_RIGHTS, 200
        await search.clock.advance(300)
        await task
    assert search.kinds() == ["/v1, Kind=ConfigMap", "/v1, Kind=Secret"]
    assert (server.listed("configmaps"), server.listed("secrets")) == (1, 1 if told else 2)
    assert [line["watched"] for line in search.lines("info")] == [["/v1, Kind=ConfigMap"], ["/v1, Kind=Secret"]]


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_a_refused_kind_is_no_trouble(tmp_path: Path, status: int) -> None:
    """A missing right, or a kind that can't be listed: a debug line, and no second try while rights can't be told."""
    secrets = Kind(kind="Secret", plural="secrets", status=status)
    async with searching(RecoveryServer(config_maps(), secrets, OWNERS), folder=tmp_path) as search:
        assert await over(search, rounds=3) is (status != 403)
    assert search.kinds() == ["/v1, Kind=ConfigMap"]
    assert search.server.listed("secrets") == 1
    assert len(search.server.reviewed) == (4 if status == 403 else 1), "a review that failed may go well later"
    assert [record["kind"] for record in search.lines("debug")] == ["/v1, Kind=Secret"]
    assert len(search.lines("info")) == 1


async def test_a_server_that_cannot_tell_all_rights_is_asked_no_more(tmp_path: Path) -> None:
    """A webhook authorizes: the answer says that it isn't complete, and would say so for ever."""
    server = RecoveryServer(config_maps(), Kind(kind="Secret", plural="secrets", status=403), OWNERS)
    server.rules, server.incomplete = [], True
    async with searching(server, folder=tmp_path, namespaces=("a",)) as search:
        assert await over(search, rounds=3)
    assert server.reviewed == ["a", "a"]
    assert server.listed("secrets") == 1


NO_SECRETS: list[Object] = [{"apiGroups": ["", "example.com"], "resources": ["configmaps", "webapps"], "verbs": READS}]


@pytest.mark.parametrize(
    ("kind", "rules", "place", "asked"),
    [
        (Kind(kind="Secret", plural="secrets"), ALL_RIGHTS, "b", "b"),
        (Kind(kind="Node", plural="nodes", namespaced=False), NO_SECRETS, "", "a"),
    ],
    ids=["one namespace", "cluster"],
)
async def test_rights_are_asked_for_where_they_are_missing(
    tmp_path: Path, kind: Kind, rules: list[Object], place: str, asked: str
) -> None:
    """Only in the namespaces that lack one; for the cluster's, in any one of them."""
    server = RecoveryServer(config_maps(), kind, OWNERS)
    server.rules, server.rules_in = rules, {place: NO_SECRETS}
    watch = replace(WATCH, watch_cluster_scoped_resources=True)
    async with searching(server, folder=tmp_path, watches=(watch,), namespaces=("a", "b", "c")) as search:
        assert not await over(search, rounds=2)
    assert server.reviewed == ["a", "b", "c", asked, asked]


@pytest.mark.parametrize("aggregated", [True, False])
async def test_a_broken_aggregated_api_is_one_line_and_no_wait(tmp_path: Path, *, aggregated: bool) -> None:
    """The runs begin; when the API is back its kinds are looked at, and the others are not listed again."""
    broken = Kind(group="broken.io", kind="Thing", plural="things", pages=[[OURS]], stale=True)
    server = RecoveryServer(config_maps(), OWNERS, broken, aggregated=aggregated)
    async with searching(server, folder=tmp_path) as search:
        task = asyncio.create_task(search.recovery.run())
        await search.recovery.wait(unless=asyncio.Event(), limit=10)
        (line,) = [record for record in search.lines("info") if "error" in record]
        assert line["kind"] == "broken.io/v1"
        await eventually(lambda: search.clock.sleeping)
        await search.clock.advance(2)
        await eventually(lambda: search.clock.sleeping)
        broken.stale = False
        await search.clock.advance(4)
        await task
    assert search.kinds() == ["/v1, Kind=ConfigMap", "broken.io/v1, Kind=Thing"]
    assert search.server.listed("configmaps") == 1
    assert len([record for record in search.lines("info") if "error" in record]) == 1


async def test_runs_wait_for_an_api_server_that_is_away_and_no_longer_than_the_limit(tmp_path: Path) -> None:
    """It answers 503 at the start: the search is tried again; after ten seconds the runs begin without it."""
    async with searching(RecoveryServer(config_maps(), OWNERS), folder=tmp_path) as search:
        search.server.down = 503
        task = asyncio.create_task(search.recovery.run())
        waiting = asyncio.create_task(search.recovery.wait(unless=asyncio.Event(), limit=10))
        await eventually(lambda: search.clock.sleeping == 2)
        assert not waiting.done()
        await search.clock.advance(2)
        await eventually(lambda: search.clock.sleeping == 2)
        await search.clock.advance(8)
        await waiting
        assert "runs begin before it is done" in search.lines("info")[-1]["msg"]
        search.server.down = 0
        await eventually(lambda: search.clock.sleeping == 1)
        await search.clock.advance(10)
        await task
    assert search.kinds() == ["/v1, Kind=ConfigMap"]


async def test_without_a_right_to_discovery_runs_begin_at_once(tmp_path: Path) -> None:
    """Nothing can be looked for, and waiting would not help: a debug line."""
    async with searching(RecoveryServer(config_maps(), OWNERS), folder=tmp_path) as search:
        search.server.down = 403
        await search.recovery.run()
        await search.recovery.wait(unless=asyncio.Event(), limit=10)
    assert search.server.requests == 1
    assert [record for record in search.lines("debug") if "error" in record]


async def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    """Who is told to stop while the search goes on need not wait for it."""
    async with searching(RecoveryServer(config_maps(), OWNERS), folder=tmp_path) as search:
        search.server.held = asyncio.Event()
        task, stopped = asyncio.create_task(search.recovery.run()), asyncio.Event()
        waiting = asyncio.create_task(search.recovery.wait(unless=stopped, limit=10))
        await eventually(lambda: search.server.lists)
        assert not waiting.done()
        stopped.set()
        await waiting
        await ended(task)
        search.server.held.set()
    assert not search.lines("info")


async def test_without_watches_nothing_is_asked(tmp_path: Path) -> None:
    """An operator that wants no dependents sends no request."""
    watch = replace(WATCH, watch_dependent_resources=False)
    async with searching(RecoveryServer(config_maps(), OWNERS), folder=tmp_path, watches=(watch,)) as search:
        await search.recovery.run()
        await search.recovery.wait(unless=asyncio.Event(), limit=10)
    assert not search.server.requests
