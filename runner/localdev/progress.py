"""Long commands with a pulse: what runs, how long it took last time, how long it has been running.

`build` and `toolchain` run pip and the Go compiler through `Task.run`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev.cache import Cache, Report

TAIL_LINES = 15


def tail(path: Path, *, lines: int = TAIL_LINES) -> str:
    """Return the last *lines* of a log, indented; a sentence where there is none."""
    try:
        text = path.read_text(errors="replace").strip()
    except OSError as error:
        return f"    (no log: {error.strerror})"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (the log is empty)"


@dataclass(frozen=True, kw_only=True)
class Task:
    """One long command."""

    name: str
    """Key of its remembered duration."""
    title: str
    """What a person reads, such as `building the control plane`."""
    argv: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    """The working directory."""
    log: Path
    """Its output, kept."""
    remedy: str
    """What to do when it fails."""

    def run(self, *, cache: Cache, report: Report, pulse: float = 20.0) -> None:
        """Run to the end, with one line of progress each *pulse* seconds.

        Raises:
            LocalPlaneError: it failed; the message has the end of its log.
        """
        before = cache.last_duration(self.name)
        report(f"{self.title} ({'first time here' if before is None else f'took {spoken(before)} last time'})")
        began = time.monotonic()
        code = self._wait(began, pulse=pulse, report=report)
        seconds = time.monotonic() - began
        if code != 0:
            raise LocalPlaneError(
                f"{self.title} failed after {spoken(seconds)} (exit code {code}). {self.remedy}\n"
                f"The log is {self.log}; it ends with:\n{tail(self.log)}"
            )
        cache.remember_duration(self.name, seconds=seconds)
        report(f"{self.title}: done in {spoken(seconds)}")

    def _wait(self, began: float, *, pulse: float, report: Report) -> int:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                self.argv,
                cwd=self.folder,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            while True:
                try:
                    return process.wait(pulse)
                except subprocess.TimeoutExpired:
                    report(f"{self.title}: {spoken(time.monotonic() - began)} so far")
        finally:
            if process.poll() is None:  # interrupted: the compiler's children end with it
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def spoken(seconds: float) -> str:
    """Return a duration as people say it: `9 s`, `10 min 6 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
