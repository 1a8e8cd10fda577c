"""Start and drain of all controllers.

Start order: servers first (so that a slow start is visible), then leadership, then informers and workers. Stop order:
no new keys, running plays get the grace period and are ended after it, then informers, leadership and servers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from runner.assembly.dependents import DependentParts, build_dependents
from runner.assembly.handlers import build_handlers
from runner.assembly.parts import Controller, Shared, build_controller, build_gate
from runner.assembly.services import Service, build_services
from runner.errors import OperatorError
from runner.execution.executor import ComesUp
from runner.execution.gate import Gate
from runner.observe.activity import Activity
from runner.observe.vitals import Phase, Vitals, Waiting
from runner.watches.durations import format_duration
from runner.watches.model import Watch
from runner.watches.ownership import earlier_of_kind
from runner.workqueue.exclusion import Exclusion
from runner.workqueue.workers import run_workers

_LAST_WAIT = 1.0
"""Seconds that Python handlers have to end, where plays took the grace period."""
_COME_UP_LIMIT = 120.0
"""Seconds: as long as one fork server may take to start. Runs are cold after that."""


class Leadership(Protocol):
    """Who may work: one instance of many, or always this one (`AlwaysLeading`)."""

    async def acquire(self) -> None:
        """Return as soon as this process leads."""
        ...

    async def hold(self) -> None:
        """Keep the leadership until cancelled; raise `LeaderElectionLost` when it is lost."""
        ...

    async def release(self) -> None:
        """Let others lead at once, if this process does now; never raises."""
        ...

    def fenced(self) -> bool:
        """Return whether this process led, and may not write any more."""
        ...

    def waiting(self) -> Waiting:
        """Return what is known of the leadership while this process doesn't have it; for the probes, in any thread."""
        ...


class AlwaysLeading:
    """No election: this process leads from the start to the end."""

    async def acquire(self) -> None:
        """Lead."""

    async def hold(self) -> None:
        """Lead on."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Nobody waits for it."""

    def fenced(self) -> bool:
        """Return that everything may be written, always."""
        return False

    def waiting(self) -> Waiting:
        """Return that there is nobody else."""
        return Waiting()


