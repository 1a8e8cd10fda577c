"""What warm runs tell: how many there were, and for each that went cold instead why; the starts of fork servers.

`execution.warm.launcher` and `execution.chosen` report here. The values of labels are these few and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge


class Cold(StrEnum):
    """Why a play was started cold."""

    CHOSEN = "chosen"
    """By `--executor`, the watch's key or the object's annotation."""
    STARTING = "starting"
    """The first fork server is not ready yet."""
    FAILING = "failing"
    """No fork server can be started."""
    CHANGED = "changed"
    """What the last one had loaded changed on disk; the next one is not ready yet."""
    DIED = "died"
    """The last one died or retired; the next one is not ready yet."""
    REFUSED = "refused"
    """The fork server took this one play not."""
    STOPPING = "stopping"
    """The operator ends."""


class Start(StrEnum):
    """Why a fork server was started."""

    FIRST = "first"
    FAILED = "failed"
    """The try before this one failed."""
    DIED = "died"
    """The last one died or retired."""
    CHANGED = "changed"
    """Something changed on disk."""


class WarmMetrics:
    """Takes what the warm launcher does; without a registry nobody reads it."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register the families in *registry*."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"ansible_operator_{name}", text, labels, registry=registry)

        self._plays = counter(
            "launched_plays", "Plays that were started, by executor; for cold ones why.", "executor", "reason"
        )
        self._modules = counter("cold_modules", "Modules that the fork server was asked for and did not take.")
        self._servers = counter(
            "fork_server_starts", "Starts of fork servers, by what they followed and their result.", "reason", "result"
        )
        self._ready = Gauge(
            "ansible_operator_fork_server_ready",
            "Whether there is a fork server that new plays are forked from (1) or they go cold (0).",
            registry=registry,
        )

    def launched(self, *, cold: Cold | None) -> None:
        """Count a play that was started; *cold* says why it was not warm."""
        self._plays.labels(executor="warm" if cold is None else "cold", reason="" if cold is None else str(cold)).inc()

    def modules_went_cold(self, count: int) -> None:
        """Count modules that the module server refused."""
        self._modules.inc(count)

    def server_started(self, reason: Start, *, ready: bool) -> None:
        """Count a start of a fork server, once it is known how it ended."""
        self._servers.labels(reason=str(reason), result="ready" if ready else "failed").inc()

    def ready_when(self, read: Callable[[], bool]) -> None:
        """Report whether there is a fork server, as *read* tells at each scrape."""
        self._ready.set_function(lambda: float(read()))
