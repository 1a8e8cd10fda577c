"""The start-up check of both environments: the operator's own, and the one that runs plays (`--ansible-python`).

They may be one. A run would find out too what is missing, but only when an object comes, and in every object's status.
Refused is only what can't work: no such interpreter, no ansible-core, no ansible-runner there. All else is a note in
the log, as operators pin versions of their own.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.errors import ConfigError, ExecutionError
from runner.execution.command import ansible_python
from runner.logs import Logger
from runner.settings import ExecutionSettings

TESTED_CORES = ("2.18", "2.19")
_SCRIPT = Path(__file__).with_name("package_facts.py")
_OWN = "ansible-operator-runner"
_PLAYS = ("ansible-core", "ansible-runner")
_REMEDY = "set --ansible-python to an interpreter that has ansible-core and ansible-runner"
_OLDEST_PYTHON = (3, 11)
_OLDEST_RUNNER = (2, 4, 1)
_OLDEST_CLIENT = (12,)
_PATIENCE = 30.0
"""Seconds; only a disk that hangs takes so long."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one interpreter has."""

    interpreter: str
    python: str
    packages: dict[str, str] = field(default_factory=dict)
    """Version by name; empty where a package is there without one, no entry where it is missing."""
    conflicts: tuple[str, ...] = ()
    """Sentences: who needs what and doesn't get it."""


async def check_environments(settings: ExecutionSettings, *, logger: Logger) -> bool:
    """Look at both environments and log what they are and what may go wrong there.

    Returns:
        whether it is known that plays can run; nobody knows where the look took too long.

    Raises:
        ConfigError: no play can run; the message names the interpreter and the flag.
    """
    try:
        interpreter = ansible_python(settings)
    except ExecutionError as error:
        raise ConfigError(str(error)) from error
    log = logger.named("cmd")
    try:
        plays, own = await _both(interpreter, settings=settings)
    except TimeoutError:
        log.warning("The environments could not be looked at in time", seconds=_PATIENCE, ansiblePython=interpreter)
        return False
    log.info(
        "Versions",
        **{"ansible-core": plays.packages.get("ansible-core"), "ansible-runner": plays.packages.get("ansible-runner")},
        kubernetes=plays.packages.get("kubernetes"),
        python=plays.python,
        ansiblePython=interpreter,
        ownKubernetes=own.packages.get("kubernetes"),
    )
    refuse(plays)
    for note in notes_on(plays, own=own):
        log.warning("A note on the environments", note=note)
    return True


async def _both(interpreter: str, *, settings: ExecutionSettings) -> tuple[Facts, Facts]:
    """Return the facts of plays, and our own; both are looked at together, so that the start takes no longer."""
    async with asyncio.timeout(_PATIENCE):
        found = await asyncio.gather(
            read_facts(interpreter, settings=settings, roots=[*_PLAYS, "kubernetes"]),
            read_facts(sys.executable, settings=settings, roots=[_OWN], leave_out=_PLAYS),
            return_exceptions=True,
        )
    plays, own = found
    if isinstance(plays, BaseException):
        raise plays
    if isinstance(own, BaseException):
        raise own
    return plays, own


async def read_facts(
    interpreter: str, *, settings: ExecutionSettings, roots: Sequence[str], leave_out: Sequence[str] = ()
) -> Facts:
    """Ask *interpreter* for what it has, and for conflicts in what *roots* need.

    Raises:
        ConfigError: it does not run.
    """
    arguments = (str(_SCRIPT), ",".join(roots), ",".join(leave_out))
    try:
        process = await asyncio.create_subprocess_exec(
            interpreter,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**settings.environ, "PYTHONSAFEPATH": "1"},
        )
    except OSError as error:
        raise ConfigError(f"cannot start the Python interpreter {interpreter}: {error}; {_REMEDY}") from error
    try:
        said, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found = json.loads(said)
    except ValueError as error:
        why = complaint.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {process.returncode}"
        raise ConfigError(f"{interpreter} is no Python interpreter that plays can run on ({why}); {_REMEDY}") from error
    return Facts(
        interpreter=interpreter,
        python=found["python"],
        packages=found["packages"],
        conflicts=tuple(found["conflicts"]),
    )


def refuse(plays: Facts) -> None:
    """Raise `ConfigError` where no play can run on *plays*."""
    missing = [name for name in _PLAYS if name not in plays.packages]
    if missing:
        raise ConfigError(f"{plays.interpreter} has no {' and no '.join(missing)}; install it there, or {_REMEDY}")
    if _numbers(plays.python) < _OLDEST_PYTHON:
        raise ConfigError(f"{plays.interpreter} is Python {plays.python}, and 3.11 is needed; {_REMEDY}")


def notes_on(plays: Facts, *, own: Facts) -> list[str]:
    """Return what a person should know before the first run."""
    notes = [*_core_notes(plays), *_client_notes(plays)]
    runner = plays.packages.get("ansible-runner", "")
    if runner and _numbers(runner) < _OLDEST_RUNNER:
        notes.append(f"ansible-runner {runner} is older than 2.4.1, the oldest that is tested; update it")
    for facts in (plays, own):
        notes += [f"{conflict}; mend it with {facts.interpreter} -m pip install" for conflict in facts.conflicts]
    return list(dict.fromkeys(notes))


def _core_notes(plays: Facts) -> list[str]:
    core = plays.packages.get("ansible-core", "")
    tested = " and ".join(TESTED_CORES)
    if not core:
        return [f"the ansible-core of {plays.interpreter} tells no version; {tested} are tested"]
    if any(_numbers(core)[:2] == _numbers(series) for series in TESTED_CORES):
        return []
    side = "older" if _numbers(core) < _numbers(TESTED_CORES[0]) else "newer"
    return [f"ansible-core {core} is {side} than what is tested ({tested}); roles may behave differently"]


def _client_notes(plays: Facts) -> list[str]:
    version = plays.packages.get("kubernetes")
    fails = "the modules of kubernetes.core, and k8s_status and k8s_event of operator_sdk.util, will fail"
    if version is None:
        return [f"{plays.interpreter} has no kubernetes client: {fails}; install kubernetes there"]
    if version and _numbers(version) < _OLDEST_CLIENT:
        return [f"the kubernetes client {version} of {plays.interpreter} is too old: {fails}; update it to 12 or newer"]
    return []


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release of *version* as numbers: (2, 19, 14)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found.group().split(".")) if found else ()
