"""A kind of its own, objects of it, and an operator whose runs a test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of
from runner.localdev.plane import ControlPlane
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd
from runner.testing.harness import settings_for
from runner.watches.model import Content, Watch

PROBES = GVK("reconcile.example.com", "v1", "Probe")


@dataclass(frozen=True, kw_only=True)
class Probes:
    """The objects of one kind in one namespace."""

    kube: KubeClient
    resource: Resource
    namespace: str

    async def create(self, name: str, *, spec: Any = None, content: Object | None = None, **metadata: Any) -> Object:
        """Create one with *spec*, or with *content* beside its metadata and no spec at all."""
        gvk = self.resource.gvk
        body = {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            **({"spec": spec or {"size": 1}} if content is None else content),
        }
        return await self.kube.create(self.resource, namespace=self.namespace, body=body)

    async def get(self, name: str) -> Object:
        """Read one."""
        return await self.kube.get(self.resource, namespace=self.namespace, name=name)

    async def names(self) -> list[str]:
        """Return the names of those that exist."""
        return [obj["metadata"]["name"] for obj in await self.kube.list(self.resource, namespace=self.namespace)]

    async def patch(self, name: str, body: Object, *, subresource: str = "") -> Object:
        """Merge *body* into one."""
        return await self.kube.patch(
            self.resource, namespace=self.namespace, name=name, body=body, subresource=subresource
        )

    async def delete(self, name: str) -> None:
        """Ask for the deletion of one; finalizers may hold it."""
        await self.kube.delete(self.resource, namespace=self.namespace, name=name)

    async def conditions(self, name: str) -> dict[str, str]:
        """Return the status of each condition by its type."""
        return {entry["type"]: entry["status"] for entry in conditions_of(await self.get(name))}


@pytest.fixture
async def probes(kube: KubeClient, namespace: str) -> AsyncIterator[Probes]:
    """Give the Probes of a fresh namespace; the finalizers of those that are left are taken off at the end."""
    resource = await install_crd(kube, crd("Probe", group=PROBES.group))
    probes = Probes(kube=kube, resource=resource, namespace=namespace)
    yield probes
    for name in await probes.names():
        await probes.patch(name, {"metadata": {"finalizers": None}})


@pytest.fixture
def watch() -> Watch:
    """Watch Probes, one worker, no finalizer; the role is never looked at by a scripted executor."""
    return Watch(gvk=PROBES, content=Content())


@pytest.fixture
def settings(plane: ControlPlane, namespace: str) -> Settings:
    """Return settings for the plane that watch only the test's namespace."""
    return replace(settings_for(plane.kubeconfig, period=timedelta(0)), namespaces=(namespace,))
