"""A kind of its own, files of handlers that a test writes, and an operator that runs them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from runner.assembly import Operator, Shared
from runner.assembly.operator import Leadership
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.watches.model import Content, Watch

GADGETS = GVK("handlers.example.com", "v1", "Gadget")


@dataclass(kw_only=True)
class Scene:
    """One operator with one file of handlers, and the objects of one kind in one namespace."""

    kube: KubeClient
    resource: Resource
    namespace: str
    settings: Settings
    file: Path
    sink: RecordingSink = field(default_factory=RecordingSink)
    executor: ScriptedExecutor = field(default_factory=ScriptedExecutor)
    shared: Shared | None = None

    def handlers(self, text: str) -> None:
        """Write the file; it has `seen`, a list, and `kopf` in it already."""
        self.file.write_text(f"import kopf\n\nseen = []\n{dedent(text)}")

    @property
    def module(self) -> ModuleType:
        """Return the module that the operator made of the file."""
        return sys.modules[f"handlers.{self.file.stem}"]

    @property
    def seen(self) -> list[Any]:
        """Return what the handlers have put into `seen`."""
        found: list[Any] = self.module.seen
        return found

    @contextlib.asynccontextmanager
    async def operator(
        self, *, role: bool = False, leadership: Leadership | None = None, **changes: Any
    ) -> AsyncIterator[Operator]:
        """Run the operator during the block; with *role*, objects have scripted runs, too; *changes* of settings."""
        content = Content(role=Path("/nobody/looks")) if role else Content()

        def keep(shared: Shared) -> Shared:
            self.shared = shared
            return shared

        async with running_operator(
            [Watch(gvk=GADGETS, content=content, handlers=self.file)],
            settings=replace(self.settings, **changes),
            executor=self.executor,
            sink=self.sink,
            adjust=keep,
            leadership=leadership,
        ) as operator:
            yield operator

    async def create(self, name: str, **spec: Any) -> Object:
        """Create an object."""
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": GADGETS.api_version, "kind": GADGETS.kind, "metadata": metadata, "spec": spec}
        return await self.kube.create(self.resource, namespace=self.namespace, body=body)

    async def get(self, name: str) -> Object:
        """Read an object."""
        return await self.kube.get(self.resource, namespace=self.namespace, name=name)

    async def patch(self, name: str, body: Object) -> Object:
        """Merge *body* into an object."""
        return await self.kube.patch(self.resource, namespace=self.namespace, name=name, body=body)

    async def delete(self, name: str) -> None:
        """Ask for the deletion of an object."""
        await self.kube.delete(self.resource, namespace=self.namespace, name=name)

    async def names(self) -> list[str]:
        """Return the names of those that exist."""
        return [obj["metadata"]["name"] for obj in await self.kube.list(self.resource, namespace=self.namespace)]

    def told(self, sentence: str) -> list[Any]:
        """Return the log's records with *sentence* in them."""
        return [record for record in list(self.sink.records) if sentence in str(record["msg"])]

    def metric(self, line: str) -> bool:
        """Tell whether the page of metrics has *line*."""
        assert self.shared is not None
        return line in self.shared.metrics.text().splitlines()


@pytest.fixture
async def scene(kube: KubeClient, plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Scene]:
    """Give a scene in a fresh namespace; finalizers of what is left are taken off at the end."""
    resource = await install_crd(kube, crd(GADGETS.kind, group=GADGETS.group))
    scene = Scene(
        kube=kube,
        resource=resource,
        namespace=namespace,
        settings=replace(settings_for(plane.kubeconfig), namespaces=(namespace,)),
        file=tmp_path / f"file_{namespace.replace('-', '_')}.py",
    )
    yield scene
    for name in await scene.names():
        await scene.patch(name, {"metadata": {"finalizers": None}})
