"""A run's own writes start no further run of its owner; everybody else's do: real API server, real proxy."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from runner.assembly.run_access import RunAccess
from runner.execution.executor import RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.events import EVENTS
from runner.kube.objects import GVK, Object, name_of, uid_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import CONFIG_MAPS, crd, install_crd, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.waiting import eventually
from runner.watches.model import Content, Watch
from tests.integration.reconcile.conftest import Probes
from tests.integration.sources.run_session import RunSession, run_session

OWNERS = GVK("own.sources.example.com", "v1", "Owner")
DEPLOYMENTS = Resource(gvk=GVK("apps", "v1", "Deployment"), plural="deployments")
Script = Callable[[RunSession, int], Awaitable[object]]
"""What a run does; gets its number, from 1 on."""
WATCH = Watch(gvk=OWNERS, content=Content(), max_concurrent_reconciles=4)


@dataclass(kw_only=True)
class Site:
    """An operator at work, and the runs of each of its objects."""

    owners: Probes
    scripts: dict[str, Script] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    sink: RecordingSink = field(default_factory=RecordingSink)
    access: RunAccess = field(default_factory=RunAccess)

    @property
    def kube(self) -> KubeClient:
        """Return an administrator's client."""
        return self.owners.kube

    @property
    def namespace(self) -> str:
        """Return the test's namespace."""
        return self.owners.namespace

    def executor(self, access: RunAccess) -> ScriptedExecutor:
        """Return the executor of an operator whose proxy *access* knows."""
        self.access = access
        return ScriptedExecutor(during=self.during)

    async def during(self, request: RunRequest) -> None:
        """Play the script of the object of *request*."""
        name = name_of(request.obj)
        self.runs[name] += 1
        script = self.scripts.get(name)
        if script is not None:
            async with run_session(self.access, request) as run:
                await script(run, self.runs[name])
        self.finished[name] += 1

    async def owner(self, name: str, *, script: Script | None = None) -> None:
        """Create an owner, and wait until it was run once."""
        if script is not None:
            self.scripts[name] = script
        await self.owners.create(name)
        await eventually(lambda: self.finished[name] == 1)

    async def touch(self, name: str, *, resource: Resource = CONFIG_MAPS, **labels: str) -> Object:
        """Change a dependent by hand."""
        body: Object = {"metadata": {"labels": labels or {"by": "hand"}}}
        return await self.kube.patch(resource, namespace=self.namespace, name=name, body=body)

    async def barrier(self) -> None:
        """Return when the watch on ConfigMaps has told of everything before, and the queue had time for it.

        The object `barrier` has a dependent of its own; a change of that is seen after all earlier ones, and its
        owner's run starts after all that are due by then.
        """
        before = self.finished["barrier"]
        await self.touch("barrier", number=str(before))
        await eventually(lambda: self.finished["barrier"] > before)

    async def events_of(self, name: str) -> list[tuple[str, str]]:
        """Return type and message of the Events about one of the owners that tell of dependents."""
        found = await self.kube.list(EVENTS, namespace=self.namespace)
        return [
            (event["type"], event["message"])
            for event in found
            if event["involvedObject"]["name"] == name and event["reason"].startswith("Dependent")
        ]


@pytest.fixture
def settings(plane: ControlPlane, namespace: str) -> Settings:
    """Watch the test's namespace only."""
    return replace(settings_for(plane.kubeconfig), namespaces=(namespace,))


@pytest.fixture
async def site(kube: KubeClient, namespace: str, settings: Settings) -> AsyncIterator[Site]:
    """Give an operator with an owner `barrier` that has a dependent."""
    resource = await install_crd(kube, crd(OWNERS.kind, group=OWNERS.group))
    site = Site(owners=Probes(kube=kube, resource=resource, namespace=namespace))
    async with running_operator([WATCH], settings=settings, executor=site.executor, sink=site.sink):
        await eventually(lambda: site.access.port)
        await site.owner("barrier", script=once(lambda run: make(run, namespace, "barrier")))
        yield site


def once(step: Callable[[RunSession], Awaitable[object]]) -> Script:
    """Return a script that does *step* in the first run, and nothing in later ones."""

    async def script(run: RunSession, number: int) -> None:
        if number == 1:
            await step(run)

    return script


async def make(run: RunSession, namespace: str, name: str) -> Object:
    """Create a ConfigMap."""
    return await run.create(CONFIG_MAPS, namespace=namespace, body={"metadata": {"name": name}, "data": {"size": "3"}})


