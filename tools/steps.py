"""Long steps with something to look at: what runs, since when, how long it took last time.

Durations are kept in the per-user cache, `ansible-operator-runner/durations.json`: a JSON object of step name to
seconds. Used by `tools/setup.py`; standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

HEARTBEAT = 15.0
"""Seconds between two lines of a step that runs where nobody can redraw a line (CI)."""


class StepError(Exception):
    """A step failed; the message has the tail of its log, the log's path and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of a set-up."""

    name: str
    """The key of its duration: `setup: packages`."""
    doing: str
    """A phrase for a person: `install the packages of requirements/dev.txt`."""
    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Runs steps, one after the other, and tells about them on *out*."""

    cache: Path
    out: TextIO
    heartbeat: float = HEARTBEAT

    def run(self, step: Step) -> None:
        """Run *step* to its end; raise `StepError` where it fails."""
        log = self.cache / "logs" / f"{step.name.replace(': ', '-').replace(' ', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        before = self.durations().get(step.name)
        self._say(f"{step.doing}" + (f" (last time {_readable(before)})" if before else ""))
        started = time.monotonic()
        with log.open("wb") as sink:
            child = subprocess.Popen(
                step.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **step.environ},
            )
            try:
                code = self._wait(child, step=step, log=log)
            except BaseException:
                child.terminate()
                child.wait()
                raise
        if code != 0:
            raise StepError(failure(step, code=code, log=log))
        seconds = time.monotonic() - started
        self._remember(step.name, seconds=seconds)
        self._say(f"{step.doing}: done in {_readable(seconds)}")

    def durations(self) -> dict[str, float]:
        """Return the remembered seconds by step name; empty where the file is missing or broken."""
        try:
            content = json.loads((self.cache / "durations.json").read_text())
        except (OSError, ValueError):
            return {}
        items = content.items() if isinstance(content, dict) else ()
        return {str(name): float(value) for name, value in items if isinstance(value, int | float)}

    def _wait(self, child: subprocess.Popen[bytes], *, step: Step, log: Path) -> int:
        started = time.monotonic()
        redraw = self.out.isatty()
        while True:
            try:
                code = child.wait(1.0 if redraw else self.heartbeat)
            except subprocess.TimeoutExpired:
                line = f"{step.doing}: {_readable(time.monotonic() - started)} ... {_last_line(log)}"
                self._say(line, redraw=redraw)
                continue
            if redraw:
                self.out.write("\r\x1b[K")
            return code

    def _say(self, line: str, *, redraw: bool = False) -> None:
        self.out.write(f"\r\x1b[K{line[:110]}" if redraw else f"{line}\n")
        self.out.flush()

    def _remember(self, name: str, *, seconds: float) -> None:
        content = self.durations() | {name: round(seconds, 1)}
        spare = self.cache / f".durations.{os.getpid()}"
        with contextlib.suppress(OSError):  # a figure for the next time is no reason to fail this time
            spare.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
            spare.replace(self.cache / "durations.json")


NETWORK_SIGNS = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Failed to establish a new connection",
    "Connection refused",
    "Read timed out",
    "ProxyError",
    "Could not find a version that satisfies",
)


def failure(step: Step, *, code: int, log: Path) -> str:
    """Return what a person needs after *step* failed: the tail, the log's path, and the likely remedy."""
    text = log.read_text(errors="replace")
    tail = "\n".join(f"    {line}" for line in text.splitlines()[-12:])
    lines = [f"could not {step.doing}: exit code {code}", tail, f"  whole log: {log}"]
    if any(sign in text for sign in NETWORK_SIGNS):
        lines.append("  the package index cannot be reached, it seems: check network, proxy and pip's index setting")
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in text:
        lines.append(
            "  a download differs from the lock file, so nothing was installed: try again, then ask the mirror"
        )
    lines.append("  then run `make setup` again: it goes on where it stopped")
    return "\n".join(lines)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1].strip()[:70] if lines else ""


def _readable(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