class Operator:
    """All controllers of one watches.yaml; `run` until `stop` is called."""

    def __init__(
        self,
        *,
        controllers: tuple[Controller, ...],
        dependents: DependentParts,
        shared: Shared,
        gate: Gate | None = None,
        services: Sequence[Service] = (),
        leadership: Leadership | None = None,
        vitals: Vitals | None = None,
    ) -> None:
        """Serve *controllers* while *leadership* allows it, *services* all the time, and tell *vitals* how it goes.

        At the end *gate* is closed, as what waits there must not start any more.
        """
        self._controllers = controllers
        self._dependents = dependents
        self._shared = shared
        self._gate = gate or Gate()
        self._services = services
        self._leadership = leadership or AlwaysLeading()
        self._vitals = vitals or Vitals(activity=Activity(clock=shared.clock), waiting=self._leadership.waiting)
        self._stopping = asyncio.Event()

    @property
    def phase(self) -> Phase:
        """Tell whether this instance leads."""
        return self._vitals.phase

    @property
    def waiting(self) -> int:
        """Return how many reconciles wait for a place among the plays."""
        return self._gate.waiting

    def stop(self) -> None:
        """Begin the drain; a second call changes nothing."""
        self._stopping.set()

    async def run(self) -> None:
        """Start everything, wait for `stop`, and drain.

        Raises:
            ConfigError: a server's address is taken.
            OperatorError: plays were still running at the end of the grace period, and were ended.
            ExceptionGroup: with `LeaderElectionLost`, or what ended a part that should go on for ever.
        """
        async with _serving(self._services):
            try:
                if await self._leads():
                    self._vitals.leads = True
                    await self._control()
            finally:
                for controller in self._controllers:  # where the leadership was lost there was no drain
                    controller.queue.close()
                await self._leadership.release()

    async def _leads(self) -> bool:
        """Wait for leadership; False where `stop` comes first."""
        acquired = asyncio.create_task(self._leadership.acquire(), name="leadership")
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({acquired, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if acquired.done():
                await acquired  # raises what it raised
            return acquired.done() and not self._stopping.is_set()
        finally:
            for task in (acquired, stopped):
                task.cancel()
            await asyncio.gather(acquired, stopped, return_exceptions=True)

    async def _control(self) -> None:
        async with asyncio.TaskGroup() as group:
            holder = group.create_task(self._leadership.hold(), name="leadership")
            sources = [
                group.create_task(controller.source.run(), name=f"source {controller.watch.gvk}")
                for controller in self._controllers
            ]
            sources.append(group.create_task(self._dependents.run(), name="dependents"))
            handlers = self._shared.handlers
            others = [] if handlers is None else [group.create_task(handlers.run(), name="handlers")]
            limit = self._shared.settings.informer.search_limit
            await self._dependents.recovery.wait(unless=self._stopping, limit=limit)
            await self._come_up()
            workers = [group.create_task(self._work(c), name=f"workers {c.watch.gvk}") for c in self._controllers]
            await self._stopping.wait()
            late = await self._drain(workers, others=others)
            for task in [*workers, *sources, *others]:
                task.cancel()
            if workers or others:
                await asyncio.wait([*workers, *others])  # the plays are gone before the leadership may be
            holder.cancel()
        grace = self._shared.settings.graceful_shutdown_timeout
        if late and grace > 0:  # with no grace period at all, nothing was waited for
            within = format_duration(timedelta(seconds=grace))
            raise OperatorError(f"failed waiting for all runnables to end within grace period of {within}")

    async def _come_up(self) -> None:
        """Let the executor come up, so that no operator begins with hundreds of slow runs; it then just goes on."""
        executor = self._shared.executor
        if not isinstance(executor, ComesUp):
            return
        waits = [asyncio.create_task(executor.settled()), asyncio.create_task(self._stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=_COME_UP_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _work(self, controller: Controller) -> None:
        await run_workers(
            controller.queue,
            count=controller.watch.max_concurrent_reconciles,
            handle=controller.reconciler.handle,
            logger=self._shared.logger,
            activity=self._vitals.activity,
        )

    async def _drain(self, workers: list[asyncio.Task[None]], *, others: list[asyncio.Task[None]]) -> bool:
        """Hand out no more keys, give running plays the grace period, then handlers; tell whether some run on."""
        grace = self._shared.settings.graceful_shutdown_timeout
        running = sum(controller.queue.processing for controller in self._controllers) - self._gate.waiting
        self._shared.logger.info("Stopping: no new reconciles", running=running, graceSeconds=grace)
        for controller in self._controllers:
            controller.queue.close()
        self._gate.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        playing = (await asyncio.wait(workers, timeout=grace))[1] if workers else set()
        if playing:
            self._shared.logger.error("The grace period is over: running plays are ended", watches=len(playing))
            for controller in self._controllers:
                controller.reconciler.end_runs()
        if self._shared.handlers is not None:  # not before, as runs that are under way ask them
            self._shared.handlers.stop()
        late = (await asyncio.wait(others, timeout=max(deadline - loop.time(), _LAST_WAIT)))[1] if others else set()
        return bool(playing or late)


@contextlib.asynccontextmanager
async def _serving(services: Sequence[Service]) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for service in services:
            stack.push_async_callback(service.stop)
            await service.start()
        yield


def build_operator(watches: Sequence[Watch], *, shared: Shared, leadership: Leadership | None = None) -> Operator:
    """Put an operator for *watches* together.

    Raises:
        ConfigError: a file of Python handlers that a watch names can't be used.
    """
    leadership = leadership or AlwaysLeading()
    shared = replace(shared, handlers=build_handlers(watches, shared=shared, fenced=leadership.fenced))
    watches = [watch for watch in watches if watch.reconciles]
    exclusion, gate = Exclusion(), build_gate(shared)
    shared.metrics.name_controllers(watch.gvk for watch in watches)
    controllers = tuple(
        build_controller(
            watch, shared=shared, exclusion=exclusion, gate=gate, earlier=earlier_of_kind(watches, number=number)
        )
        for number, watch in enumerate(watches)
    )
    vitals = Vitals(activity=Activity(clock=shared.clock), waiting=leadership.waiting)
    dependents = build_dependents(controllers, shared=shared)
    services = build_services(
        controllers, dependents=dependents, shared=shared, gate=gate, vitals=vitals, fenced=leadership.fenced
    )
    return Operator(
        controllers=controllers,
        dependents=dependents,
        shared=shared,
        gate=gate,
        services=services,
        leadership=leadership,
        vitals=vitals,
    )
