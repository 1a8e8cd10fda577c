"""Field cases W4, W6 and W7: what others do to the objects that runs made."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.errors import NotFound
from runner.execution.executor import RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import Object, annotations_of, conditions_of, name_of, uid_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, crd, install_crd, remove_crd, wait_until
from runner.testing.faults import HttpFaultProxy
from runner.testing.harness import running_operator
from runner.testing.identities import new_identity
from runner.watches.model import Content, DependentStatus, Watch
from tests.integration.cases.acting import CLAIMS, CLUSTER_ROLES, DEPLOYMENTS, Acting, applied, shell
from tests.integration.reconcile.conftest import Probes

GROUP = "dependents.example.com"
TYPE, OWNER = "operator-sdk/primary-resource-type", "operator-sdk/primary-resource"


def deployment(name: str) -> Object:
    """Return a Deployment to which its controller adds nothing but status: it is paused, and has no Pods."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]}}
    spec = {"paused": True, "replicas": 0, "minReadySeconds": 0, "selector": {"matchLabels": labels}, "template": pod}
    return shell(DEPLOYMENTS, name, spec=spec)


def claim(name: str) -> Object:
    """Return a PersistentVolumeClaim that nobody binds."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Mi"}}}
    return shell(CLAIMS, name, spec=spec)


async def patched(kube: KubeClient, name: str, body: Object, *, namespace: str, subresource: str = "") -> None:
    """Change a Deployment as somebody else."""
    await kube.patch(DEPLOYMENTS, namespace=namespace, name=name, body=body, subresource=subresource)


async def deployment_barrier(kube: KubeClient, acting: Acting, *, namespace: str) -> None:
    """Change the Deployment `barrier`, and wait for its owner's run: all earlier events of Deployments were seen."""
    runs = len(acting.executor.runs_of("barrier"))
    spec = {"spec": {"minReadySeconds": 7}}
    await patched(kube, "barrier", spec, namespace=namespace)
    await wait_until(acting.ran("barrier", runs + 1), what="the barrier's run")


@pytest.mark.parametrize("patches", [20, pytest.param(150, marks=pytest.mark.full)])
async def test_dependents_start_no_endless_loop(
    probes: Probes, watch: Watch, settings: Settings, kube: KubeClient, tmp_path: Path, patches: int
) -> None:
    """Any number of status patches is no run, one spec patch is one, one deletion is one (field case W6)."""

    async def act(client: KubeClient, request: RunRequest) -> None:
        name = name_of(request.obj)
        await applied(client, DEPLOYMENTS, deployment(name), namespace=probes.namespace)
        await applied(client, CLAIMS, claim(name), namespace=probes.namespace)

    acting = Acting(folder=tmp_path, act=act)
    where: dict[str, Any] = {"namespace": probes.namespace}
    async with running_operator([watch], settings=settings, executor=acting):
        for name in ("one", "barrier"):
            await probes.create(name)
            await wait_until(acting.ran(name, 1), what="the first run")
            await wait_until(partial(_observed, kube, name, **where), what="the Deployment's controller")
        await deployment_barrier(kube, acting, **where)
        assert len(acting.executor.runs_of("one")) == 1  # what it made itself starts nothing
        for number in range(patches):
            condition = {"type": "Case", "status": "True", "reason": f"n{number}"}
            await patched(kube, "one", {"status": {"conditions": [condition]}}, subresource="status", **where)
        await deployment_barrier(kube, acting, **where)
        assert len(acting.executor.runs_of("one")) == 1
        await patched(kube, "one", {"spec": {"minReadySeconds": 5}}, **where)
        await wait_until(acting.ran("one", 2), what="the run of the spec's patch")
        await wait_until(lambda: _has(kube, "one", seconds=0, **where), what="the spec to be put back")
        await deployment_barrier(kube, acting, **where)
        assert len(acting.executor.runs_of("one")) == 2
        before = uid_of(await kube.get(DEPLOYMENTS, name="one", **where))
        await kube.delete(DEPLOYMENTS, name="one", **where)
        await wait_until(acting.ran("one", 3), what="the run of the deletion")
        await wait_until(lambda: _another(kube, "one", uid=before, **where), what="the Deployment to be back")
        await deployment_barrier(kube, acting, **where)
        assert len(acting.executor.runs_of("one")) == 3


