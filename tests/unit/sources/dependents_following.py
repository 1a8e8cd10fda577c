"""Sources of dependents at work, for their tests: what they asked, enqueued, reported and logged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.clock import Clock, SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery, Resource
from runner.kube.objects import GVK, Object, name_of
from runner.logs import Logger, RecordingSink
from runner.proxy.exchange import Owner
from runner.settings import KubeSettings
from runner.sources.dependent_changes import OwnerWatch
from runner.sources.dependents import DependentSources
from runner.sources.informer import WatchContext
from runner.sources.own_writes import OwnerKey, OwnWrites
from runner.sources.store import Change, ChangeKind
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.informers import QUICK, Site
from runner.testing.waiting import ended, eventually
from runner.watches.model import Content, Watch
from runner.workqueue.request import Request

PROBE = Watch(gvk=GVK("bugs.example.com", "v1", "Probe"), content=Content())
OWNER = Owner(gvk=PROBE.gvk, namespace="test", name="one", uid="u1")
MINE = OwnerKey(group="bugs.example.com", kind="Probe", namespace="test", name="one")
ONE = Request(PROBE.gvk, "test", "one")


@dataclass(kw_only=True)
class Ledger:
    """Knows who made a change, once it is told; `hold` keeps the questions."""

    writers: frozenset[OwnerKey] | None = frozenset()
    hold: bool = False
    real: OwnWrites | None = None
    """Answers instead, where there is one."""
    waiting: list[Callable[[frozenset[OwnerKey] | None], None]] = field(default_factory=list)

    def settle(self, *, gvk: GVK, change: Change, then: Callable[[frozenset[OwnerKey] | None], None]) -> None:
        """Answer now, or keep the question."""
        assert gvk.kind
        if self.real is not None:
            self.real.settle(gvk=gvk, change=change, then=then)
        elif self.hold and change.kind is not ChangeKind.ADDED:
            self.waiting.append(then)
        else:
            then(self.writers)

    def newest(self, uid: str) -> int:
        """Return the newest version of an object that a run wrote."""
        return self.real.newest(uid) if self.real is not None else 0


@dataclass(kw_only=True)
class Following:
    """Sources at work, and what came of them."""

    sources: DependentSources
    ledger: Ledger = field(default_factory=Ledger)
    enqueued: list[Request] = field(default_factory=list)
    reported: list[tuple[Request, ChangeKind, str]] = field(default_factory=list)
    sink: RecordingSink = field(default_factory=RecordingSink)
    gone: set[Request] = field(default_factory=set)
    """Owners that don't exist."""
    uids: dict[Request, str] = field(default_factory=dict)
    """Of those others that are not the objects that their dependents name."""

    def enqueue(self, request: Request, *, fresh: bool) -> None:
        """Take what goes into a queue."""
        assert fresh
        self.enqueued.append(request)

    def report(self, request: Request, *, gvk: GVK, change: Change) -> None:
        """Take what is reported."""
        assert gvk.kind
        self.reported.append((request, change.kind, name_of(change.obj)))

    async def ensure(self, resource: Resource = CONFIG_MAPS, *, namespace: str = "test", owner: Owner = OWNER) -> None:
        """Ask for a watch as the proxy does."""
        await self.sources.ensure(resource, namespace=namespace, owner=owner)

    def refusals(self) -> list[str]:
        """Return why something is not watched."""
        sentence = "Resource will not be watched/cached."
        return [str(record["reason"]) for record in self.sink.records if record["msg"] == sentence]


@contextlib.asynccontextmanager
async def following(
    kubeconfig: Path,
    *,
    watches: Sequence[Watch] = (PROBE,),
    namespaces: Sequence[str] = (),
    namespaced: bool = True,
    clock: Clock | None = None,
    running: bool = True,
) -> AsyncIterator[Following]:
    """Run the sources for *watches* during the block; *namespaced* tells where their objects are."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        found = Following(sources=None)  # type: ignore[arg-type]  # set below: its callbacks are needed first
        found.sources = DependentSources(
            owners=[
                OwnerWatch(
                    watch=watch,
                    enqueue=found.enqueue,
                    namespaced=lambda: namespaced,
                    uid=lambda request: None if request in found.gone else found.uids.get(request, OWNER.uid),
                )
                for watch in watches
            ],
            context=WatchContext(
                client=client,
                discovery=Discovery(client=client),
                settings=QUICK,
                clock=clock or SystemClock(),
                logger=Logger("dependents", sink=found.sink, level="debug"),
            ),
            judge=found.ledger,
            reporter=found,
            namespaces=namespaces,
        )
        task = asyncio.create_task(found.sources.run() if running else asyncio.Event().wait())
        await asyncio.sleep(0)  # the task begins
        try:
            yield found
        finally:
            await ended(task)


def owned(
    name: str, *, owner: str = "one", version: str = "v1", resource: Resource = CONFIG_MAPS, **parts: Any
) -> Object:
    """Return an object that an owner's run made."""
    reference = {"apiVersion": f"bugs.example.com/{version}", "kind": "Probe", "name": owner, "uid": "u1"}
    metadata = {"name": name, "ownerReferences": [reference], **parts.pop("metadata", {})}
    return {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, "metadata": metadata, **parts}


async def replace_with(site: Site, body: Object, *, resource: Resource = CONFIG_MAPS) -> None:
    """Replace an object of the site's namespace."""
    metadata = {**body["metadata"], **({"namespace": site.namespace} if resource.namespaced else {})}
    await site.client.replace(resource, body={**body, "metadata": metadata})


async def barrier(site: Site, found: Following, *, name: str = "barrier") -> None:
    """Return when a later change of another owner's dependent has arrived."""
    await site.client.create(CONFIG_MAPS, namespace=site.namespace, body=owned(name, owner=name))
    await replace_with(site, owned(name, owner=name, data={"k": "new"}))
    last = Request(PROBE.gvk, "test", name)
    await eventually(lambda: last in found.enqueued)
    found.enqueued.remove(last)
