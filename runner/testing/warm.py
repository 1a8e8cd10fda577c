"""One fork server for many tests: a warm launcher in a thread of its own, as each test has an event loop of its own.

A test hands it to its `PlayExecutor`s. Starting a server takes seconds, a run on it a fraction of one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.execution.chosen import WarmContent
from runner.execution.launcher import PlayCommand, RunningPlay
from runner.execution.warm.launcher import WarmLauncher
from runner.execution.warm.server import ServerPlan
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings, environment

_T = TypeVar("_T")
_RETRY = 0.2
_WITHIN = ("Runs are started cold", "Playbooks are started cold", "Modules are started cold")
"""What the log tells, once per reason, of what a fork server starts anew instead of forking it."""


def environ_of_tests(*without: str) -> dict[str, str]:
    """Return the environment that runs of tests have: that of the tests, but for names that begin as in *without*.

    pytest tells each test's name in a variable. Where `PYTEST_` isn't left out of the runs' environment and of their
    fork server's, each run is started cold within the server.
    """
    left_out = ("ANSIBLE_", "VIRTUAL_", *without)
    return {name: value for name, value in environment().items() if not name.startswith(left_out)}


class SharedWarm:
    """A `Launcher` for tests in any event loop; a run that would go cold is refused, as it would prove nothing."""

    def __init__(
        self, *, settings: ExecutionSettings, content: WarmContent | None = None, strict: bool = False
    ) -> None:
        """Serve runs under *settings*; libraries and utilities for *content* are loaded before.

        *strict*: where anything of a run was started cold within the server, that run fails, and all that follow.
        """
        self.sink = RecordingSink()
        self._strict = strict
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="warm launcher", daemon=True)
        self._launcher = WarmLauncher(
            ServerPlan(settings=settings, content=content or WarmContent()),
            fallback=_NeverCold(),
            clock=SystemClock(),
            delay=lambda _failures: _RETRY,
            logger=Logger(sink=self.sink, level="debug"),
        )

    def start(self) -> None:
        """Start the server, and return when it is ready."""
        self._thread.start()
        self._wait(self._launcher.start())
        self._wait(self._launcher.settled())

    def stop(self) -> None:
        """End everything.

        Raises:
            ExecutionError: it is strict, and something was started cold.
        """
        self._wait(self._launcher.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._be_strict()

    async def ready(self) -> str | None:
        """Return why no run could start; see `Launcher.ready`."""
        return await self._there(self._launcher.ready())

    async def launch(self, command: PlayCommand) -> RunningPlay:
        """Start *command* warm; see `Launcher.launch`."""
        return _Play(await self._there(self._launcher.launch(command)), shared=self)

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _there(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def wait_for(self, play: RunningPlay) -> int:
        """Return the exit code of *play*."""
        code = await self._there(_code(play))
        self._be_strict()
        return code

    def told_cold(self) -> str:
        """Return what was first started cold within the server, and why; empty: nothing was."""
        cold = [record for record in self.sink.records if record["msg"] in _WITHIN]
        return f"{cold[0]['msg']}: {cold[0].get('reason')}" if cold else ""

    def _be_strict(self) -> None:
        if self._strict and (told := self.told_cold()):
            raise ExecutionError(f"this was to be warm: {told}")

    def kill(self, play: RunningPlay) -> None:
        """Kill *play*."""
        self._loop.call_soon_threadsafe(play.kill)


async def _code(play: RunningPlay) -> int:
    return await play.wait()


class _Play:
    """A run on the other loop."""

    warm = True

    def __init__(self, play: RunningPlay, *, shared: SharedWarm) -> None:
        self._play = play
        self._shared = shared

    async def wait(self) -> int:
        return await self._shared.wait_for(self._play)

    def kill(self) -> None:
        self._shared.kill(self._play)


class _NeverCold:
    """The fallback: a test that is to show a warm run must not pass with a cold one."""

    async def launch(self, command: PlayCommand) -> RunningPlay:
        raise ExecutionError(f"the run {command.request.ident} was to be warm, and there is no fork server for it")

    async def ready(self) -> str | None:
        return "there is no fork server"