async def test_a_followed_status_field_starts_a_run(
    probes: Probes, watch: Watch, settings: Settings, kube: KubeClient, tmp_path: Path
) -> None:
    """`watchDependentStatus` takes one field out of the noise; a run that finds it as it was ends it."""
    seen: list[str] = []

    async def act(client: KubeClient, request: RunRequest) -> None:
        await applied(client, CLAIMS, claim(name_of(request.obj)), namespace=probes.namespace)
        found = await client.get(CLAIMS, namespace=probes.namespace, name=name_of(request.obj))
        seen.append(str(conditions_of(found)[0]["status"] if conditions_of(found) else ""))

    acting = Acting(folder=tmp_path, act=act)
    fields = ("status.conditions[type=Case].status",)
    following = replace(watch, watch_dependent_status=(DependentStatus(gvk=CLAIMS.gvk, fields=fields),))

    async def write(status: str, message: str) -> None:
        conditions = [{"type": "Case", "status": status, "message": message}]
        await kube.patch(
            CLAIMS,
            namespace=probes.namespace,
            name="one",
            body={"status": {"conditions": conditions}},
            subresource="status",
        )

    async with running_operator([following], settings=settings, executor=acting):
        await probes.create("one")
        await wait_until(acting.ran("one", 1), what="the first run")
        await write("False", "a")
        await wait_until(acting.ran("one", 2), what="the run of the new value")
        for message in ("b", "c"):
            await write("False", message)
        await write("True", "d")
        await wait_until(acting.ran("one", 3), what="the run of the last value")
    assert seen == ["", "False", "True"]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the objects of field case W7 are."""

    kube: KubeClient
    namespace: str
    other: str
    made: str
    """The Namespace that a run makes, and the ClusterRole."""

    async def act(self, client: KubeClient, request: RunRequest) -> None:
        """Make an object of each shape."""
        name, data = name_of(request.obj), {"k": "v"}
        for namespace in (self.namespace, self.other):
            await applied(client, CONFIG_MAPS, shell(CONFIG_MAPS, name, data=data), namespace=namespace)
        await applied(client, NAMESPACES, shell(NAMESPACES, self.made))
        await applied(client, CLUSTER_ROLES, shell(CLUSTER_ROLES, self.made, rules=[]))

    async def delete(self, resource: Resource, *, namespace: str = "") -> None:
        """Delete the object of one shape by hand."""
        name = "one" if resource == CONFIG_MAPS else self.made
        await self.kube.delete(resource, name=name, namespace=namespace)

    async def label(self, value: str) -> None:
        """Change the Namespace by hand: its deletion would take a while."""
        await self.kube.patch(NAMESPACES, name=self.made, body={"metadata": {"labels": {"case": value}}})


@pytest.fixture
async def places(kube: KubeClient, namespace: str) -> AsyncIterator[Places]:
    """Give a second namespace, and names for cluster-scoped objects, which are gone afterwards."""
    other = f"test-{secrets.token_hex(4)}"
    made = f"test-{secrets.token_hex(4)}"
    await kube.create(NAMESPACES, body=shell(NAMESPACES, other))
    yield Places(kube=kube, namespace=namespace, other=other, made=made)
    for resource, name in ((NAMESPACES, other), (NAMESPACES, made), (CLUSTER_ROLES, made)):
        try:
            await kube.delete(resource, name=name)
        except NotFound:
            continue


@pytest.mark.parametrize("asked", [False, True])
async def test_dependents_elsewhere_are_annotated_and_watched(
    probes: Probes,
    watch: Watch,
    settings: Settings,
    places: Places,
    sink: RecordingSink,
    tmp_path: Path,
    *,
    asked: bool,
) -> None:
    """Each of the four shapes is marked by the rules, and starts its owner's run by them, after a restart too (W7)."""
    acting = Acting(folder=tmp_path, act=places.act)
    watching = replace(watch, watch_cluster_scoped_resources=asked)
    both = replace(settings, namespaces=(places.namespace, places.other))
    async with running_operator([watching], settings=both, executor=acting, sink=sink):
        await probes.create("one")
        await wait_until(acting.ran("one", 1), what="the first run")
        await _check_marks(places.kube, places)
        await _touch_each(places, acting, asked=asked)
    refused = [record for record in sink.records if record["msg"] == "Resource will not be watched/cached."]
    kinds = [] if asked else [str(NAMESPACES.gvk), str(CLUSTER_ROLES.gvk)]
    assert [record["dependent"] for record in refused] == kinds

    idle = Acting(folder=tmp_path, act=_nothing)  # what the first operator made is there, and nothing is asked for
    async with running_operator([watching], settings=both, executor=idle):
        await wait_until(idle.ran("one", 1), what="the run of the start")
        await _touch_each(places, idle, asked=asked)


