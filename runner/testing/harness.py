"""A whole operator inside a test's event loop: real API server, real informers and queues, any executor.

What a test wants to see of running Ansible it gets from `PlayExecutor` or `real_executor`; where only the decisions
matter it hands in `runner.testing.executor.ScriptedExecutor`, and a reconcile takes milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path

from runner.assembly import Operator, Shared, Surroundings, build_executor, build_operator
from runner.assembly.operator import Leadership
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.execution.executor import Executor
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.logs import Logger, RecordingSink
from runner.observe.activity import busy
from runner.observe.metrics import Metrics
from runner.settings import BackoffSettings, KubeSettings, ProxySettings, ServingSettings, Settings
from runner.watches.model import Watch

ExecutorFor = Callable[[RunAccess], Executor]
"""Makes an executor whose runs reach the API server through the operator's proxy."""


def settings_for(kubeconfig: Path, *, period: timedelta = timedelta(hours=10)) -> Settings:
    """Return settings for a test: a free port for the proxy and no other, short back-offs, the given cluster."""
    return Settings(
        kube=KubeSettings(kubeconfig=str(kubeconfig)),
        serving=ServingSettings(health_probe_bind_address="0", metrics_bind_address="0", user_metrics_bind_address="0"),
        proxy=ProxySettings(port=0),
        backoff=BackoffSettings(base=0.05, cap=1.0),
        reconcile_period=period,
        graceful_shutdown_timeout=120.0,  # a cold run on a busy machine ends within it; a hung one fails the test
    )


def real_executor(watches: Sequence[Watch], *, settings: Settings, sink: RecordingSink | None = None) -> ExecutorFor:
    """Return what makes the product's executor for *watches*: warm or cold, as *settings*, keys and annotations say.

    The operator starts and stops its fork server. Tests that need nothing else of it share one: `runner.testing.warm`.
    """

    def executor(access: RunAccess) -> Executor:
        logger = Logger(sink=sink or RecordingSink(), level="debug")
        around = Surroundings(settings=settings, access=access, logger=logger, clock=SystemClock())
        return build_executor(watches, around=around)

    return executor


@contextlib.asynccontextmanager
async def running_operator(
    watches: Sequence[Watch],
    *,
    settings: Settings,
    executor: Executor | ExecutorFor,
    sink: RecordingSink | None = None,
    adjust: Callable[[Shared], Shared] = lambda shared: shared,
    leadership: Leadership | None = None,
) -> AsyncIterator[Operator]:
    """Run an operator for *watches* during the block; on leaving, it is drained, and its failure is raised.

    Args:
        watches: what to watch.
        settings: of the operator; its cluster is `settings.kube`.
        executor: runs the roles; one whose runs need the operator's proxy is made here.
        sink: keeps the log records.
        adjust: changes the collaborators before the operator is built, for example the clock.
        leadership: when it may work; None is always.
    """
    access = RunAccess()
    logger = Logger(sink=sink or RecordingSink(), level="debug")
    metrics = Metrics()
    async with KubeClient(settings=settings.kube, around=busy, observe=metrics.api_request) as client:
        shared = Shared(
            settings=settings,
            client=client,
            discovery=Discovery(client=client),
            executor=executor(access) if callable(executor) else executor,
            clock=SystemClock(),
            logger=logger,
            metrics=metrics,
            access=access,
        )
        operator = build_operator(watches, shared=adjust(shared), leadership=leadership)
        task = asyncio.create_task(operator.run(), name="operator")
        try:
            yield operator
        finally:
            operator.stop()
            await task