async def test_what_a_run_writes_itself_starts_no_further_run(site: Site) -> None:
    """Create, patch, replace, a patch that changes nothing, delete, create anew: one run; a hand: one more."""

    async def step(run: RunSession) -> None:
        made = await make(run, site.namespace, "own")
        await run.patch(CONFIG_MAPS, namespace=site.namespace, name="own", body={"data": {"size": "4"}})
        await run.patch(CONFIG_MAPS, namespace=site.namespace, name="own", body={"data": {"size": "4"}})
        body = {**made, "data": {"size": "5"}, "metadata": {"name": "own"}}
        await run.call("PUT", CONFIG_MAPS.path(namespace=site.namespace, name="own"), body=body)
        await run.delete(CONFIG_MAPS, namespace=site.namespace, name="own")
        await make(run, site.namespace, "own")
        await site.barrier()  # the watch has told all of that while the run goes on

    await site.owner("one", script=once(step))
    await site.barrier()
    assert site.runs["one"] == 1
    await site.touch("own")
    await eventually(lambda: site.finished["one"] == 2)
    await site.barrier()
    assert site.runs["one"] == 2


async def test_a_collection_that_a_run_deletes_starts_no_further_run(site: Site) -> None:
    """What is made and deleted with others, held by a finalizer or not: one run."""
    label = "labelSelector=swept%3Dyes"

    async def step(run: RunSession) -> None:
        for name, finalizers in (("plain", []), ("held", ["example.com/hold"])):
            meta = {"name": name, "labels": {"swept": "yes"}, "finalizers": finalizers}
            await run.create(CONFIG_MAPS, namespace=site.namespace, body={"metadata": meta})
        deleted = await run.call("DELETE", f"{CONFIG_MAPS.path(namespace=site.namespace)}?{label}")
        assert sorted(map(name_of, deleted["items"])) == ["held", "plain"]
        await site.barrier()  # the watch has told all of that while the run goes on

    await site.owner("one", script=once(step))
    await site.barrier()
    await site.barrier()  # a run that follows at once would have begun by then
    assert site.runs["one"] == 1
    released = {"metadata": {"finalizers": None}}
    await site.kube.patch(CONFIG_MAPS, namespace=site.namespace, name="held", body=released)


