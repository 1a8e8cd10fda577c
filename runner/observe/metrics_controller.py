"""The metrics of one watch: what its queue, its reconciles and its runs report.

One `Controller` of the assembly has one `ControllerMetrics`. Everything is called on the event loop, but
the functions of the two gauges that a scrape reads: they are called in its thread.
"""

from __future__ import annotations

from runner.clock import Clock
from runner.kube.objects import GVK
from runner.observe.metrics_families import Families

RESULTS = ("success", "requeue", "requeue_after", "error")
"""How a reconcile ends, in controller-runtime's words."""


class ControllerMetrics:
    """Listens to the work queue of one watch, and measures its reconciles and runs."""

    def __init__(self, families: Families, *, gvk: GVK, name: str, workers: int, clock: Clock) -> None:
        """Start all series at zero; *name* is the value of the label `controller`."""
        self._clock = clock
        self._gvk = str(gvk)
        self._families = families
        self._working: list[float] = []
        """The starts of the work under way."""
        labels = {"name": name, "controller": name}
        self._depth = families.depth.labels(**labels, priority="")
        self._adds = families.adds.labels(**labels)
        self._waited = families.waited.labels(**labels)
        self._worked = families.worked.labels(**labels)
        self._retries = families.retries.labels(**labels)
        families.unfinished.labels(**labels).set_function(self._unfinished)
        families.longest.labels(**labels).set_function(self._longest)
        self._active = families.active.labels(name)
        families.workers.labels(name).set(workers)
        self._results = {result: families.reconciles.labels(name, result) for result in RESULTS}
        self._errors = families.errors.labels(name)
        self._panics = families.panics.labels(name)
        self._seconds = families.seconds.labels(name)
        families.terminal_errors.labels(name)  # stays at zero: whatever fails is tried again here

    def added(self) -> None:
        """Count a key that was put in line."""
        self._adds.inc()
        self._depth.inc()

    def started(self, waited: float) -> None:
        """Count a key that was handed out."""
        self._depth.dec()
        self._waited.observe(waited)
        self._active.inc()
        self._working.append(self._clock.monotonic())

    def finished(self, worked: float) -> None:
        """Count a key that is done; the queue tells how long it took, and that tells which one it was."""
        self._worked.observe(worked)
        self._active.dec()
        began = self._clock.monotonic() - worked
        if self._working:
            self._working.remove(min(self._working, key=lambda start: abs(start - began)))

    def retried(self) -> None:
        """Count a key that failed."""
        self._retries.inc()

    def reconcile(self) -> ReconcileMeasure:
        """Measure one reconcile, as a context manager."""
        return ReconcileMeasure(self, clock=self._clock)

    def reconciled(self, result: str, *, seconds: float) -> None:
        """Count a reconcile that ended with *result* (one of `RESULTS`)."""
        self._results[result].inc()
        self._seconds.observe(seconds)
        if result == "error":
            self._errors.inc()

    def broke(self) -> None:
        """Count a reconcile that a bug ended."""
        self._panics.inc()

    def run(self) -> RunMeasure:
        """Measure one run of Ansible, as a context manager."""
        return RunMeasure(self, clock=self._clock)

    def ran(self, *, success: bool, seconds: float) -> None:
        """Count a run."""
        result = "succeeded" if success else "failed"
        self._families.result_gauge.labels(self._gvk, result).inc()
        self._families.results.labels(self._gvk, result).inc()
        self._families.runs.labels(self._gvk).observe(seconds)

    def refused(self) -> None:
        """Count a `Failure` without a run as a failed one."""
        self._families.result_gauge.labels(self._gvk, "failed").inc()
        self._families.results.labels(self._gvk, "failed").inc()

    def _unfinished(self) -> float:
        now = self._clock.monotonic()
        return sum(now - start for start in list(self._working))

    def _longest(self) -> float:
        now = self._clock.monotonic()
        return now - min(list(self._working), default=now)


class ReconcileMeasure:
    """One reconcile; `result` and `refused` are set within the block. One that is cancelled counts as none."""

    def __init__(self, metrics: ControllerMetrics, *, clock: Clock) -> None:
        """Report to *metrics*."""
        self._metrics = metrics
        self._clock = clock
        self._began = clock.monotonic()
        self.result = "error"
        self.refused = False

    def __enter__(self) -> ReconcileMeasure:
        """Start."""
        self._began = self._clock.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Count; what is raised through here is a bug, as every other failure is a decision."""
        if kind is not None and not issubclass(kind, Exception):
            return
        if kind is not None:
            self._metrics.broke()
        if self.refused:
            self._metrics.refused()
        result = self.result if kind is None else "error"
        self._metrics.reconciled(result, seconds=self._clock.monotonic() - self._began)


class RunMeasure:
    """One run of Ansible; `success` is set within the block. One that is cancelled counts as none."""

    def __init__(self, metrics: ControllerMetrics, *, clock: Clock) -> None:
        """Report to *metrics*."""
        self._metrics = metrics
        self._clock = clock
        self._began = clock.monotonic()
        self.success = False

    def __enter__(self) -> RunMeasure:
        """Start."""
        self._began = self._clock.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Count; a run that could not be started is a failed one."""
        if kind is None or issubclass(kind, Exception):
            success = self.success and kind is None
            self._metrics.ran(success=success, seconds=self._clock.monotonic() - self._began)
