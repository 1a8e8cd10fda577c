"""The stop of an operator: Python handlers end after the plays that may ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.assembly.dependents import build_dependents
from runner.assembly.operator import Operator
from runner.assembly.parts import Shared
from runner.clock import SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink
from runner.observe.health import Finding
from runner.settings import KubeSettings, Settings
from runner.testing.executor import ScriptedExecutor
from runner.testing.waiting import eventually


class Stoppable:
    """A host of handlers that ends when it is stopped."""

    def __init__(self) -> None:
        """Run on."""
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        """Wait for the stop, and take some turns of the loop to end."""
        await self.stopped.wait()
        for _ in range(100):
            await asyncio.sleep(0)

    def stop(self) -> None:
        """End."""
        self.stopped.set()

    def readiness(self) -> Finding | None:
        """Find nothing."""

    def liveness(self) -> Finding | None:
        """Find nothing."""

    async def values(self, file: Path, obj: Object) -> Mapping[str, Any]:
        """Know nothing."""
        return {}


def operator_with(handlers: Stoppable, *, grace: float) -> tuple[Operator, RecordingSink]:
    """Return an operator with *handlers*, and its log."""
    client, sink = KubeClient(settings=KubeSettings()), RecordingSink()
    shared = Shared(
        settings=Settings(graceful_shutdown_timeout=grace),
        client=client,
        discovery=Discovery(client=client),
        executor=ScriptedExecutor(),
        clock=SystemClock(),
        logger=Logger(sink=sink),
        handlers=handlers,
    )
    return Operator(controllers=(), dependents=build_dependents((), shared=shared), shared=shared), sink


async def test_handlers_are_stopped_after_the_plays() -> None:
    """A play that is under way may still ask; when the last one has ended, handlers are stopped."""
    handlers, played = Stoppable(), asyncio.Event()
    operator, sink = operator_with(handlers, grace=100.0)
    worker = asyncio.create_task(_until(played))
    drain = asyncio.create_task(operator._drain([worker], others=[asyncio.create_task(handlers.run())]))
    await eventually(lambda: "Stopping: no new reconciles" in sink.sentences())
    assert not handlers.stopped.is_set()
    played.set()
    assert await drain is False
    assert handlers.stopped.is_set()


@pytest.mark.parametrize("grace", [0.0, 0.05])
async def test_plays_that_take_the_grace_period_leave_handlers_a_moment(grace: float) -> None:
    """After the grace period handlers have a second to end in order; that plays were late is told."""
    handlers = Stoppable()
    operator, sink = operator_with(handlers, grace=grace)
    worker = asyncio.create_task(_until(asyncio.Event()))
    host = asyncio.create_task(handlers.run())
    assert await operator._drain([worker], others=[host]) is True
    assert host.done()
    assert "The grace period is over: running plays are ended" in sink.sentences()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


async def _until(event: asyncio.Event) -> None:
    await event.wait()
