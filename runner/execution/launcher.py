"""The seam between a run and the process that plays it: `Launcher.launch(PlayCommand) -> RunningPlay`.

`play` does everything around it and is the same for both ways: `cold` starts ansible-runner as a new process, `warm`
has it forked from a process that has Ansible loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runner.execution.executor import RunRequest


@dataclass(frozen=True, kw_only=True)
class PlayCommand:
    """One ansible-runner command line, and what it finds around itself. Standard input and output are /dev/null."""

    request: RunRequest
    """What is run; its `ident` is the mark of every process of the run (`processes.MARK`)."""
    argv: Sequence[str]
    """The interpreter, then `-P -m ansible_runner run ...`."""
    environ: Mapping[str, str] = field(repr=False)
    """The whole environment, the run's mark included. It holds credentials."""
    complaints: Path
    """A file that exists: standard error goes there."""


class RunningPlay(Protocol):
    """One started ansible-runner."""

    @property
    def warm(self) -> bool:
        """Tell whether it was forked from a process that has Ansible loaded."""
        ...

    async def wait(self) -> int:
        """Wait for its end, any number of times; return its exit code, negative for a signal (-9).

        Raises:
            ExecutionError: nobody will ever tell, as what ran it is gone; the message says so and what happens next.
        """
        ...

    def kill(self) -> None:
        """Kill it, where it still runs: only itself, for a system where a run's processes can't be found."""
        ...


class Launcher(Protocol):
    """Starts runs."""

    async def launch(self, command: PlayCommand) -> RunningPlay:
        """Start *command* in a session of its own.

        Raises:
            ExecutionError: it cannot be started; the message names the remedy.
        """
        ...

    async def ready(self) -> str | None:
        """Return None where a run could start, else a sentence that says what is missing."""
        ...
