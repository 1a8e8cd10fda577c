"""The common kind of the field cases, `Probe` in bugs.example.com, and what operators for it need."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from runner.assembly import Surroundings, play_executor
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.execution.executor import Executor
from runner.kube.client import KubeClient
from runner.kube.objects import GVK, Object, name_of, resource_version_of
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.settings import Settings
from runner.sources.store import ChangeKind
from runner.testing.cluster import crd, install_crd
from runner.testing.harness import ExecutorFor, settings_for
from runner.testing.informers import Site, Watched, watching
from runner.testing.waiting import eventually
from runner.testing.warm import SharedWarm, environ_of_tests
from runner.watches.model import Content, Watch
from tests.integration.reconcile.conftest import Probes

PROBES = GVK("bugs.example.com", "v1", "Probe")


@pytest.fixture
async def probes(kube: KubeClient, namespace: str) -> AsyncIterator[Probes]:
    """Give the Probes of a fresh namespace; the finalizers of those that are left are taken off at the end."""
    async with objects_of(kube, crd("Probe", group=PROBES.group), namespace=namespace) as probes:
        yield probes


@contextlib.asynccontextmanager
async def objects_of(kube: KubeClient, definition: Object, *, namespace: str) -> AsyncIterator[Probes]:
    """Install a CRD and give its objects in *namespace*; what is left at the end loses its finalizers."""
    resource = await install_crd(kube, definition)
    probes = Probes(kube=kube, resource=resource, namespace=namespace)
    yield probes
    for name in await probes.names():
        await probes.patch(name, {"metadata": {"finalizers": None}})


@pytest.fixture
def watch() -> Watch:
    """Watch Probes, one worker, no finalizer; the role is never looked at by a scripted executor."""
    return Watch(gvk=PROBES, content=Content())


@pytest.fixture
def settings(plane: ControlPlane, namespace: str, tmp_path: Path) -> Settings:
    """Return settings for the plane: the test's namespace only, no periodic runs, run folders in the test's folder."""
    base = settings_for(plane.kubeconfig, period=timedelta(0))
    execution = replace(base.execution, runner_dir=tmp_path / "runner", environ=environ_of_tests(), kill_grace=2.0)
    return replace(base, namespaces=(namespace,), execution=execution)


@pytest.fixture
def sink() -> RecordingSink:
    """Return a place for log records."""
    return RecordingSink()


@pytest.fixture
def plays(settings: Settings, sink: RecordingSink, warm_server: SharedWarm) -> ExecutorFor:
    """Return what makes the executor that really runs Ansible: warm, as in the product."""

    def executor(access: RunAccess) -> Executor:
        around = Surroundings(settings=settings, access=access, logger=Logger(sink=sink), clock=SystemClock())
        return play_executor(warm_server, around=around)

    return executor


Playbook = Callable[[str, str], Content]


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    """Return a function that writes a playbook `(file name, tasks)` of tasks on localhost."""

    def write(name: str, tasks: str) -> Content:
        path = tmp_path / name
        play = {"hosts": "localhost", "gather_facts": False, "tasks": yaml.safe_load(tasks)}
        path.write_text(yaml.safe_dump([play]))
        return Content(playbook=path)

    return write


@pytest.fixture
async def history(plane: ControlPlane, probes: Probes, tmp_path: Path) -> AsyncIterator[Watched]:
    """Watch the Probes of the namespace, and keep every state of them that the API server tells."""
    async with history_of(probes, plane=plane, folder=tmp_path) as watched:
        yield watched


def history_of(probes: Probes, *, plane: ControlPlane, folder: Path) -> AbstractAsyncContextManager[Watched]:
    """Watch *probes*, and keep every state of them that the API server tells."""
    site = Site(kubeconfig=plane.kubeconfig, client=probes.kube, namespace=probes.namespace, folder=folder)
    return watching(site, kubeconfig=plane.kubeconfig, gvk=probes.resource.gvk)


async def states_until(watched: Watched, last: Object) -> list[Object]:
    """Return every state of an object in its order, up to *last*."""
    version = resource_version_of(last)

    def states() -> list[Object]:
        return [c.obj for c in watched.changes if name_of(c.obj) == name_of(last) and c.kind is not ChangeKind.DELETED]

    await eventually(lambda: any(resource_version_of(obj) == version for obj in states()))
    return states()
