"""An operator in the test's loop whose `/metrics` can be scraped, and a kind of its own for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.assembly import Operator, Shared
from runner.execution.executor import Executor
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.localdev.plane import ControlPlane
from runner.observe.endpoint import MetricsServer
from runner.observe.metrics import Metrics
from runner.observe.user_metrics_server import UserMetricsServer
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd
from runner.testing.harness import ExecutorFor, running_operator, settings_for
from runner.testing.waiting import eventually
from runner.watches.model import Watch

WIDGETS = GVK("observe.example.com", "v1", "Widget")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def sample(samples: Samples, series: str, /, **labels: str) -> float | None:
    """Return one value of a page."""
    return samples.get((series, frozenset(labels.items())))


@dataclass(frozen=True, kw_only=True)
class Scraped:
    """A running operator and its servers."""

    metrics: MetricsServer
    user_metrics: UserMetricsServer

    async def text(self) -> str:
        """Read the page."""
        url = f"http://127.0.0.1:{self.metrics.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.status == 200
            return await answer.text()

    async def samples(self) -> Samples:
        """Read the page as Prometheus does."""
        families = text_string_to_metric_families(await self.text())
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def scraped(operator: Operator) -> Scraped:
    """Return the servers of *operator*."""
    (metrics,) = (service for service in operator._services if isinstance(service, MetricsServer))
    (user,) = (service for service in operator._services if isinstance(service, UserMetricsServer))
    return Scraped(metrics=metrics, user_metrics=user)


RunScraped = Callable[..., contextlib.AbstractAsyncContextManager[Scraped]]


@pytest.fixture
def settings(plane: ControlPlane, namespace: str) -> Settings:
    """Return settings that serve metrics on free loopback ports and watch only the test's namespace."""
    settings = settings_for(plane.kubeconfig)
    serving = replace(settings.serving, metrics_bind_address="127.0.0.1:0", user_metrics_bind_address="127.0.0.1:0")
    return replace(settings, serving=serving, namespaces=(namespace,))


@pytest.fixture
def run_scraped(settings: Settings) -> RunScraped:
    """Give a function that runs an operator for a block, and yields its servers once they listen."""

    @contextlib.asynccontextmanager
    async def run(
        watches: Sequence[Watch], *, executor: Executor | ExecutorFor, metrics: Metrics | None = None
    ) -> AsyncIterator[Scraped]:
        def adjust(shared: Shared) -> Shared:
            return replace(shared, metrics=metrics or shared.metrics)

        async with running_operator(watches, settings=settings, executor=executor, adjust=adjust) as operator:
            servers = scraped(operator)
            await eventually(lambda: servers.user_metrics.port)
            yield servers

    return run


@dataclass(frozen=True, kw_only=True)
class Widgets:
    """The Widgets of one namespace."""

    kube: KubeClient
    resource: Resource
    namespace: str

    async def create(self, name: str, **metadata: object) -> Object:
        """Create one."""
        body = {
            "apiVersion": WIDGETS.api_version,
            "kind": WIDGETS.kind,
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": {"size": 1},
        }
        return await self.kube.create(self.resource, namespace=self.namespace, body=body)

    async def patch(self, name: str, body: Object) -> Object:
        """Merge *body* into one."""
        return await self.kube.patch(self.resource, namespace=self.namespace, name=name, body=body)

    async def delete(self, name: str) -> None:
        """Delete one."""
        await self.kube.delete(self.resource, namespace=self.namespace, name=name)


@pytest.fixture
async def widgets(kube: KubeClient, namespace: str) -> Widgets:
    """Give the Widgets of a fresh namespace."""
    resource = await install_crd(kube, crd("Widget", group=WIDGETS.group))
    return Widgets(kube=kube, resource=resource, namespace=namespace)
