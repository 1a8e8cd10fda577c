"""What Python handlers tell: which files run, how often their host started anew, which handlers failed.

`runner.handlers` reports here, from threads of its own. An operator without handlers has none of these series.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class HandlersMetrics:
    """Takes what the host of Python handlers does; without a registry nobody reads it."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register the families in *registry*."""
        self._running = Gauge(
            "ansible_operator_handlers_running",
            "Whether the handlers of a file run (1) or not (0).",
            ("file",),
            registry=registry,
        )
        self._restarts = Counter(
            "ansible_operator_handlers_restarts",
            "Starts of the embedded operator of a file's handlers after it ended by an error.",
            ("file",),
            registry=registry,
        )
        self._errors = Counter(
            "ansible_operator_handler_errors", "Calls of a handler that failed.", ("handler",), registry=registry
        )

    def running_when(self, file: str, read: Callable[[], bool]) -> None:
        """Report whether the handlers of *file* run, as *read* tells at each scrape."""
        self._running.labels(file=file).set_function(lambda: float(read()))
        self._restarts.labels(file=file)

    def restarted(self, file: str) -> None:
        """Count a start after an error."""
        self._restarts.labels(file=file).inc()

    def failed(self, handler: str) -> None:
        """Count a call of *handler* that failed."""
        self._errors.labels(handler=handler).inc()
