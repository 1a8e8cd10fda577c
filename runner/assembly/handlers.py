"""Python handlers put together: the files that watches name, one host for all of them, and what runs get from them.

kopf is imported only where a watch names handlers, as it costs half a second and some memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runner.errors import ConfigError, ExecutionError
from runner.execution.executor import Executor, Outcome, RunRequest
from runner.kube.objects import Object
from runner.observe.health import Finding
from runner.watches.model import Watch

if TYPE_CHECKING:
    from runner.assembly.parts import Shared


class PythonHandlers(Protocol):
    """The host of all handlers (`runner.handlers.host.Host`)."""

    async def run(self) -> None:
        """Keep handlers running until `stop`; cancelled, leave them little time."""
        ...

    def stop(self) -> None:
        """Begin the end."""
        ...

    def readiness(self) -> Finding | None:
        """Return what keeps handlers from running; in any thread."""
        ...

    def liveness(self) -> Finding | None:
        """Return what a restart of the process would mend; in any thread."""
        ...

    async def values(self, file: Path, obj: Object) -> Mapping[str, Any]:
        """Return what *file* hands to a run for *obj*; raise `ExecutionError` where it can't be had."""
        ...


class InformedExecutor:
    """An executor that tells each run what the handlers of its watch publish."""

    def __init__(
        self, executor: Executor, *, handlers: PythonHandlers | None, refused: Callable[[], None] = lambda: None
    ) -> None:
        """Run with *executor*; tell *refused* of each run that fails for want of values: it has no time of its own."""
        self._executor = executor
        self._refused = refused
        self._handlers = handlers

    async def run(self, request: RunRequest) -> Outcome:
        """Ask the handlers, and run; raise `ExecutionError` where they have no answer."""
        file = request.watch.handlers
        if file is not None and self._handlers is not None:
            try:
                values = await self._handlers.values(file, request.obj)
            except ExecutionError:
                self._refused()
                raise
            request = replace(request, handlers=values)
        return await self._executor.run(request)


def build_handlers(watches: Sequence[Watch], *, shared: Shared, fenced: Callable[[], bool]) -> PythonHandlers | None:
    """Return the host of the handlers that *watches* name, None where there are none.

    Handlers write nothing while *fenced*.

    Raises:
        ConfigError: a file can't be imported, or has something in it that can't work.
    """
    files = [watch.handlers for watch in watches if watch.handlers is not None]
    if not files:
        return None
    from runner.handlers.embedded import Plan  # noqa: PLC0415 - kopf, see the module's docstring
    from runner.handlers.host import Host, HostSettings  # noqa: PLC0415 - kopf
    from runner.handlers.loading import load  # noqa: PLC0415 - kopf
    from runner.handlers.session import Connection  # noqa: PLC0415 - kopf

    settings, loaded = shared.settings, load(files)
    admission = [*loaded.of("on.validate"), *loaded.of("on.mutate")]
    if admission and settings.handlers.webhook_bind_address in {"", "0"}:
        raise ConfigError(
            f"--webhook-bind-address=0, but there are admission handlers ({', '.join(admission)}); give an address, "
            "or delete them"
        )
    plan = Plan(
        loaded=loaded,
        connection=Connection(kube=settings.kube, fenced=fenced, observe=shared.metrics.api_request),
        logger=shared.logger.named("handlers"),
        namespaces=settings.namespaces,
        settings=settings.handlers,
        metrics=shared.metrics.handlers,
    )
    host = HostSettings(handlers=settings.handlers, log_level=settings.log_level, loop_limit=settings.health.loop_limit)
    return Host(plan, settings=host, clock=shared.clock)
