"""The janitor inside a whole operator: it believes its informers, and nothing else."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runner.clock import SystemClock
from runner.execution.files import private_folder
from runner.execution.janitor import INTERVAL
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.waiting import eventually
from runner.watches.model import Content, Watch

SWEPT = GVK("execution.example.com", "v1", "Swept")
WATCH = Watch(gvk=SWEPT, content=Content())
REMOVED = "Removed run folders of deleted objects"


class SweepClock(SystemClock):
    """The machine's clock, but for the time between two sweeps: a test says when it is over."""

    def __init__(self) -> None:
        """Wait."""
        self._turn = asyncio.Event()
        self.sweeps = 0

    async def sleep(self, seconds: float) -> None:
        """Wait for the test where the janitor waits."""
        if seconds != INTERVAL:
            await super().sleep(seconds)
            return
        self.sweeps += 1
        self._turn.clear()
        await self._turn.wait()

    async def sweep(self) -> None:
        """Let the janitor sweep once, and return when it has."""
        before = self.sweeps
        self._turn.set()
        await eventually(lambda: self.sweeps > before)


@pytest.fixture
async def kind(kube: KubeClient) -> Resource:
    """Give the kind."""
    return await install_crd(kube, crd("Swept", group=SWEPT.group))


@pytest.fixture
def settings(plane: ControlPlane, namespace: str, tmp_path: Path) -> Settings:
    """Return settings that watch only the test's namespace, with run folders of the test's own."""
    base = replace(settings_for(plane.kubeconfig, period=timedelta(0)), namespaces=(namespace,))
    return replace(base, execution=replace(base.execution, runner_dir=tmp_path / "runner"))


def _folder(settings: Settings, *, namespace: str, name: str) -> Path:
    """Make a run folder that was used last in 1970."""
    path = private_folder(settings.execution.runner_dir / "execution.example.com/v1/Swept" / namespace / name)
    (path / "env").mkdir()
    os.utime(path, (0, 0))
    return path


async def test_folders_of_objects_that_are_gone_go(
    kube: KubeClient, kind: Resource, namespace: str, settings: Settings
) -> None:
    """Also of those deleted while no operator ran; a living object's stays, and one in a namespace of others."""
    body = {"apiVersion": SWEPT.api_version, "kind": "Swept", "spec": {}}
    for name in ("lives", "deleted"):
        await kube.create(kind, namespace=namespace, body={**body, "metadata": {"name": name}})
    lives, deleted, before = (
        _folder(settings, namespace=namespace, name=name) for name in ("lives", "deleted", "deleted-before")
    )
    foreign = _folder(settings, namespace="of-another-operator", name="lives")
    clock, sink, executor = SweepClock(), RecordingSink(), ScriptedExecutor()
    async with running_operator(
        [WATCH], settings=settings, executor=executor, sink=sink, adjust=lambda shared: replace(shared, clock=clock)
    ):
        await eventually(lambda: len(executor.requests) == 2)
        await clock.sweep()
        assert [path.exists() for path in (lives, deleted, before, foreign)] == [True, True, False, True]
        await kube.delete(kind, namespace=namespace, name="deleted")
        await _sweep_until_gone(deleted, clock=clock)
        assert (lives.exists(), foreign.exists()) == (True, True)
    told = [record["folders"] for record in sink.records if record["msg"] == REMOVED]
    assert told == [[str(before)], [str(deleted)]]


async def _sweep_until_gone(path: Path, *, clock: SweepClock) -> None:
    """Sweep until the informer has seen the deletion."""
    async with asyncio.timeout(60):
        while path.exists():
            await clock.sweep()


async def test_nothing_is_removed_while_the_objects_are_not_known(
    kube: KubeClient, kind: Resource, namespace: str, settings: Settings
) -> None:
    """A kind that the API server does not serve, or that is not listed yet, says nothing about its objects."""
    del kube, kind
    missing = replace(WATCH, gvk=replace(SWEPT, kind="NoSuchKind"))
    path = private_folder(settings.execution.runner_dir / "execution.example.com/v1/NoSuchKind" / namespace / "web")
    os.utime(path, (0, 0))
    clock = SweepClock()
    async with running_operator(
        [missing], settings=settings, executor=ScriptedExecutor(), adjust=lambda shared: replace(shared, clock=clock)
    ):
        await eventually(lambda: clock.sweeps == 1)
        await clock.sweep()
        assert path.exists()
