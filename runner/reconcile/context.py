"""What the steps of one reconcile share: the collaborators (`Parts`) and the working state (`Context`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from runner.clock import Clock
from runner.execution.executor import Executor, Outcome
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.logs import Logger
from runner.reconcile.finalizer import Client
from runner.reconcile.schedule import Decision, Periods
from runner.status.pending import PendingStatus
from runner.status.writer import Compute, WriteResult
from runner.watches.model import Watch
from runner.workqueue.request import Request


class ResourceFinder(Protocol):
    """Finds the URL of a kind."""

    async def resource(self, gvk: GVK) -> Resource:
        """Return the resource; raise `NotFound` where the kind is not served."""
        ...

    def forget(self, gvk: GVK) -> None:
        """Ask again next time."""
        ...


class StatusReporter(Protocol):
    """Writes our conditions (`runner.status.writer.StatusWriter`)."""

    async def write(self, resource: Resource, obj: Object, *, compute: Compute) -> WriteResult:
        """Bring the conditions to what *compute* makes of them."""
        ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The collaborators of one watch's reconciles."""

    watch: Watch
    client: Client
    discovery: ResourceFinder
    status: StatusReporter
    pending: PendingStatus
    executor: Executor
    periods: Periods
    clock: Clock
    ident: Callable[[], str]
    """Makes the id of a run."""
    message_limit: int
    """Bytes of a condition's message."""


@dataclass(kw_only=True)
class Context:
    """The working state of one reconcile; lives as long as it."""

    request: Request
    log: Logger
    resource: Resource | None = None
    obj: Object = field(default_factory=dict)
    """The newest state of the object that was read or written."""
    period: timedelta = timedelta(0)
    finalizing: bool = False
    """This run is the finalizer's: decided once, from the object as it was when the run started."""
    generation: int = 0
    """The generation that the run saw: what its success or failure belongs to."""
    outcome: Outcome | None = None


Step = Callable[[Context, Parts], Awaitable[Decision | None]]
"""Does one thing; returns the decision that ends the reconcile, or None to go on."""
