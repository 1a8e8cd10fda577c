"""The watches on dependents put together: what all controllers share about what their runs made.

own_writes   the proxy notes in it what runs write
sources      the watches; the proxy asks for them (`ensure`)
reporter     tells people what was changed behind an owner's back
recovery     finds at the start what earlier runs made
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from runner.assembly.observability import report_dependents
from runner.assembly.parts import Controller, Shared
from runner.kube.catalogue import Catalogue
from runner.kube.events import EventRecorder
from runner.kube.objects import Object, uid_of
from runner.sources.dependent_changes import OwnerWatch
from runner.sources.dependents import DependentSources
from runner.sources.drift import DriftReporter
from runner.sources.informer import WatchContext
from runner.sources.own_writes import OwnWrites
from runner.sources.recovery import Recovery
from runner.watches.matching import serves
from runner.workqueue.request import Request


@dataclass(frozen=True, kw_only=True)
class DependentParts:
    """What looks after dependents; `run` it while this instance leads."""

    own_writes: OwnWrites
    sources: DependentSources
    reporter: DriftReporter
    recovery: Recovery

    async def run(self) -> None:
        """Watch and report until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.own_writes.run(), name="own writes")
            group.create_task(self.reporter.run(), name="drift report")
            group.create_task(self.sources.run(), name="dependents")
            group.create_task(self.recovery.run(), name="search for dependents")


def build_dependents(controllers: Sequence[Controller], *, shared: Shared) -> DependentParts:
    """Return what looks after the dependents of *controllers*' objects; without owner references there are none."""
    if not shared.settings.proxy.inject_owner_references:
        controllers = ()
    logger = shared.logger.named("dependents")
    own_writes = OwnWrites(lives=shared.access.runs.lives, clock=shared.clock)
    sources = {controller.watch.gvk: controller.source for controller in controllers}

    def owner(request: Request) -> Object | None:
        return sources[request.gvk].find(request)

    reporter = DriftReporter(
        own=own_writes,
        owner=owner,
        events=EventRecorder(client=shared.client, logger=shared.logger, clock=shared.clock),
        clock=shared.clock,
        logger=shared.logger,
    )
    dependents = DependentSources(
        owners=[_owner_watch(controller) for controller in controllers],
        context=WatchContext(
            client=shared.client,
            discovery=shared.discovery,
            settings=shared.settings.informer,
            clock=shared.clock,
            logger=logger,
        ),
        judge=own_writes,
        reporter=reporter,
        namespaces=shared.settings.namespaces,
    )
    report_dependents(dependents, metrics=shared.metrics)
    recovery = Recovery(
        watches=[controller.watch for controller in controllers],
        namespaces=shared.settings.namespaces,
        dependents=dependents,
        catalogue=Catalogue(client=shared.client),
        clock=shared.clock,
        logger=shared.logger,
    )
    return DependentParts(own_writes=own_writes, sources=dependents, reporter=reporter, recovery=recovery)


def _owner_watch(controller: Controller) -> OwnerWatch:
    source, watch = controller.source, controller.watch

    def uid(request: Request) -> str | None:
        owner = source.find(request)
        return uid_of(owner) if owner is not None and serves(watch, owner) else None

    return OwnerWatch(watch=watch, enqueue=controller.queue.add, namespaced=lambda: source.namespaced, uid=uid)
