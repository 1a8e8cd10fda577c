"""What the assembly needs for metrics: the servers, and the adapters between the stages and `runner.observe`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from runner import __version__
from runner.clock import Clock
from runner.execution.executor import Executor, Outcome, RunRequest
from runner.kube.client import KubeClient
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
    return {
        namespace: InformerReading(
            state=state.value,
            lists=counters[namespace].lists,
            watches=counters[namespace].watches,
            errors=counters[namespace].errors,
        )
        for namespace, state in source.states().items()
    }


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
