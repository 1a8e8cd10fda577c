"""What the assembly needs for metrics: the servers, and the adapters between the stages and `runner.observe`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from runner import __version__
from runner.clock import Clock
from runner.execution.executor import Executor, Outcome, RunRequest
from runner.kube.client import KubeClient
from runner.kube.objects import GVK
from runner.logs import Logger
from runner.observe.address import split_address
from runner.observe.endpoint import MetricsServer
from runner.observe.endpoint_access import Access
from runner.observe.endpoint_tls import ServingCertificate
from runner.observe.metrics import Metrics
from runner.observe.metrics_controller import ControllerMetrics
from runner.observe.metrics_objects import InformerReading
from runner.observe.user_metrics_server import UserMetricsServer
from runner.settings import ServingSettings
from runner.sources.dependents import DependentSources
from runner.sources.informer import Counters, State
from runner.sources.primary import PrimarySource


def new_metrics(*, clock: Clock, commit: str = "unknown") -> Metrics:
    """Return the metrics of one operator."""
    return Metrics(version=__version__, commit=commit, clock=clock)


class MeasuredExecutor:
    """An executor that reports each run."""

    def __init__(self, executor: Executor, *, metrics: ControllerMetrics) -> None:
        """Run with *executor*."""
        self._executor = executor
        self._metrics = metrics

    async def run(self, request: RunRequest) -> Outcome:
        """Run, and count the result and the time."""
        with self._metrics.run() as measured:
            outcome = await self._executor.run(request)
            measured.success = outcome.success
        return outcome


def report_informers(source: PrimarySource, *, metrics: Metrics) -> None:
    """Let *metrics* read the informers of *source* at each scrape."""
    metrics.informers(source.watch.gvk, read=partial(_readings, source))


def _readings(source: PrimarySource) -> Mapping[str, InformerReading]:
    counters = source.counters()
    return {namespace: _reading(state, counters[namespace]) for namespace, state in source.states().items()}


def report_dependents(sources: DependentSources, *, metrics: Metrics) -> None:
    """Let *metrics* read the informers of dependents at each scrape."""
    metrics.dependent_informers(partial(_dependent_readings, sources))


def _dependent_readings(sources: DependentSources) -> Mapping[GVK, Mapping[str, InformerReading]]:
    states = sources.states()
    counters = sources.counters()  # read later: it has all that were there then, and maybe more
    return {
        gvk: {namespace: _reading(state, counters[gvk][namespace]) for namespace, state in found.items()}
        for gvk, found in states.items()
    }


def _reading(state: State, counters: Counters) -> InformerReading:
    return InformerReading(state=state.value, lists=counters.lists, watches=counters.watches, errors=counters.errors)


def metrics_server(
    metrics: Metrics, *, settings: ServingSettings, client: KubeClient, clock: Clock, logger: Logger
) -> MetricsServer:
    """Return the scraper's endpoint."""
    log = logger.named("controller-runtime.metrics")
    certificate = ServingCertificate(
        settings.metrics_cert_dir, logger=log, observe=lambda success: metrics.certificate_read(success=success)
    )
    return MetricsServer(
        address=split_address(settings.metrics_bind_address),
        text=metrics.text,
        logger=log,
        tls=certificate.context if settings.metrics_secure else None,
        guard=Access(client=client, clock=clock, logger=log) if settings.metrics_require_rbac else None,
    )


def user_metrics_server(
    metrics: Metrics, *, settings: ServingSettings, clock: Clock, logger: Logger
) -> UserMetricsServer:
    """Return the endpoint of roles and playbooks; its URL is told to *metrics*, where runs find it."""

    def keep(url: str) -> None:
        metrics.user.url = url

    return UserMetricsServer(
        address=split_address(settings.user_metrics_bind_address),
        handle=metrics.user.handle,
        logger=logger.named("apiserver"),
        clock=clock,
        tell_url=keep,
    )
