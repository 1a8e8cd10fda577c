"""The checks behind `/healthz` and `/readyz`, put together from what runs: informers, workers, executor, leadership.

Readiness answers "is everything served that is configured?", liveness "would a restart help?". A missing right or CRD
is no reason for a restart; and among kinds that are served it is none to be unready either, as a rollout that waits for
it would leave the other kinds to nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial

from runner.assembly.parts import Controller, Shared
from runner.clock import SystemClock
from runner.errors import OperatorError
from runner.execution.executor import Executor, HasRemark, KnowsReadiness
from runner.execution.gate import Gate
from runner.kube.objects import GVK
from runner.observe.health import Check, Finding, HealthServer
from runner.observe.vitals import Heartbeat, Phase, Vitals
from runner.settings import HealthSettings
from runner.sources.dependents import DependentSources
from runner.sources.informer import State
from runner.sources.primary import PrimarySource

_TOLERATED = {State.SYNCED, State.MISSING, State.FORBIDDEN}
_MEANINGS = {
    State.STARTING: "not listed yet",
    State.MISSING: "missing: the API server does not serve this kind; waiting for its CRD",
    State.FORBIDDEN: "forbidden: a right to list or watch is missing; waiting for it",
    State.ERROR: "error: the API server cannot be watched; retrying",
}


class ExecutorWatch:
    """Asks the executor whether it could run something, again and again, and keeps the answer for the probe."""

    def __init__(self, executor: Executor, *, interval: float) -> None:
        """Ask *executor* every *interval* seconds, where it knows; one that doesn't is taken to be ready."""
        self._executor = executor
        self._interval = interval
        self._finding: Finding | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to ask."""
        if isinstance(self._executor, KnowsReadiness):
            self._finding = Finding(sentence="not asked yet")
            self._task = asyncio.create_task(self._ask(self._executor), name="executor readiness")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def check(self) -> Finding | None:
        """Return what keeps the executor from running something."""
        if self._task is not None and self._task.done():
            return Finding(sentence="its check broke; please report this")
        return self._finding or self._remark()

    async def _ask(self, executor: KnowsReadiness) -> None:
        while True:
            try:
                reason = await executor.ready()
            except OperatorError as error:
                reason = str(error)
            self._finding = None if reason is None else Finding(sentence=reason)
            await SystemClock().sleep(self._interval)

    def _remark(self) -> Finding | None:
        said = self._executor.remark() if isinstance(self._executor, HasRemark) else None
        return None if said is None else Finding(sentence=said, fails=False)


class HealthService:
    """The probes with everything that they need besides the operator's own parts."""

    def __init__(
        self,
        *,
        address: tuple[str, int] | None,
        controllers: Sequence[Controller],
        dependents: DependentSources,
        shared: Shared,
        gate: Gate,
        vitals: Vitals,
    ) -> None:
        """Serve on *address*; None serves nothing, and asks nobody."""
        settings = shared.settings.health
        self._enabled = address is not None
        # The machine's clock, whatever the operator's is: that a loop is blocked is a matter of real time.
        self._heartbeat = Heartbeat(clock=SystemClock(), interval=min(1.0, settings.loop_limit / 10))
        self._executor = ExecutorWatch(shared.executor, interval=settings.executor_interval)
        self._server = HealthServer(
            address=address,
            live={
                **live_checks(controllers, vitals=vitals, heartbeat=self._heartbeat, settings=settings),
                "dependents": partial(_late_dependents, dependents, grace=settings.informer_grace),
                **({"handlers": shared.handlers.liveness} if shared.handlers is not None else {}),
            },
            ready={
                "executor": self._executor.check,
                "memory": partial(_memory, gate),
                **ready_checks(controllers, vitals=vitals),
                "dependents": partial(_dependents, dependents),
                **({"handlers": shared.handlers.readiness} if shared.handlers is not None else {}),
            },
            logger=shared.logger.named("health"),
        )

    async def start(self) -> None:
        """Listen; raise `ConfigError` where the address is taken."""
        if self._enabled:
            await self._heartbeat.start()
            await self._executor.start()
            await self._server.start()

    async def stop(self) -> None:
        """End."""
        await self._server.stop()
        await self._executor.stop()
        await self._heartbeat.stop()


