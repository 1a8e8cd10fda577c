"""`ansible-operator version`: the peer's line, with Python's version in the place of Go's."""

from __future__ import annotations

import contextlib
import functools
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import click

from runner import __version__
from runner.settings import environment

UNKNOWN = "unknown"
_VARIABLE = "ANSIBLE_OPERATOR_COMMIT"
"""The image's build sets it."""
_DISTRIBUTION = "ansible-operator-runner"
_SOURCE = Path(__file__).resolve().parents[2]
"""Where we are imported from: the folder of a clone, or site-packages."""
_GIT_LIMIT = 5.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "AMD64": "amd64"}


def facts() -> Mapping[str, str]:
    """Return what the version line and the first log record tell, by the names of the line."""
    major = metadata.version("kubernetes").partition(".")[0]  # client 33 is made for Kubernetes 1.33
    machine = platform.machine()
    return {
        "ansible-operator version": __version__,
        "commit": environment().get(_VARIABLE) or installed_commit() or cloned_commit(_SOURCE) or UNKNOWN,
        "kubernetes version": f"v1.{major}",
        "python version": platform.python_version(),
        "GOOS": sys.platform,
        "GOARCH": _ARCHITECTURES.get(machine, machine),
    }


def installed_commit() -> str:
    """Return the commit that pip installed us from, where it did so from a repository; else nothing."""
    try:
        origin = json.loads(metadata.distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}")
        return str(origin["vcs_info"]["commit_id"])
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""


@functools.cache
def cloned_commit(folder: Path) -> str:
    """Return the commit that is checked out in *folder*, where that is a clone and there is a git; else nothing."""
    git = folder / ".git"
    command = ["git", f"--git-dir={git}", "rev-parse", "--verify", "--quiet", "HEAD"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if git.exists():
            answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_LIMIT)
            return answer.stdout.strip()
    return ""


def version_line() -> str:
    """Return the line: names and quoted values."""
    return ", ".join(f"{name}: {json.dumps(value)}" for name, value in facts().items())


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(version_line())
