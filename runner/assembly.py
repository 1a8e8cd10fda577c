"""The composition root: settings become parts, the parts become one running operator.

Start order: health probes first (so that a slow start is visible), then the informers, then the workers. Stop order:
no new keys, running plays get the grace period and are ended after it, then informers, probes and connections.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.clock import Clock, SystemClock
from runner.execution.cold import ColdExecutor
from runner.execution.events_log import EventLog
from runner.execution.executor import Executor
from runner.execution.kubeconfigs import RunKubeconfig
from runner.execution.leftovers import kill_all_runs, sweep_leftovers
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.logs import Logger
from runner.observe.health import Check, HealthServer, parse_bind_address
from runner.reconcile.context import Parts
from runner.reconcile.reconciler import Reconciler
from runner.reconcile.schedule import Periods, Scheduler
from runner.settings import Settings
from runner.sources.informer import State, WatchContext
from runner.sources.primary import PrimarySource
from runner.status.pending import PendingStatus
from runner.status.writer import StatusWriter
from runner.watches.loader import load_watches
from runner.watches.model import Watch
from runner.workqueue.backoff import Backoff
from runner.workqueue.workers import run_workers
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


def cold_executor(*, settings: Settings, logger: Logger) -> Executor:
    """Return the executor that starts ansible-runner anew for each run."""
    return ColdExecutor(
        settings=settings.execution,
        kubeconfigs=RunKubeconfig(settings=settings.kube, environ=settings.execution.environ),
        observers=[EventLog(logger=logger, mode=settings.ansible_log_events, environ=settings.execution.environ)],
        clock=SystemClock(),
        logger=logger,
    )


def build_controller(watch: Watch, *, shared: Shared) -> Controller:
    """Put the parts of one watch together."""
    settings, logger = shared.settings, shared.logger
    backoff = Backoff(settings.backoff, _random)
    queue = WorkQueue(clock=shared.clock, backoff=backoff, name=str(watch.gvk))
    context = WatchContext(
        client=shared.client,
        discovery=shared.discovery,
        settings=settings.informer,
        clock=shared.clock,
        logger=logger.named("informer"),
    )
    source = PrimarySource(watch=watch, context=context, enqueue=queue.add, namespaces=settings.namespaces)
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
        ),
        pending=PendingStatus(),
        executor=shared.executor,
        periods=Periods.for_watch(watch, flag=settings.reconcile_period),
        clock=shared.clock,
        ident=lambda: str(secrets.randbits(63)),
        message_limit=settings.status.message_limit,
    )
    reconciler = Reconciler(parts=parts, scheduler=Scheduler(queue=queue), logger=logger)
    return Controller(watch=watch, source=source, queue=queue, reconciler=reconciler)


class Operator:
    """All controllers of one watches.yaml; `run` until `stop` is called."""

    def __init__(self, *, controllers: tuple[Controller, ...], shared: Shared) -> None:
        """Serve *controllers*."""
        self._controllers = controllers
        self._shared = shared
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Begin the drain; a second call changes nothing."""
        self._stopping.set()

    async def run(self) -> None:
        """Start everything, wait for `stop`, and drain."""
        address = parse_bind_address(
            self._shared.settings.serving.health_probe_bind_address, flag="--health-probe-bind-address"
        )
        health = HealthServer(address=address, checks=self._checks(), logger=self._shared.logger.named("health"))
        await health.start()
        try:
            async with asyncio.TaskGroup() as group:
                sources = [
                    group.create_task(controller.source.run(), name=f"source {controller.watch.gvk}")
                    for controller in self._controllers
                ]
                workers = [group.create_task(self._work(c), name=f"workers {c.watch.gvk}") for c in self._controllers]
                await self._stopping.wait()
                await self._drain(workers)
                for task in [*workers, *sources]:
                    task.cancel()
        finally:
            await health.stop()

    async def _work(self, controller: Controller) -> None:
        await run_workers(
            controller.queue,
            count=controller.watch.max_concurrent_reconciles,
            handle=controller.reconciler.handle,
            logger=self._shared.logger,
        )

    async def _drain(self, workers: list[asyncio.Task[None]]) -> None:
        """Hand out no more keys, and give running plays the grace period."""
        grace = self._shared.settings.graceful_shutdown_timeout
        running = sum(controller.queue.processing for controller in self._controllers)
        self._shared.logger.info("Stopping: no new reconciles", running=running, graceSeconds=grace)
        for controller in self._controllers:
            controller.queue.close()
        if workers:
            _, late = await asyncio.wait(workers, timeout=grace)
            if late:
                self._shared.logger.error("The grace period is over: running plays are ended", watches=len(late))

    def _checks(self) -> Mapping[str, Check]:
        return {f"watch {c.watch.gvk}": partial(_unready_reason, c.source) for c in self._controllers}


def _unready_reason(source: PrimarySource) -> str | None:
    """Return what keeps *source* from serving its kind; a kind that does not exist (yet) keeps nobody from anything."""
    troubled = {name: state for name, state in source.states().items() if state not in {State.SYNCED, State.MISSING}}
    return ", ".join(f"{state.value} (namespace {name or '*'})" for name, state in troubled.items()) or None


def build_operator(watches: Sequence[Watch], *, shared: Shared) -> Operator:
    """Put an operator for *watches* together."""
    return Operator(controllers=tuple(build_controller(watch, shared=shared) for watch in watches), shared=shared)


async def serve(*, settings: Settings, logger: Logger) -> int:
    """Run the operator until SIGTERM or SIGINT; return the exit code.

    Raises:
        ConfigError: watches.yaml, a flag or the Kubernetes configuration is wrong.
    """
    watches = load_watches(settings.watches_file, settings=settings, environ=settings.execution.environ, cwd=Path.cwd())
    for note in watches.notes:
        logger.named("watches").info("A note on the watches file", note=note)
    swept = sweep_leftovers(Path(tempfile.gettempdir()))
    if swept:
        logger.info("Removed what runs of an operator that was killed left behind", folders=swept)
    async with KubeClient(settings=settings.kube) as client:
        shared = Shared(
            settings=settings,
            client=client,
            discovery=Discovery(client=client),
            executor=cold_executor(settings=settings, logger=logger),
            clock=SystemClock(),
            logger=logger,
        )
        operator = build_operator(watches.watches, shared=shared)
        _stop_on_signals(operator, logger=logger)
        await client.connect()
        await operator.run()
    logger.named("cmd").info("Exiting.")
    return 0


def _end_at_once() -> None:
    """Exit 1 now, but leave no play without its operator and no kubeconfig behind."""
    kill_all_runs()
    os._exit(1)


def _stop_on_signals(operator: Operator, *, logger: Logger) -> None:
    """First SIGTERM or SIGINT: drain. The second one ends the process at once, as with the peer."""
    loop = asyncio.get_running_loop()

    def first(name: str) -> None:
        logger.info("Received a signal; a second one ends the process at once", signal=name)
        operator.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _end_at_once)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first, number.name)
