"""What the steps of one reconcile share: the collaborators (`Parts`) and the working state (`Context`)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from runner.clock import Clock
from runner.execution.executor import Executor, Outcome
from runner.execution.gate import Gate, Place
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.kube.verbs import ObjectClient
from runner.logs import Logger
from runner.reconcile.notices import Events, NoEvents, Notices
from runner.reconcile.schedule import Decision, Periods
from runner.status.pending import PendingStatus
from runner.status.writer import Compute, Unless, WriteResult
from runner.watches.model import Watch
from runner.workqueue.exclusion import Claims
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

    async def write(
        self, resource: Resource, obj: Object, *, compute: Compute, unless: Unless = ..., newest: Object | None = None
    ) -> WriteResult:
        """Bring the conditions to what *compute* makes of them, unless that is true of the live object.

        *newest* is the object as it most probably is now.
        """
        ...


@dataclass(kw_only=True)
class Unmeasured:
    """A measure that nobody reads."""

    result: str = ""
    refused: bool = False


class Measured(Protocol):
    """One reconcile that is being measured (`runner.observe.metrics_controller.ReconcileMeasure`)."""

    result: str
    """How it ended, set before it is left; see `result_of`."""
    refused: bool
    """It said `Failure` without a run; set before it is left. Counted as a failed run, as the peer does."""


Measure = Callable[[], AbstractContextManager[Measured]]


def unmeasured() -> AbstractContextManager[Measured]:
    """Return a context that measures nothing."""
    return nullcontext(Unmeasured())


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The collaborators of one watch's reconciles."""

    watch: Watch
    client: ObjectClient
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
    events: Events = field(default_factory=NoEvents)
    notices: Notices = field(default_factory=Notices)
    claims: Claims | None = None
    """Excludes the reconciles of other watches on the same object; None: there is no other."""
    earlier: tuple[Watch, ...] = ()
    """The watches of the same kind that come first in the file: they own status and finalizer of what they serve."""
    measure: Measure = unmeasured
    """Measures one reconcile."""
    gate: Gate = field(default_factory=Gate)
    """Limits the plays of all watches together."""
    seen: Callable[[Request], Object | None] = lambda _request: None
    """Returns the object as the source saw it last, None where it holds none: then an event will bring its key."""


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
    failed: bool = False
    """An error ended the reconcile early."""
    announced: bool = False
    """The status may say Running because of this reconcile."""
    refused: bool = False
    """A `Failure` was to be told, and there was no run."""
    place: Place | None = None
    """The right to run a play, while this reconcile has it."""
    narrowed: Parts | None = None
    """The collaborators for this object, where an earlier watch owns its status or finalizer."""

    def leave(self) -> None:
        """Give the place back, if there is one."""
        if self.place is not None:
            self.place.leave()

    @property
    def counts_status(self) -> bool:
        """Tell whether writes of the status move the object's generation: its kind has no status subresource."""
        return self.resource is not None and "status" not in self.resource.subresources

    @property
    def wish(self) -> int:
        """Return a number of what the object asks for: a failure of another number starts the back-off anew.

        That is the generation, or a checksum where a kind has none or counts the operator's own status writes.
        """
        if self.generation and not self.counts_status:
            return self.generation
        content = {key: value for key, value in self.obj.items() if key not in {"metadata", "status"}}
        return zlib.crc32(json.dumps(content, sort_keys=True, default=str).encode())


Step = Callable[[Context, Parts], Awaitable[Decision | None]]
"""Does one thing; returns the decision that ends the reconcile, or None to go on."""