async def test_the_status_of_an_old_autoscaler_starts_no_run(site: Site) -> None:
    """What a controller writes into an autoscaler's status stands in annotations of the version v1."""
    old, new = (
        Resource(gvk=GVK("autoscaling", version, "HorizontalPodAutoscaler"), plural="horizontalpodautoscalers")
        for version in ("v1", "v2")
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    body: Object = {"metadata": {"name": "scaler"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
    await site.owner("one", script=once(lambda run: run.create(old, namespace=site.namespace, body=body)))
    last: Object = {**body, "metadata": {"name": "last"}}
    await site.owner("two", script=once(lambda run: run.create(old, namespace=site.namespace, body=last)))

    async def status(value: str) -> None:
        metric = {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": value}}}
        wish = {"status": {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": [metric], "conditions": []}}
        await site.kube.patch(new, namespace=site.namespace, name="scaler", subresource="status", body=wish)

    for value in ("1", "2"):
        await status(value)
        seen = await site.kube.get(old, namespace=site.namespace, name="scaler")
        assert "autoscaling.alpha.kubernetes.io/current-metrics" in seen["metadata"]["annotations"]
    await site.touch("last", resource=old)
    await eventually(lambda: site.finished["two"] == 2)  # the watch has told all that came before
    assert site.runs["one"] == 1


async def test_what_the_run_of_another_owner_writes_starts_one(site: Site) -> None:
    """A dependent of one owner that another owner's run changes is put back by the first one's run."""
    await site.owner("one", script=once(lambda run: make(run, site.namespace, "own")))

    async def meddle(run: RunSession) -> None:
        await run.patch(CONFIG_MAPS, namespace=site.namespace, name="own", body={"data": {"size": "9"}})

    await site.owner("two", script=once(meddle))
    await eventually(lambda: site.finished["one"] == 2)
    await site.barrier()
    assert (site.runs["one"], site.runs["two"]) == (2, 1)


async def test_scaling_by_a_run_is_its_own_and_by_hand_is_told(site: Site) -> None:
    """A run that scales its Deployment starts no run; `kubectl scale` does, and log and Event say 3 and 10."""
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    body: Object = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
    }

    async def step(run: RunSession) -> None:
        await run.create(DEPLOYMENTS, namespace=site.namespace, body=body)
        scale = {"spec": {"replicas": 3}}
        await run.patch(DEPLOYMENTS, namespace=site.namespace, name="web", body=scale, subresource="scale")

    await site.owner("one", script=once(step))

    async def revision() -> bool:  # the controller's annotation starts a run, as it does on the peer
        live = await site.kube.get(DEPLOYMENTS, namespace=site.namespace, name="web")
        return live.get("status", {}).get("observedGeneration") == 2 and site.finished["one"] >= 2

    await wait_until(revision, what="the controller to see the Deployment")
    before = site.finished["one"]
    ten = {"spec": {"replicas": 10}}
    await site.kube.patch(DEPLOYMENTS, namespace=site.namespace, name="web", body=ten, subresource="scale")
    await eventually(lambda: site.finished["one"] > before)
    (line,) = [record for record in site.sink.records if record["msg"] == "Dependent changed"]
    assert line["dependent"] == f"Deployment {site.namespace}/web"
    assert line["fields"] == [{"field": "spec.replicas", "desired": "3", "actual": "10"}]
    told = await wait_until(lambda: site.events_of("one"), what="the Event")
    text = f"Deployment {site.namespace}/web was changed: spec.replicas desired 3, actual 10; the role runs again"
    assert told == [("Normal", text)]


async def test_a_deletion_by_hand_is_told_and_starts_one_run(site: Site) -> None:
    """A dependent that somebody deletes: one run, one line, one Event."""
    await site.owner("one", script=once(lambda run: make(run, site.namespace, "own")))
    await site.kube.delete(CONFIG_MAPS, namespace=site.namespace, name="own")
    await eventually(lambda: site.finished["one"] == 2)
    told = await wait_until(lambda: site.events_of("one"), what="the Event")
    assert told == [("Normal", f"ConfigMap {site.namespace}/own was deleted; the role runs again")]
    await site.barrier()
    assert site.runs["one"] == 2


async def test_what_goes_after_the_run_that_deleted_it_starts_one(site: Site) -> None:
    """A dependent with a finalizer: its deletion is asked for within the run, and it goes when the run is over."""

    async def step(run: RunSession) -> None:
        await make(run, site.namespace, "own")
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await run.patch(CONFIG_MAPS, namespace=site.namespace, name="own", body=held)
        await run.delete(CONFIG_MAPS, namespace=site.namespace, name="own")

    await site.owner("one", script=once(step))
    await site.barrier()
    assert site.runs["one"] == 1
    free: Object = {"metadata": {"finalizers": None}}
    await site.kube.patch(CONFIG_MAPS, namespace=site.namespace, name="own", body=free)
    await eventually(lambda: site.finished["one"] >= 2)


async def test_dependents_of_an_owner_that_is_deleted_are_no_drift(site: Site) -> None:
    """The garbage collector takes what a deleted owner leaves: no run, no line that somebody deleted it."""
    await site.owner("one", script=once(lambda run: make(run, site.namespace, "own")))
    await site.owners.delete("one")

    async def collected() -> bool:
        names = [name_of(obj) for obj in await site.kube.list(CONFIG_MAPS, namespace=site.namespace)]
        return "own" not in names

    await wait_until(collected, what="the garbage collector")
    await site.barrier()
    assert site.runs["one"] == 1
    assert not [r for r in site.sink.records if r["msg"] == "Dependent deleted" and r["name"] == "one"]


async def test_two_owners_of_one_dependent_come_to_rest(site: Site) -> None:
    """Two owners whose runs write the same dependent to the same end start each other at most once."""

    async def step(run: RunSession, number: int) -> None:
        if number > 1:
            await run.patch(CONFIG_MAPS, namespace=site.namespace, name="own", body={"data": {"size": "7"}})

    await asyncio.gather(site.owner("one", script=step), site.owner("two", script=step))
    gvk = site.owners.resource.gvk
    references = [
        {"apiVersion": gvk.api_version, "kind": gvk.kind, "name": name, "uid": uid_of(await site.owners.get(name))}
        for name in ("one", "two")
    ]
    body: Object = {"metadata": {"name": "own", "ownerReferences": references}, "data": {"size": "3"}}
    await site.kube.create(
        CONFIG_MAPS, namespace=site.namespace, body={"apiVersion": "v1", "kind": "ConfigMap", **body}
    )
    await site.touch("own")
    await eventually(lambda: site.finished["one"] >= 2 and site.finished["two"] >= 2)
    await site.barrier()
    await site.barrier()
    assert max(site.runs["one"], site.runs["two"]) <= 3
