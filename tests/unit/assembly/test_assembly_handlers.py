"""Python handlers put together: what runs get, and what an operator without handlers is spared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.assembly.handlers import InformedExecutor, build_handlers
from runner.assembly.parts import Shared
from runner.clock import SystemClock
from runner.errors import ConfigError, ExecutionError
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.objects import GVK, Object
from runner.logs import Logger, RecordingSink
from runner.observe.health import Finding
from runner.settings import HandlersSettings, KubeSettings, Settings
from runner.testing.executor import ScriptedExecutor, run_request
from runner.watches.model import Content, Watch

FILE = Path("/handlers/thing.py")
WATCH = Watch(gvk=GVK("x.io", "v1", "Thing"), content=Content(role=Path("/r")), handlers=FILE)


class Knowing:
    """A host of handlers that has answers."""

    def __init__(self, answer: Mapping[str, Any] | Exception) -> None:
        """Give *answer*."""
        self._answer = answer
        self.asked: list[tuple[Path, Object]] = []

    async def run(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def readiness(self) -> Finding | None:
        """Find nothing."""

    def liveness(self) -> Finding | None:
        """Find nothing."""

    async def values(self, file: Path, obj: Object) -> Mapping[str, Any]:
        """Give the answer."""
        self.asked.append((file, obj))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def shared_with(settings: Settings) -> Shared:
    """Return what controllers share."""
    client = KubeClient(settings=KubeSettings())
    return Shared(
        settings=settings,
        client=client,
        discovery=Discovery(client=client),
        executor=ScriptedExecutor(),
        clock=SystemClock(),
        logger=Logger(sink=RecordingSink()),
    )


async def test_a_run_is_told_what_its_handlers_publish() -> None:
    """The request has the values that were made for its object."""
    inner, host = ScriptedExecutor(), Knowing({"a": 1})
    request = run_request(watch=WATCH)
    await InformedExecutor(inner, handlers=host).run(request)
    assert inner.requests == [replace(request, handlers={"a": 1})]
    assert host.asked == [(FILE, request.obj)]


async def test_a_run_of_a_watch_without_handlers_asks_nobody() -> None:
    """What other watches' handlers publish is not for it."""
    inner, host = ScriptedExecutor(), Knowing({"a": 1})
    request = run_request(watch=replace(WATCH, handlers=None))
    await InformedExecutor(inner, handlers=host).run(request)
    assert (inner.requests, host.asked) == ([request], [])


async def test_without_its_values_a_run_does_not_start() -> None:
    """The reason is the run's error, and it counts as a failed one."""
    inner, refused = ScriptedExecutor(), list[int]()
    handlers = Knowing(ExecutionError("not complete"))
    executor = InformedExecutor(inner, handlers=handlers, refused=lambda: refused.append(1))
    with pytest.raises(ExecutionError, match="not complete"):
        await executor.run(run_request(watch=WATCH))
    assert not inner.requests
    assert refused == [1]


def test_an_operator_without_handlers_has_no_kopf() -> None:
    """It costs half a second and some memory, and is imported where a watch names handlers only."""
    code = (
        "import sys, runner.cli.main, runner.assembly; "
        "raise SystemExit(any(n.split('.')[0] == 'kopf' for n in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=Path(__file__).parents[3])
    assert build_handlers([replace(WATCH, handlers=None)], shared=shared_with(Settings()), fenced=lambda: False) is None


def test_admission_handlers_need_an_address(tmp_path: Path) -> None:
    """A server that is switched off and handlers for it are a mistake of the start."""
    file = tmp_path / "admission_without_server.py"
    file.write_text("import kopf\n@kopf.on.validate('pods')\ndef check(**_): ...\n")
    settings = Settings(handlers=HandlersSettings(webhook_bind_address="0"))
    with pytest.raises(ConfigError, match=r"--webhook-bind-address=0, but there are admission handlers \(check\)"):
        build_handlers([replace(WATCH, handlers=file)], shared=shared_with(settings), fenced=lambda: False)
