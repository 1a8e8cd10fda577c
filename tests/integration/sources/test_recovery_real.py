"""After a restart the watches on dependents are back before a dependent is next touched: real API server."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly.run_access import RunAccess
from runner.execution.executor import RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, namespace_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import InformerSettings, KubeSettings, Settings
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS, crd, install_crd
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.identities import ROLES, new_identity
from runner.testing.waiting import eventually
from runner.watches.model import Content, Watch
from tests.integration.reconcile.conftest import Probes
from tests.integration.sources.run_session import run_session

OWNERS = GVK("recovery.sources.example.com", "v1", "Owner")
WATCH = Watch(gvk=OWNERS, content=Content(), max_concurrent_reconciles=2, watch_cluster_scoped_resources=True)
CLUSTER_ROLES = Resource(
    gvk=GVK("rbac.authorization.k8s.io", "v1", "ClusterRole"), plural="clusterroles", namespaced=False
)
DONE = "Looked for dependents of earlier runs"


class Life:
    """One life of the operator: its runs by the namespace of the one owner there, and its log."""

    def __init__(self) -> None:
        """Begin."""
        self.finished: Counter[str] = Counter()
        self.sink = RecordingSink()
        self.access = RunAccess()
        self.make: dict[str, list[tuple[Resource, str, Object]]] = {}
        """What the first run in a namespace creates: resource, namespace, body."""
        self.patched = ""
        """The name of a ConfigMap that each run patches, as a role does with what is there."""

    def executor(self, access: RunAccess) -> ScriptedExecutor:
        """Return the executor of an operator whose proxy *access* knows."""
        self.access = access
        return ScriptedExecutor(during=self._during)

    async def _during(self, request: RunRequest) -> None:
        place = namespace_of(request.obj)
        async with run_session(self.access, request) as run:
            for resource, namespace, body in self.make.pop(place, []):
                await run.create(resource, namespace=namespace, body=body)
            if self.patched:
                await run.patch(CONFIG_MAPS, namespace=place, name=self.patched, body={"data": {"wish": "1"}})
        self.finished[place] += 1

    def line(self, sentence: str) -> Object:
        """Return the one log record of *sentence*."""
        (found,) = [record for record in self.sink.records if record["msg"] == sentence]
        return dict(found)


@contextlib.asynccontextmanager
async def life(settings: Settings, *, watch: Watch = WATCH) -> AsyncIterator[Life]:
    """Let an operator live for the block."""
    living = Life()
    async with running_operator([watch], settings=settings, executor=living.executor, sink=living.sink):
        yield living


@pytest.fixture
async def owners(kube: KubeClient, namespace: str) -> Probes:
    """Give the owners of a fresh namespace."""
    resource = await install_crd(kube, crd(OWNERS.kind, group=OWNERS.group))
    return Probes(kube=kube, resource=resource, namespace=namespace)


@pytest.fixture
def settings(plane: ControlPlane, namespace: str) -> Settings:
    """Watch the test's namespace only."""
    return replace(everywhere(plane), namespaces=(namespace,))


def everywhere(plane: ControlPlane) -> Settings:
    """Watch all namespaces; however busy this machine is, runs wait for the search."""
    return replace(settings_for(plane.kubeconfig), informer=InformerSettings(search_limit=300.0))


def named(name: str) -> Object:
    """Return the body of an object of that name."""
    return {"metadata": {"name": name}}


async def earlier_life(owners: Probes, settings: Settings, *made: tuple[Resource, str, Object]) -> None:
    """Let an operator live whose run for the object `one` makes *made*."""
    async with life(settings) as first:
        await eventually(lambda: first.access.port)
        first.make = {owners.namespace: list(made)}
        await owners.create("one")
        await eventually(lambda: first.finished[owners.namespace] == 1)


async def test_a_dependent_of_an_earlier_life_is_watched_at_once(owners: Probes, settings: Settings) -> None:
    """Restarted, its first run over: the dependent is deleted, and exactly one more run follows (W7)."""
    await earlier_life(
        owners, settings, (CONFIG_MAPS, owners.namespace, named("made")), (SECRETS, owners.namespace, named("made"))
    )
    async with life(settings) as second:
        await eventually(lambda: second.finished[owners.namespace] == 1)
        await owners.kube.delete(CONFIG_MAPS, namespace=owners.namespace, name="made")
        await eventually(lambda: second.finished[owners.namespace] == 2)
        await owners.kube.delete(SECRETS, namespace=owners.namespace, name="made")
        await eventually(lambda: second.finished[owners.namespace] == 3)
    line = second.line(DONE)
    assert {str(CONFIG_MAPS.gvk), str(SECRETS.gvk)} <= set(line["watched"])