def live_checks(
    controllers: Sequence[Controller], *, vitals: Vitals, heartbeat: Heartbeat, settings: HealthSettings
) -> Mapping[str, Check]:
    """Return what `/healthz` looks at."""
    sources = {c.watch.gvk: c.source for c in controllers}
    return {
        "event-loop": partial(_event_loop, heartbeat, limit=settings.loop_limit),
        "informers": partial(_informers, sources, grace=settings.informer_grace),
        "workers": partial(_workers, vitals, grace=settings.worker_grace),
    }


def ready_checks(controllers: Sequence[Controller], *, vitals: Vitals) -> Mapping[str, Check]:
    """Return what `/readyz` looks at: leadership, each kind, and all of them together."""
    sources = {c.watch.gvk: c.source for c in controllers}
    kinds = {f"watch-{_label(gvk)}": partial(_kind, source, vitals=vitals) for gvk, source in sources.items()}
    return {
        "leadership": partial(_leadership, vitals),
        "watches": partial(_any_kind, list(sources.values()), vitals=vitals),
        **kinds,
    }


def _event_loop(heartbeat: Heartbeat, *, limit: float) -> Finding | None:
    age = heartbeat.age
    if age <= limit:
        return None
    return Finding(sentence=f"the event loop has not turned for {age:.0f} s (limit {limit:g} s): something blocks it")


def _informers(sources: Mapping[GVK, PrimarySource], *, grace: float) -> Finding | None:
    return _late({gvk: source.overdue() for gvk, source in sources.items()}, grace=grace)


def _late_dependents(dependents: DependentSources, *, grace: float) -> Finding | None:
    return _late(dependents.overdue(), grace=grace)


def _late(overdue: Mapping[GVK, float], *, grace: float) -> Finding | None:
    told = [
        f"the informer of {gvk} is {seconds:.0f} s past its stall limit and did not retry"
        for gvk, seconds in overdue.items()
        if seconds > grace
    ]
    return Finding(sentence="; ".join(told)) if told else None


def _workers(vitals: Vitals, *, grace: float) -> Finding | None:
    told = [
        f"a worker has held {entry.what} for {entry.held:.0f} s, the last {entry.idle:.0f} s of them without an API "
        "call or a child process"
        for entry in vitals.activity.idle(longer_than=grace)
    ]
    return Finding(sentence="; ".join(told)) if told else None


def _memory(gate: Gate) -> Finding | None:
    """Tell that runs wait for memory; with none under way that would give some back, nothing is served."""
    obstacle = gate.obstacle()
    return None if obstacle is None else Finding(sentence=obstacle, fails=gate.running == 0)


def _leadership(vitals: Vitals) -> Finding | None:
    if vitals.phase is Phase.STANDBY:
        return Finding(sentence="standby: another instance leads", fails=False)
    if vitals.phase is Phase.LEADING:
        return None
    trouble = vitals.waiting().trouble
    return Finding(sentence=f"waiting for the leadership{': ' if trouble else ''}{trouble}")


def _any_kind(sources: Sequence[PrimarySource], *, vitals: Vitals) -> Finding | None:
    """Fail where nothing at all is served; an empty watches.yaml asks for nothing, and gets it."""
    if not sources:
        return Finding(sentence="watches.yaml names no kind", fails=False)
    if vitals.phase is not Phase.LEADING or any(State.SYNCED in source.states().values() for source in sources):
        return None
    return Finding(sentence="no kind is served")


def _kind(source: PrimarySource, *, vitals: Vitals) -> Finding | None:
    if vitals.phase is not Phase.LEADING:
        return None
    troubled = {namespace: state for namespace, state in source.states().items() if state is not State.SYNCED}
    if not troubled:
        return None
    told = [_meaning(state, namespace=namespace) for namespace, state in troubled.items()]
    return Finding(sentence="; ".join(told), fails=not _TOLERATED.issuperset(troubled.values()))


def _dependents(dependents: DependentSources) -> Finding | None:
    """Name the kinds that can't be followed: no reason to be unready, as their owners are served all the same."""
    told = [
        f"{_label(gvk)} is {_meaning(state, namespace=namespace)}"
        for gvk, states in dependents.states().items()
        for namespace, state in states.items()
        if state is not State.SYNCED
    ]
    return Finding(sentence="; ".join(told), fails=False) if told else None


def _meaning(state: State, *, namespace: str) -> str:
    return f"{_MEANINGS[state]}{f' (namespace {namespace})' if namespace else ''}"


def _label(gvk: GVK) -> str:
    """Return the form that kubectl takes, `Kind.version.group`: it fits into a path."""
    return f"{gvk.kind}.{gvk.version}.{gvk.group}".rstrip(".")
