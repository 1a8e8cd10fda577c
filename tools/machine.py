"""What every measurement needs: a control plane for a while, and the line that says where and when it was done."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from runner.localdev.plane import ControlPlane, PlaneOptions

_PACKAGES = ("aiohttp", "kubernetes", "ansible-core")


@contextlib.contextmanager
def control_plane(folder: Path | None, *, options: PlaneOptions | None = None) -> Iterator[ControlPlane]:
    """Give the control plane that runs in *folder*; without one, start one with *options* for the block."""
    if folder is not None:
        yield ControlPlane.load(folder)
        return
    plane = ControlPlane.start(options=options)
    try:
        yield plane
    finally:
        plane.stop()


def head(kubernetes: str) -> str:
    """Return one line with date, versions and how busy the machine is."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    python = platform.python_version()
    return f"{moment()}; Kubernetes {kubernetes}; Python {python}; {packages}; {os.cpu_count()} CPUs, load {load()}"


def moment() -> str:
    """Return date and time of day."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def load() -> str:
    """Return the load averages of 1, 5 and 15 minutes."""
    return " ".join(f"{one:.2f}" for one in os.getloadavg())


def commit() -> str:
    """Return the commit of this working tree, with a mark where files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=, changed"]
    answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"
