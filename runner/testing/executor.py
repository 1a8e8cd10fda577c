"""A scripted executor: `runner.execution.executor.Executor` for tests of everything that decides when to run.

Shipped, so that authors of an operator can test their own wiring. Builders for its values stand beside it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from runner.execution.executor import Outcome, PlayStats, RunRequest
from runner.kube.objects import GVK, Object, name_of, uid_of
from runner.watches.model import Content, Watch

During = Callable[[RunRequest], Awaitable[None]]
"""What happens within a run, after the gate."""
_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def succeeded(*, requeue_after: timedelta | None = None, ok: int = 1, changed: int = 0) -> Outcome:
    """Return the outcome of a run that went well."""
    stats = PlayStats(ok=ok, changed=changed, completion="2026-01-01T00:00:00+00:00")
    return Outcome(success=True, stats=stats, requeue_after=requeue_after, rc=0, started=_MOMENT, finished=_MOMENT)


def failed(*messages: str, with_recap: bool = True) -> Outcome:
    """Return the outcome of a run that failed with *messages*; one without a recap broke off."""
    stats = PlayStats(failures={"localhost": 1}, failed=1, completion="2026-01-01T00:00:00+00:00")
    return Outcome(
        success=False,
        failures=messages or ("it failed",),
        stats=stats if with_recap else None,
        rc=2,
        started=_MOMENT,
        finished=_MOMENT,
    )


def run_request(
    *,
    watch: Watch | None = None,
    obj: Object | None = None,
    spec: Mapping[str, Any] | None = None,
    finalizing: bool = False,
    ident: str = "1",
) -> RunRequest:
    """Return a request for one run; what is not given is a small object of the kind `Probe`."""
    kind = GVK("bugs.example.com", "v1", "Probe")
    body: Object = obj or {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "probe", "namespace": "default", "uid": "8d7f0f0c"},
        "spec": dict(spec or {}),
    }
    chosen = watch or Watch(gvk=kind, content=Content())
    return RunRequest(
        watch=chosen,
        obj=body,
        ident=ident,
        finalizing=finalizing,
        verbosity=0,
        max_artifacts=chosen.max_runner_artifacts,
    )


class ScriptedExecutor:
    """Plays outcomes in their order, then succeeds for ever; remembers each request and how many ran at once."""

    def __init__(
        self,
        *,
        outcomes: Iterable[Outcome | Exception] = (),
        during: Callable[[RunRequest], Awaitable[None]] | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Play *outcomes*; an exception among them is raised.

        Args:
            outcomes: one per run, taken when it starts.
            during: what happens in the middle of each run.
            seconds: how long each run takes besides.
        """
        self._outcomes = deque(outcomes)
        self._during = during
        self._seconds = seconds
        self._running: Counter[str] = Counter()
        self.requests: list[RunRequest] = []
        """Every request, in the order of their starts."""
        self.cancelled: list[RunRequest] = []
        self.most_at_once = 0
        self.most_at_once_per_object = 0

    async def run(self, request: RunRequest) -> Outcome:
        """Take the next outcome, let the run take its time, and return it."""
        outcome = self._outcomes.popleft() if self._outcomes else succeeded()
        self.requests.append(request)
        uid = uid_of(request.obj)
        self._running[uid] += 1
        self.most_at_once = max(self.most_at_once, self._running.total())
        self.most_at_once_per_object = max(self.most_at_once_per_object, self._running[uid])
        try:
            if self._during is not None:
                await self._during(request)
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled.append(request)
            raise
        finally:
            self._running[uid] -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def runs_of(self, name: str) -> list[RunRequest]:
        """Return the requests for the object *name*, in the order of their starts."""
        return [request for request in self.requests if name_of(request.obj) == name]
