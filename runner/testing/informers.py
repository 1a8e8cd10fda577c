"""Running an informer in a test: where the API server is (`Site`), and what an informer told (`Watched`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.clock import Clock, SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery, Resource
from runner.kube.objects import GVK, Object, name_of
from runner.logs import Logger, RecordingSink
from runner.settings import InformerSettings, KubeSettings
from runner.sources.informer import Informer, Target, WatchContext
from runner.sources.store import Change, ChangeKind
from runner.testing.cluster import SECRETS
from runner.testing.waiting import ended, eventually

QUICK = InformerSettings(page_size=500, stall_timeout=60.0, backoff_base=0.02, backoff_cap=0.2, missing_cap=0.2)
"""Settings with which failures are retried at once."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """An API server, straight access to it, and a namespace and a folder to work in."""

    kubeconfig: Path
    client: KubeClient
    namespace: str
    folder: Path

    async def create(self, *names: str, resource: Resource = SECRETS) -> None:
        """Create empty objects."""
        for name in names:
            body = {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, "metadata": {"name": name}}
            await self.client.create(resource, namespace=self.namespace, body=body)

    async def touch(self, name: str, *, value: str = "1", resource: Resource = SECRETS) -> None:
        """Change an object's content."""
        obj = await self.client.get(resource, namespace=self.namespace, name=name)
        labels = {**obj["metadata"].get("labels", {}), "touched": value}
        body: Object = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
        await self.client.replace(resource, body=body)

    async def delete(self, *names: str, resource: Resource = SECRETS) -> None:
        """Delete objects."""
        for name in names:
            await self.client.delete(resource, namespace=self.namespace, name=name)


@dataclass(frozen=True, kw_only=True)
class Watched:
    """An informer at work and everything that it told."""

    informer: Informer
    changes: list[Change] = field(default_factory=list)
    sink: RecordingSink = field(default_factory=RecordingSink)

    def told(self) -> list[str]:
        """Return the changes as `ADDED name`, in their order."""
        return [f"{change.kind.value} {name_of(change.obj)}" for change in self.changes]

    async def until(self, *told: str) -> None:
        """Return when all of *told* (as in `told()`) were reported."""
        await eventually(lambda: set(told) <= set(self.told()))

    async def rewatched(self, count: int) -> None:
        """Return when the watch was opened *count* times again."""
        await eventually(lambda: self.informer.counters.rewatches == count)

    def count(self, kind: ChangeKind) -> int:
        """Return how many changes of *kind* were reported."""
        return sum(change.kind is kind for change in self.changes)


@contextlib.asynccontextmanager
async def watching(
    site: Site,
    *,
    kubeconfig: Path,
    gvk: GVK = SECRETS.gvk,
    settings: InformerSettings = QUICK,
    clock: Clock | None = None,
    label_selector: str = "",
    synced: bool = True,
) -> AsyncIterator[Watched]:
    """Run an informer of *site*'s namespace through *kubeconfig*; wait until it has *synced*; stop it at the end."""
    changes: list[Change] = []
    sink = RecordingSink()
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        context = WatchContext(
            client=client,
            discovery=Discovery(client=client),
            settings=settings,
            clock=clock or SystemClock(),
            logger=Logger("informer", sink=sink),
        )
        target = Target(gvk=gvk, namespace=site.namespace, label_selector=label_selector)
        informer = Informer(target=target, context=context, on_change=changes.append)
        task = asyncio.create_task(informer.run())
        try:
            if synced:
                await eventually(lambda: informer.has_synced and informer.counters.watches > 0)
            yield Watched(informer=informer, changes=changes, sink=sink)
        finally:
            await ended(task)


def with_settings(**changed: float) -> InformerSettings:
    """Return `QUICK` with some values *changed*."""
    settings: InformerSettings = replace(QUICK, **changed)  # type: ignore[arg-type]  # page_size is the only int
    return settings
