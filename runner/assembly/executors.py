"""What runs Ansible, put together: the cold executor, and the warm one where a watch's runs may be warm."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from runner.assembly.run_access import RunAccess
from runner.clock import Clock
from runner.execution.chosen import COLD, ChosenExecutor, warm_content
from runner.execution.cold import ColdLauncher
from runner.execution.events_log import EventLog
from runner.execution.executor import Executor
from runner.execution.launcher import Launcher
from runner.execution.play import PlayExecutor
from runner.execution.warm.launcher import WarmLauncher
from runner.execution.warm.server import ServerPlan
from runner.kube.events import EventRecorder
from runner.logs import Logger
from runner.observe.metrics import Metrics
from runner.observe.metrics_warm import WarmMetrics
from runner.settings import Settings
from runner.watches.model import Watch
from runner.workqueue.backoff import Backoff


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What runs of either executor have around them."""

    settings: Settings
    access: RunAccess
    """How they reach the API server."""
    logger: Logger
    clock: Clock
    plays_found: bool = False
    """The start saw that plays can run."""
    metrics: Metrics | None = None
    """Where they send metrics of their own."""
    events: EventRecorder | None = None
    """Tells people what of an object's annotations is ignored."""


def build_executor(watches: Iterable[Watch], *, around: Surroundings) -> ChosenExecutor:
    """Return the executor for *watches*; nothing is loaded for warm runs where no watch has any.

    It has to be started and stopped; an operator does so.
    """
    execution = around.settings.execution
    cold = ColdLauncher(settings=execution, plays_found=around.plays_found)
    content = warm_content(watches, default=execution.executor)
    if content is None:
        plays = play_executor(cold, around=around)
        return ChosenExecutor(
            cold=plays, default=COLD, logger=around.logger, events=around.events, metrics=_warm_metrics(around)
        )
    warm = WarmLauncher(
        ServerPlan(settings=execution, content=content),
        fallback=cold,
        clock=around.clock,
        delay=Backoff(around.settings.backoff, random.SystemRandom().random).delay,
        logger=around.logger,
        metrics=_warm_metrics(around),
    )
    return ChosenExecutor(
        cold=play_executor(cold, around=around),
        warm=play_executor(warm, around=around),
        source=warm,
        default=execution.executor,
        logger=around.logger,
        events=around.events,
        metrics=_warm_metrics(around),
    )


def _warm_metrics(around: Surroundings) -> WarmMetrics | None:
    return None if around.metrics is None else around.metrics.warm


def cold_executor(
    *,
    settings: Settings,
    access: RunAccess,
    logger: Logger,
    clock: Clock,
    plays_found: bool = False,
    metrics: Metrics | None = None,
) -> Executor:
    """Return the executor that starts ansible-runner anew for each run; the arguments are `Surroundings`'."""
    around = Surroundings(
        settings=settings, access=access, logger=logger, clock=clock, plays_found=plays_found, metrics=metrics
    )
    return play_executor(ColdLauncher(settings=settings.execution, plays_found=plays_found), around=around)


def play_executor(launcher: Launcher, *, around: Surroundings) -> PlayExecutor:
    """Return an executor whose plays *launcher* starts."""
    settings, metrics = around.settings, around.metrics
    return PlayExecutor(
        settings=settings.execution,
        launcher=launcher,
        kubeconfigs=around.access,
        observers=[
            EventLog(logger=around.logger, mode=settings.ansible_log_events, environ=settings.execution.environ)
        ],
        clock=around.clock,
        logger=around.logger,
        user_metrics=None if metrics is None else lambda: metrics.user.url,
    )