async def _touch_each(places: Places, acting: Acting, *, asked: bool) -> None:
    """Touch each shape by hand, one after the other: the owner has had one run, and has one more for each."""
    await places.label(secrets.token_hex(2))
    if asked:
        await wait_until(acting.ran("one", 2), what="the run of the Namespace")
    await places.delete(CLUSTER_ROLES)
    before = 3 if asked else 1
    await wait_until(acting.ran("one", before), what="the run of the ClusterRole")
    await places.delete(CONFIG_MAPS, namespace=places.namespace)
    await wait_until(acting.ran("one", before + 1), what="the run of the ConfigMap beside its owner")
    await places.delete(CONFIG_MAPS, namespace=places.other)
    await wait_until(acting.ran("one", before + 2), what="the run of the ConfigMap elsewhere")
    assert len(acting.executor.runs_of("one")) == before + 2


@pytest.fixture
async def wide(kube: KubeClient) -> AsyncIterator[Resource]:
    """Give a cluster-scoped kind, which goes afterwards."""
    body = crd(f"Wide{secrets.token_hex(4)}", group=GROUP, namespaced=False)
    yield await install_crd(kube, body)
    await remove_crd(kube, name_of(body))


async def test_a_cluster_scoped_owner_has_references_everywhere(
    wide: Resource, settings: Settings, places: Places, tmp_path: Path
) -> None:
    """Its dependents in a namespace and in none refer to it, and start its run without any further key (W7)."""
    acting, kube = Acting(folder=tmp_path, act=places.act), places.kube
    both = replace(settings, namespaces=(places.namespace, places.other))
    async with running_operator([Watch(gvk=wide.gvk, content=Content())], settings=both, executor=acting):
        await kube.create(wide, body={**shell(wide, "one"), "spec": {}})
        await wait_until(acting.ran("one", 1), what="the first run")
        for resource, namespace in ((CONFIG_MAPS, places.namespace), (CONFIG_MAPS, places.other), (CLUSTER_ROLES, "")):
            name = "one" if namespace else places.made
            found = await kube.get(resource, namespace=namespace, name=name)
            (reference,) = found["metadata"]["ownerReferences"]
            assert (reference["kind"], reference["name"]) == (wide.gvk.kind, "one")
            assert OWNER not in annotations_of(found)
            runs = len(acting.executor.runs_of("one"))
            await places.delete(resource, namespace=namespace)
            await wait_until(acting.ran("one", runs + 1), what="the run of the deletion")
        assert len(acting.executor.runs_of("one")) == 4


