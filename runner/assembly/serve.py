"""`ansible-operator run` once its settings are known: settings in, exit code out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from runner.assembly.executors import Surroundings, build_executor
from runner.assembly.leadership import Election, build_leadership
from runner.assembly.observability import new_metrics
from runner.assembly.operator import build_operator
from runner.assembly.parts import Shared
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.execution.environment import check_environments
from runner.execution.leftovers import kill_all_runs, sweep_leftovers
from runner.kube.client import KubeClient
from runner.kube.credential_files import remove_folder
from runner.kube.discovery import Discovery
from runner.kube.events import EventRecorder
from runner.kube.fence import FencedClient
from runner.logs import Logger
from runner.observe.activity import busy
from runner.proxy.runs import LEADERSHIP_LOST
from runner.settings import Settings
from runner.watches.loader import Watches, load_watches
from runner.watches.problems import WatchesError
from runner.watches.startup import log_notes, log_watches


async def serve(*, settings: Settings, logger: Logger) -> int:
    """Run the operator until SIGTERM or SIGINT, which may come during the start, too; return the exit code.

    Raises:
        ConfigError: watches.yaml, a flag, the interpreter for plays or the Kubernetes configuration is wrong.
        OperatorError: plays had to be ended at the end of the grace period.
    """
    signals = _Signals(logger=logger)
    start = asyncio.create_task(_run(settings=settings, logger=logger, signals=signals), name="operator")
    signals.on_first(start.cancel)
    try:
        await start
    except asyncio.CancelledError:
        if not signals.received:
            start.cancel()
            await asyncio.wait({start})
            raise
    logger.named("cmd").info("Exiting.")
    return 0


def _load(settings: Settings, *, logger: Logger) -> Watches:
    """Load watches.yaml; where it is refused, say first what was odd, as that may be the reason."""
    environ = settings.execution.environ
    try:
        return load_watches(settings.watches_file, settings=settings, environ=environ, cwd=Path.cwd())
    except WatchesError as error:
        log_notes(error.notes, logger=logger)
        raise


async def _run(*, settings: Settings, logger: Logger, signals: _Signals) -> None:
    watches = _load(settings, logger=logger)
    log_watches(watches, settings=settings, logger=logger)
    plays_found = await check_environments(settings.execution, logger=logger)
    swept = sweep_leftovers(Path(tempfile.gettempdir()))
    if swept:
        logger.info("Removed what runs of an operator that was killed left behind", folders=swept)
    clock = SystemClock()
    metrics = new_metrics(clock=clock, commit=settings.commit)
    access = RunAccess()
    async with contextlib.AsyncExitStack() as stack:
        election = Election(
            client=await stack.enter_async_context(KubeClient(settings=settings.kube, observe=metrics.api_request)),
            clock=clock,
            logger=logger,
            end_now=_end_at_once,
            on_change=partial(metrics.leading, settings.leader_election.id),
            on_loss=partial(access.runs.close_all, LEADERSHIP_LOST),
        )
        leadership = build_leadership(settings, election=election)
        client = FencedClient(
            settings=settings.kube, fenced=leadership.fenced, around=busy, observe=metrics.api_request
        )
        stack.push_async_callback(client.close)
        around = Surroundings(
            settings=settings,
            access=access,
            logger=logger,
            clock=clock,
            plays_found=plays_found,
            metrics=metrics,
            events=EventRecorder(client=client, logger=logger, clock=clock),
        )
        shared = Shared(
            settings=settings,
            client=client,
            discovery=Discovery(client=client),
            executor=build_executor(watches.watches, around=around),
            clock=clock,
            logger=logger,
            metrics=metrics,
            access=access,
        )
        operator = build_operator(watches.watches, shared=shared, leadership=leadership)
        await client.connect()
        signals.on_first(operator.stop)
        await operator.run()


def _end_at_once() -> None:
    """Exit 1 now, but leave no play without its operator, no kubeconfig and no key behind."""
    kill_all_runs()
    remove_folder()
    os._exit(1)


class _Signals:
    """First SIGTERM or SIGINT: end the start, or drain. The second one ends the process at once, as with the peer."""

    def __init__(self, *, logger: Logger) -> None:
        """Listen from now on, also to a signal that had to wait while the process started; needs the running loop."""
        self._logger = logger
        self._stop: Callable[[], object] = lambda: None
        self.received = False
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._first, number.name)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))

    def on_first(self, stop: Callable[[], object]) -> None:
        """Call *stop* at the first signal, and nothing else any more; at once where that came already."""
        self._stop = stop
        if self.received:
            stop()

    def _first(self, name: str) -> None:
        self._logger.info("Received a signal; a second one ends the process at once", signal=name)
        self.received = True
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, _end_at_once)
        self._stop()