async def test_annotated_dependents_come_back_too(owners: Probes, kube: KubeClient, plane: ControlPlane) -> None:
    """One in another namespace and one of cluster scope carry annotations: a change of each starts a run (W7)."""
    all_namespaces = everywhere(plane)
    other, role = f"{owners.namespace}-other", f"{owners.namespace}-role"
    await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", **named(other)})
    try:
        await earlier_life(
            owners, all_namespaces, (CONFIG_MAPS, other, named("made")), (CLUSTER_ROLES, "", named(role))
        )
        async with life(all_namespaces) as second:
            await eventually(lambda: second.finished[owners.namespace] == 1)
            await kube.delete(CONFIG_MAPS, namespace=other, name="made")
            await eventually(lambda: second.finished[owners.namespace] == 2)
            await kube.delete(CLUSTER_ROLES, name=role)
            await eventually(lambda: second.finished[owners.namespace] == 3)
    finally:
        await kube.delete(NAMESPACES, name=other)


async def test_runs_begin_after_the_search(owners: Probes, settings: Settings) -> None:
    """Nothing runs before the kinds of dependents are known and watched."""
    await owners.create("one")
    async with life(settings) as only:
        await eventually(lambda: only.finished[owners.namespace] == 1)
    sentences = [record["msg"] for record in only.sink.records]
    assert sentences.index(DONE) < sentences.index("Starting a run")


async def test_without_rights_the_search_is_quiet(
    owners: Probes, kube: KubeClient, plane: ControlPlane, tmp_path: Path
) -> None:
    """Who may list ConfigMaps alone gets these watched; the other kinds are refused, and only debug lines say so."""
    settings = replace(everywhere(plane), namespaces=(owners.namespace,))
    await earlier_life(
        owners, settings, (CONFIG_MAPS, owners.namespace, named("made")), (SECRETS, owners.namespace, named("made"))
    )
    identity = await new_identity(kube, namespace=owners.namespace)
    await identity.grant(owners.resource, verbs=("*",))
    await identity.grant(CONFIG_MAPS)
    kubeconfig = await identity.kubeconfig(tmp_path / "narrow", source=plane.kubeconfig)
    narrow = replace(settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
    async with life(narrow, watch=replace(WATCH, manage_status=False)) as second:
        await eventually(lambda: second.finished[owners.namespace] == 1)
        await kube.delete(CONFIG_MAPS, namespace=owners.namespace, name="made")
        await eventually(lambda: second.finished[owners.namespace] == 2)
    assert second.line(DONE)["watched"] == [str(CONFIG_MAPS.gvk)]
    loud = [record["msg"] for record in second.sink.records if record["level"] != "debug"]
    assert not [sentence for sentence in loud if "look for dependents" in sentence]


async def test_a_right_that_comes_back_brings_the_watch_with_the_next_run(
    owners: Probes, kube: KubeClient, plane: ControlPlane, tmp_path: Path
) -> None:
    """Who may not list ConfigMaps at the start, and only patches what is there, gets the watch with a run's patch."""
    settings = replace(everywhere(plane), namespaces=(owners.namespace,))
    await earlier_life(owners, settings, (CONFIG_MAPS, owners.namespace, named("made")))
    identity = await new_identity(kube, namespace=owners.namespace)
    await identity.grant(owners.resource, verbs=("*",))
    await identity.grant(CONFIG_MAPS, verbs=("get", "patch"))
    kubeconfig = await identity.kubeconfig(tmp_path / "narrow", source=plane.kubeconfig)
    narrow = replace(settings, kube=KubeSettings(kubeconfig=str(kubeconfig)))
    async with life(narrow, watch=replace(WATCH, manage_status=False)) as second:
        await eventually(lambda: second.finished[owners.namespace] == 1)
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch", "watch"]}
        name = f"{identity.name}-{CONFIG_MAPS.plural}"
        await kube.patch(ROLES, namespace=owners.namespace, name=name, body={"rules": [rule]})
        second.patched = "made"
        await kube.patch(owners.resource, namespace=owners.namespace, name="one", body={"spec": {"n": 1}})
        await eventually(lambda: second.finished[owners.namespace] >= 2)
        watching = {"msg": "Watching", "gvk": str(CONFIG_MAPS.gvk)}
        await eventually(lambda: any(watching.items() <= record.items() for record in second.sink.records))
        second.patched = ""
        done = second.finished[owners.namespace]
        await kube.delete(CONFIG_MAPS, namespace=owners.namespace, name="made")
        await eventually(lambda: second.finished[owners.namespace] > done)


async def test_a_watch_that_wants_no_dependents_is_not_searched_for(owners: Probes, settings: Settings) -> None:
    """With `watchDependentResources: false` nothing is listed at the start."""
    await owners.create("one")
    async with life(settings, watch=replace(WATCH, watch_dependent_resources=False)) as only:
        await eventually(lambda: only.finished[owners.namespace] == 1)
    assert not [record for record in only.sink.records if record["msg"] == DONE]
