"""The cold launcher: one ansible-runner process per run, as the peer starts it. The reference for any faster one."""

from __future__ import annotations

import asyncio
import contextlib

from runner.errors import ExecutionError
from runner.execution.launcher import PlayCommand, RunningPlay
from runner.execution.readiness import missing_for_plays
from runner.settings import ExecutionSettings


class ColdLauncher:
    """Starts each run as a new process."""

    def __init__(self, *, settings: ExecutionSettings, plays_found: bool = False) -> None:
        """With *plays_found* somebody has seen that plays can run under *settings*: `ready` need not look again."""
        self._settings = settings
        self._found = plays_found

    async def ready(self) -> str | None:
        """Tell what keeps runs from starting, if anything. Once it was found it is not sought."""
        missing = None if self._found else await missing_for_plays(self._settings)
        self._found = missing is None
        return missing

    async def launch(self, command: PlayCommand) -> RunningPlay:
        """Start *command*; see `Launcher.launch`."""
        try:
            with command.complaints.open("ab") as complaints:
                process = await asyncio.create_subprocess_exec(
                    *command.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,  # the artifacts hold it
                    stderr=complaints,
                    env=command.environ,
                    start_new_session=True,
                )
        except OSError as error:
            raise ExecutionError(
                f"cannot start {command.argv[0]}: {error}; set --ansible-python to an interpreter that has "
                "ansible-core and ansible-runner"
            ) from error
        return _Process(process)


class _Process:
    """A `RunningPlay` that is a child of this process."""

    warm = False

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def wait(self) -> int:
        return await self._process.wait()

    def kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
