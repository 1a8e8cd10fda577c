"""The seam between deciding and running: `Executor.run(RunRequest) -> Outcome`.

`reconcile` fills a `RunRequest`; an executor runs the play (warm or cold), reads all its events and returns
an `Outcome`. An executor never writes status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from runner.kube.objects import Object
from runner.watches.model import Watch


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Everything that one run needs to know."""

    watch: Watch
    obj: Object
    """The object as of after the status said Running."""
    ident: str
    """A decimal random number: job id, artifact folder."""
    finalizing: bool
    verbosity: int
    """Number of `v`s; 0 for none."""
    max_artifacts: int
    """Runs whose artifacts are kept; 0 keeps all."""
    handlers: Mapping[str, Any] = field(default_factory=dict)
    """What the Python handlers of the watch hand to this run."""
    time_limit: timedelta = timedelta()
    """The longest that the play may take; zero: no limit."""
    notes_told: bool = False
    """An earlier run for the same generation has logged what of the object is not used as it is."""


@dataclass(frozen=True, kw_only=True)
class PlayStats:
    """The recap over all hosts, and the peer's `ansibleResult` numbers of localhost."""

    failures: Mapping[str, int] = field(default_factory=dict)
    unreachable: Mapping[str, int] = field(default_factory=dict)
    ok: int = 0
    changed: int = 0
    skipped: int = 0
    failed: int = 0
    completion: str = ""
    """`created` of the stats event, as the peer prints it: `2026-11-29T14:40:25.94964+00:00`."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended, after all its events were read."""

    success: bool
    failures: tuple[str, ...] = ()
    """Messages for a person; never empty when `success` is false."""
    stats: PlayStats | None = None
    """None when the play never reached its recap."""
    requeue_after: timedelta | None = None
    """The last period that `operator_sdk.util.requeue_after` asked for."""
    rc: int | None = None
    started: datetime
    finished: datetime
    artifacts: Path | None = None
    timed_out: bool = False
    """The play was ended as it took longer than its time limit."""
    warm: bool = False
    """It was forked from a process that has Ansible loaded; also a warm executor's runs are cold at times."""


class Executor(Protocol):
    """Runs the role or playbook of a watch for one object."""

    async def run(self, request: RunRequest) -> Outcome:
        """Run and return the outcome; raise `ExecutionError` where the run could not be started at all.

        Cancelling the task ends the run's whole process group before `CancelledError` is raised again.
        """
        ...


@runtime_checkable
class ComesUp(Protocol):
    """An executor that is quicker once it has come up: optional beside `Executor`, for the start of the workers."""

    async def settled(self) -> None:
        """Return when it has, or when waiting for it is no use."""
        ...


@runtime_checkable
class KnowsReadiness(Protocol):
    """An executor that can tell whether a run could start: optional beside `Executor`, for the readiness probe."""

    async def ready(self) -> str | None:
        """Return None where it could, else a sentence that says what is missing; asked again every few seconds."""
        ...


@runtime_checkable
class HasRemark(Protocol):
    """An executor that has something to say of itself although runs can start: optional, for `/readyz?verbose`."""

    def remark(self) -> str | None:
        """Return a sentence for a person, where there is one."""
        ...
