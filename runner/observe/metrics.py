"""All metrics of one operator, on a registry of their own: what the stages report, what users send, what is scraped.

    queue, reconcile, runs ───▶ ControllerMetrics ─┐
    objects, informers ───────▶ collectors ────────┼──▶ Metrics.text() ──▶ endpoint (`/metrics`)
    API, proxy, leadership ───▶ Metrics ───────────┤
    roles (`osdk_metric`) ────▶ UserMetrics ───────┘

No name, type or label of the peer is changed here; decision 0010 tells how.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector

from runner.clock import Clock, SystemClock
from runner.kube.objects import GVK
from runner.observe.metrics_controller import ControllerMetrics
from runner.observe.metrics_families import Families, PlayFamilies
from runner.observe.metrics_handlers import HandlersMetrics
from runner.observe.metrics_objects import (
    CreatedCollector,
    CreatedObjects,
    InformerCollector,
    ReadDependents,
    ReadInformers,
)
from runner.observe.metrics_text import render
from runner.observe.metrics_warm import WarmMetrics
from runner.observe.user_metrics import UserMetrics, series_names

STATES = ("starting", "synced", "missing", "forbidden", "error")
"""The values of `runner.sources.informer.State`, which lies above; a test compares them."""


class Metrics:
    """Takes what the operator does and returns it as text."""

    def __init__(self, *, version: str = "unknown", commit: str = "unknown", clock: Clock | None = None) -> None:
        """Start without a watch; nothing is global, so that two operators in one process don't mix."""
        self._registry = CollectorRegistry()
        self._clock = clock or SystemClock()
        self._families = Families(self._registry)
        self._plays = PlayFamilies(self._registry)
        self.warm = WarmMetrics(self._registry)
        self.handlers = HandlersMetrics(self._registry)
        self._families.build_info.labels(commit=commit, version=version).set(1)
        self._created = CreatedCollector()
        self._informers = InformerCollector(states=STATES)
        self._names: dict[GVK, str] = {}
        builtins = [builtin(registry=CollectorRegistry()) for builtin in (ProcessCollector, PlatformCollector)]
        for collector in (self._created, self._informers, *builtins):
            self._registry.register(_Contained(collector))
        GCCollector(registry=self._registry)
        # All families are there, and no series yet: now their names cost nothing to read.
        self.user = UserMetrics(taken=series_names(self._registry.collect()), clock=self._clock)

    def text(self) -> str:
        """Return everything in the text format 0.0.4; may be called in any thread."""
        return render([*self._registry.collect(), *_Contained(self.user).collect()])

    def name_controllers(self, kinds: Iterable[GVK]) -> None:
        """Choose the `controller` label of each kind, knowing all of them; see `controller_names`."""
        self._names = controller_names(kinds)

    def controller(self, gvk: GVK, *, workers: int) -> ControllerMetrics:
        """Return the metrics of one watch."""
        name = self._names.get(gvk) or controller_names([gvk])[gvk]
        return ControllerMetrics(self._families, gvk=gvk, name=name, workers=workers, clock=self._clock)

    def objects(self, gvk: GVK) -> CreatedObjects:
        """Return where the objects of one watch are told."""
        return self._created.kind(gvk)

    def informers(self, gvk: GVK, *, read: ReadInformers) -> None:
        """Report the informers of one watch, as *read* finds them at each scrape."""
        self._informers.watch(gvk, read=read)

    def dependent_informers(self, read: ReadDependents) -> None:
        """Report the informers of dependents, as *read* finds them at each scrape."""
        self._informers.dependents(read)

    def api_request(self, method: str, *, code: str, host: str) -> None:
        """Count a request to the API server; *code* is its status, `<error>` where there was no answer."""
        self._families.requests.labels(code=code, method=method, host=host).inc()

    def proxy_request(self, *, caller: str, code: str) -> None:
        """Count a request through the proxy: who sent it (`run`, `none`, `refused`), and the status of its answer."""
        self._families.proxied.labels(caller=caller, code=code).inc()

    def leading(self, name: str, leads: bool) -> None:  # noqa: FBT001 - the shape of the elector's callback
        """Tell whether this process holds the Lease *name*."""
        self._families.leading.labels(name=name).set(float(leads))

    def plays(self, *, running: Callable[[], int], waiting: Callable[[], int]) -> None:
        """Report how many plays run and how many wait for their turn, as these tell at each scrape."""
        self._plays.running.set_function(running)
        self._plays.waiting.set_function(waiting)

    def certificate_read(self, *, success: bool) -> None:
        """Count a reading of the serving certificate."""
        self._families.certificates.inc()
        if not success:
            self._families.certificate_errors.inc()


class _Collects(Protocol):
    """What has families: a collector of the library, or `UserMetrics`."""

    def collect(self) -> Iterable[Metric]: ...


class _Contained(Collector):
    """A collector that returns nothing, and says so in the log, where the one below raises."""

    def __init__(self, collector: _Collects) -> None:
        self._collector = collector

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        try:
            return list(self._collector.collect())
        except Exception:  # one broken collector must not take all others off the page
            name = type(self._collector).__name__
            logging.getLogger(__name__).exception("A collector of metrics is left out: %s", name)
            return []


def controller_names(kinds: Iterable[GVK]) -> dict[GVK, str]:
    """Return the `controller` label of each kind: the peer's `<kind>-<version>-controller` in small letters.

    Kinds whose labels would be equal, because only their groups differ, get the group in front of `controller`.
    """
    kinds = tuple(kinds)
    short = {gvk: f"{gvk.kind}-{gvk.version}".lower() for gvk in kinds}
    uses = Counter(short.values())
    return {
        gvk: f"{name}-controller" if uses[name] == 1 else f"{name}-{(gvk.group or 'core').lower()}-controller"
        for gvk, name in short.items()
    }
