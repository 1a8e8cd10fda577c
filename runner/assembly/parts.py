"""What one watch needs, put together from what all watches share."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from runner.assembly.handlers import InformedExecutor, PythonHandlers
from runner.assembly.observability import MeasuredExecutor, report_informers
from runner.assembly.run_access import RunAccess
from runner.clock import Clock
from runner.execution.executor import Executor
from runner.execution.gate import Gate
from runner.execution.memory import FreeMemory, free_memory
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.events import EventRecorder
from runner.logs import Logger
from runner.observe.metrics import Metrics
from runner.reconcile.context import Parts
from runner.reconcile.reconciler import Reconciler
from runner.reconcile.schedule import Periods, Scheduler
from runner.settings import Settings
from runner.sources.informer import WatchContext
from runner.sources.primary import PrimarySource
from runner.status.pending import PendingStatus
from runner.status.writer import StatusWriter
from runner.watches.model import Watch
from runner.workqueue.backoff import Backoff
from runner.workqueue.exclusion import Exclusion
from runner.workqueue.workqueue import WorkQueue

_random = random.SystemRandom().random


@dataclass(frozen=True, kw_only=True)
class Controller:
    """One watch with everything that serves it."""

    watch: Watch
    source: PrimarySource
    queue: WorkQueue
    reconciler: Reconciler


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all watches use together."""

    settings: Settings
    client: KubeClient
    discovery: Discovery
    executor: Executor
    clock: Clock
    logger: Logger
    metrics: Metrics = field(default_factory=Metrics)
    access: RunAccess = field(default_factory=RunAccess)
    """How the runs of `executor` reach the API server."""
    memory: Callable[[], FreeMemory | None] = free_memory
    """Reads how much memory a new run could have."""
    handlers: PythonHandlers | None = None
    """The host of Python handlers, where a watch names some."""


def build_gate(shared: Shared) -> Gate:
    """Return what limits the plays of all watches together."""
    execution = shared.settings.execution
    gate = Gate(
        limit=execution.max_running_plays,
        min_free=execution.min_free_memory,
        memory=shared.memory,
        clock=shared.clock,
        logger=shared.logger,
    )
    shared.metrics.plays(running=lambda: gate.running, waiting=lambda: gate.waiting)
    return gate


def build_controller(
    watch: Watch, *, shared: Shared, exclusion: Exclusion, gate: Gate, earlier: tuple[Watch, ...] = ()
) -> Controller:
    """Put the parts of one watch together; *earlier* ones in the file see the same objects."""
    settings, logger = shared.settings, shared.logger
    backoff = Backoff(settings.backoff, _random)
    metrics = shared.metrics.controller(watch.gvk, workers=watch.max_concurrent_reconciles)
    queue = WorkQueue(clock=shared.clock, backoff=backoff, name=str(watch.gvk), listener=metrics)
    context = WatchContext(
        client=shared.client,
        discovery=shared.discovery,
        settings=settings.informer,
        clock=shared.clock,
        logger=logger.named("informer"),
    )
    source = PrimarySource(
        watch=watch,
        context=context,
        enqueue=queue.add,
        namespaces=settings.namespaces,
        listener=shared.metrics.objects(watch.gvk),
    )
    report_informers(source, metrics=shared.metrics)
    parts = Parts(
        watch=watch,
        client=shared.client,
        discovery=shared.discovery,
        status=StatusWriter(
            client=shared.client,
            clock=shared.clock,
            delay=Backoff(settings.status.backoff, _random).delay,
            settings=settings.status,
            logger=logger,
            look_up=shared.discovery.again,
        ),
        pending=PendingStatus(),
        executor=InformedExecutor(
            MeasuredExecutor(shared.executor, metrics=metrics), handlers=shared.handlers, refused=metrics.refused
        ),
        measure=metrics.reconcile,
        periods=Periods.for_watch(watch, flag=settings.reconcile_period),
        clock=shared.clock,
        ident=lambda: str(secrets.randbits(63)),
        seen=source.find,
        message_limit=settings.status.message_limit,
        gate=gate,
        claims=exclusion.for_queue(queue, name=str(watch.gvk)),
        earlier=earlier,
        events=EventRecorder(client=shared.client, logger=logger, clock=shared.clock),
    )
    reconciler = Reconciler(parts=parts, scheduler=Scheduler(queue=queue), logger=logger)
    return Controller(watch=watch, source=source, queue=queue, reconciler=reconciler)