async def test_dependents_in_two_namespaces_need_roles_there_only(
    probes: Probes,
    watch: Watch,
    settings: Settings,
    places: Places,
    plane: ControlPlane,
    sink: RecordingSink,
    tmp_path: Path,
) -> None:
    """With `WATCH_NAMESPACE` and Roles both namespaces' dependents are watched; no list spans the cluster (case W4)."""
    kube, where = places.kube, (places.namespace, places.other)
    identity = await new_identity(kube, namespace=places.namespace)
    verbs = ("get", "list", "watch", "create", "update", "patch")
    for namespace in where:
        await identity.grant(probes.resource, namespace=namespace, verbs=verbs)
        await identity.grant(CONFIG_MAPS, namespace=namespace, verbs=verbs)

    async def act(client: KubeClient, request: RunRequest) -> None:
        body = shell(CONFIG_MAPS, name_of(request.obj), data={"k": "v"})
        await applied(client, CONFIG_MAPS, body, namespace=str(request.obj["metadata"]["namespace"]))

    acting = Acting(folder=tmp_path, act=act)
    plain = replace(watch, manage_status=False)
    kubeconfig = await identity.kubeconfig(tmp_path / "narrow", source=plane.kubeconfig)
    async with HttpFaultProxy(upstream_kubeconfig=kubeconfig) as api:
        kube_settings = KubeSettings(kubeconfig=str(api.kubeconfig(tmp_path / "api")))
        narrow = replace(settings, kube=kube_settings, namespaces=where)
        async with running_operator([plain], settings=narrow, executor=acting, sink=sink):
            await probes.create("one")
            await replace(probes, namespace=places.other).create("two")
            for name, namespace in (("one", places.namespace), ("two", places.other)):
                await wait_until(acting.ran(name, 1), what="the first run")
                await kube.delete(CONFIG_MAPS, namespace=namespace, name=name)
                await wait_until(acting.ran(name, 2), what="the run of the deletion")
        paths = [record.path for record in api.requests]
    assert [path for path in paths if re.match(r"/api/v1/configmaps", path)] == []
    assert sorted(name_of(request.obj) for request in acting.executor.requests) == ["one", "one", "two", "two"]
    assert [record for record in sink.records if record["level"] == "error"] == []


async def _check_marks(kube: KubeClient, places: Places) -> None:
    own = await kube.get(CONFIG_MAPS, namespace=places.namespace, name="one")
    assert [reference["kind"] for reference in own["metadata"]["ownerReferences"]] == ["Probe"]
    assert OWNER not in annotations_of(own)
    others = (
        await kube.get(CONFIG_MAPS, namespace=places.other, name="one"),
        await kube.get(NAMESPACES, name=places.made),
        await kube.get(CLUSTER_ROLES, name=places.made),
    )
    for obj in others:
        assert "ownerReferences" not in obj["metadata"]
        assert annotations_of(obj)[OWNER] == f"{places.namespace}/one"
        assert annotations_of(obj)[TYPE] == "Probe.bugs.example.com"


async def _nothing(_client: KubeClient, _request: RunRequest) -> None:
    """Make nothing."""


async def _another(kube: KubeClient, name: str, *, namespace: str, uid: str) -> bool:
    try:
        return uid_of(await kube.get(DEPLOYMENTS, namespace=namespace, name=name)) != uid
    except NotFound:
        return False


async def _has(kube: KubeClient, name: str, *, namespace: str, seconds: int) -> bool:
    found = await kube.get(DEPLOYMENTS, namespace=namespace, name=name)
    return bool(found["spec"].get("minReadySeconds", 0) == seconds)


async def _observed(kube: KubeClient, name: str, *, namespace: str) -> bool:
    found = await kube.get(DEPLOYMENTS, namespace=namespace, name=name)
    return bool(found["metadata"]["generation"] == (found.get("status") or {}).get("observedGeneration"))
