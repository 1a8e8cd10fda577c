"""The host of the embedded operator, where no API server answers: what it tells, and that it ends."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.handlers.embedded import Plan
from runner.handlers.host import Host, HostSettings
from runner.handlers.loading import load
from runner.handlers.session import Connection
from runner.logs import Logger, RecordingSink
from runner.observe.metrics_handlers import HandlersMetrics
from runner.settings import BackoffSettings, HandlersSettings, KubeSettings
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.waiting import ended, eventually

PUBLISHES = """
import threading
import kopf
from runner.handlers import published

door = threading.Event()
entered = threading.Event()

@kopf.on.event("pods")
async def see(**_): ...

@published
def number(**_):
    return 5
"""
BLOCKS = """
@kopf.on.startup()
async def block(**_):
    entered.set()
    door.wait(60)
"""
FAILS = """
@kopf.on.startup()
async def fail(**_):
    raise kopf.PermanentError("not today")
"""
QUICK = HandlersSettings(backoff=BackoffSettings(base=0.01, cap=0.02), patience=0.2)
OBJECT = {"metadata": {"name": "one"}}


def host_of(
    folder: Path,
    text: str,
    *,
    settings: HandlersSettings = QUICK,
    sink: RecordingSink | None = None,
    loop_limit: float = 30.0,
) -> tuple[Host, Path]:
    """Return a host for a file with *text*, whose API server is nowhere, and the file."""
    file = folder / f"host_{folder.name}.py"
    file.write_text(text)
    kubeconfig = write_kubeconfig(folder / "kubeconfig", server="http://127.0.0.1:1")
    plan = Plan(
        loaded=load([file]),
        connection=Connection(kube=KubeSettings(kubeconfig=str(kubeconfig))),
        logger=Logger("handlers", sink=sink or RecordingSink(), level="debug"),
        settings=settings,
        metrics=HandlersMetrics(),
    )
    return Host(plan, settings=HostSettings(handlers=settings, loop_limit=loop_limit), clock=SystemClock()), file


@contextlib.asynccontextmanager
async def running(host: Host) -> AsyncIterator[None]:
    """Run *host* during the block."""
    task = asyncio.create_task(host.run())
    try:
        yield
    finally:
        host.stop()
        await task


async def test_before_it_runs_it_has_nothing_to_say(tmp_path: Path) -> None:
    """A standby isn't unready for handlers that shall not run; a run that needs values fails in the end."""
    host, file = host_of(tmp_path, PUBLISHES)
    assert (host.readiness(), host.liveness(), host.running) == (None, None, False)
    with pytest.raises(ExecutionError, match=r"host_.*\.py, but after 0\.2 s its handlers don't run: not started"):
        await host.values(file, OBJECT)
    assert await host.values(tmp_path / "another.py", OBJECT) == {}


async def test_without_an_api_server_it_is_not_ready_and_ends_at_once(tmp_path: Path) -> None:
    """It keeps trying, says so, gives no values, and a stop is not held up by it."""
    sink = RecordingSink()
    host, file = host_of(tmp_path, PUBLISHES, sink=sink)
    async with running(host):
        await eventually(lambda: any("Request attempt" in sentence for sentence in sink.sentences()))
        finding = host.readiness()
        assert finding is not None
        assert finding.fails
        assert finding.sentence.startswith("not started yet")
        await eventually(lambda: "waiting for GET /api: no answer" in str(host.readiness()))
        with pytest.raises(
            ExecutionError, match=r"but after 0\.2 s its handlers have not started yet, waiting for GET"
        ):
            await host.values(file, OBJECT)
    assert sink.sentences()[-1] == "The Python handlers have ended"


async def test_a_loop_that_a_handler_blocks_is_no_longer_live(tmp_path: Path) -> None:
    """A coroutine that doesn't await stops all handlers: the liveness probe says what it is, until it goes on."""
    host, file = host_of(tmp_path, PUBLISHES + BLOCKS, loop_limit=3.0)
    module = sys.modules[f"handlers.{file.stem}"]
    async with running(host):
        await eventually(module.entered.is_set)
        assert host.liveness() is None
        await eventually(lambda: host.liveness() is not None)
        finding = host.liveness()
        assert finding is not None
        assert "the handlers' event loop has not turned" in finding.sentence
        module.door.set()
        await eventually(lambda: host.liveness() is None)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # kopf's, when it ends at its start
async def test_an_end_by_an_error_is_told_by_the_probe(tmp_path: Path) -> None:
    """Between two lives the probe says what ended the last one, and that another one comes; a stop ends the pause."""
    slow = HandlersSettings(backoff=BackoffSettings(base=1000.0), patience=0.2)
    host, file = host_of(tmp_path, PUBLISHES + FAILS, settings=slow)
    async with running(host):
        await eventually(lambda: "not today" in str(host.readiness()), limit=120)
        finding = host.readiness()
        assert finding is not None
        assert finding.fails
        assert "starting again in up to" in finding.sentence
        with pytest.raises(ExecutionError, match="its handlers don't run: ended by an error"):
            await host.values(file, OBJECT)


async def test_cancelled_it_leaves_handlers_little_time(tmp_path: Path) -> None:
    """A host that is cancelled, as at the loss of the leadership, ends though a handler doesn't."""
    sink = RecordingSink()
    host, file = host_of(tmp_path, PUBLISHES + BLOCKS, sink=sink)
    module = sys.modules[f"handlers.{file.stem}"]
    task = asyncio.create_task(host.run())
    await eventually(module.entered.is_set)
    await ended(task)
    assert "Python handlers didn't end in time; they end with the process" in sink.sentences()
    module.door.set()


async def test_a_run_does_not_wait_for_handlers_that_are_stopped(tmp_path: Path) -> None:
    """While the host is stopped there will be no values; the run fails at once."""
    host, file = host_of(tmp_path, PUBLISHES, settings=HandlersSettings(patience=1000.0))
    asked = asyncio.create_task(host.values(file, OBJECT))
    host.stop()
    with pytest.raises(ExecutionError, match="whose handlers are being stopped"):
        await asked
