"""What one watch needs, put together from what all watches share."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field

from runner.assembly.observability import MeasuredExecutor, report_informers
from runner.assembly.run_access import RunAccess
from runner.clock import Clock
from runner.execution.cold import ColdLauncher
from runner.execution.events_log import EventLog
from runner.execution.executor import Executor
from runner.execution.play import PlayExecutor
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


def cold_executor(
    *,
    settings: Settings,
    access: RunAccess,
    logger: Logger,
    clock: Clock,
    plays_found: bool = False,
    metrics: Metrics | None = None,
) -> Executor:
    """Return the executor that starts ansible-runner anew for each run, which reaches the API server by *access*.

    With *plays_found* the start saw that it can; its runs send their own metrics to *metrics*.
    """
    return PlayExecutor(
        settings=settings.execution,
        launcher=ColdLauncher(settings=settings.execution, plays_found=plays_found),
        kubeconfigs=access,
        observers=[EventLog(logger=logger, mode=settings.ansible_log_events, environ=settings.execution.environ)],
        clock=clock,
        logger=logger,
        user_metrics=None if metrics is None else lambda: metrics.user.url,
    )


def build_controller(
    watch: Watch, *, shared: Shared, exclusion: Exclusion, earlier: tuple[Watch, ...] = ()
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
        executor=MeasuredExecutor(shared.executor, metrics=metrics),
        measure=metrics.reconcile,
        periods=Periods.for_watch(watch, flag=settings.reconcile_period),
        clock=shared.clock,
        ident=lambda: str(secrets.randbits(63)),
        known=source.knows,
        message_limit=settings.status.message_limit,
        claims=exclusion.for_queue(queue, name=str(watch.gvk)),
        earlier=earlier,
        events=EventRecorder(client=shared.client, logger=logger, clock=shared.clock),
    )
    reconciler = Reconciler(parts=parts, scheduler=Scheduler(queue=queue), logger=logger)
    return Controller(watch=watch, source=source, queue=queue, reconciler=reconciler)
