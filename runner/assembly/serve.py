"""`ansible-operator run` once its settings are known: settings in, exit code out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from functools import partial
from pathlib import Path

from runner.assembly.leadership import Election, build_leadership
from runner.assembly.observability import new_metrics
from runner.assembly.operator import Operator, build_operator
from runner.assembly.parts import Shared, cold_executor
from runner.clock import SystemClock
from runner.execution.environment import check_environments
from runner.execution.leftovers import kill_all_runs, sweep_leftovers
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.fence import FencedClient
from runner.logs import Logger
from runner.observe.activity import busy
from runner.settings import Settings
from runner.watches.loader import load_watches
from runner.watches.startup import log_watches


async def serve(*, settings: Settings, logger: Logger) -> int:
    """Run the operator until SIGTERM or SIGINT; return the exit code.

    Raises:
        ConfigError: watches.yaml, a flag, the interpreter for plays or the Kubernetes configuration is wrong.
    """
    watches = load_watches(settings.watches_file, settings=settings, environ=settings.execution.environ, cwd=Path.cwd())
    log_watches(watches, settings=settings, logger=logger)
    await check_environments(settings.execution, logger=logger)
    swept = sweep_leftovers(Path(tempfile.gettempdir()))
    if swept:
        logger.info("Removed what runs of an operator that was killed left behind", folders=swept)
    clock = SystemClock()
    metrics = new_metrics(commit=settings.commit)
    async with contextlib.AsyncExitStack() as stack:
        election = Election(
            client=await stack.enter_async_context(KubeClient(settings=settings.kube, observe=metrics.api_request)),
            clock=clock,
            logger=logger,
            end_now=_end_at_once,
            on_change=partial(metrics.leading, settings.leader_election.id),
        )
        leadership = build_leadership(settings, election=election)
        client = FencedClient(
            settings=settings.kube, fenced=leadership.fenced, around=busy, observe=metrics.api_request
        )
        stack.push_async_callback(client.close)
        shared = Shared(
            settings=settings,
            client=client,
            discovery=Discovery(client=client),
            executor=cold_executor(settings=settings, logger=logger),
            clock=clock,
            logger=logger,
            metrics=metrics,
        )
        operator = build_operator(watches.watches, shared=shared, leadership=leadership)
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
