"""What shells do to the environment of the program that they start, found by asking them once.

Cold, a module's environment went through two shells, `/bin/sh -c "/bin/sh -c '<command> && sleep 0'"`, and each shell
has its own way: which variables it sets (PWD, SHLVL, _), which names it drops, in which order the rest comes out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_SET_BY_SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")
_PRINTS = "/bin/cat"
_LIMIT = 10.0
"""Seconds; a shell that takes longer is not asked again."""
_STAND_IN = "v"
"""The value of every variable that a shell only passes on: values may be secret, and shells don't look at them."""


class _From(Enum):
    ENVIRONMENT = 1
    FOLDER = 2
    PROGRAM = 3


@dataclass(frozen=True, kw_only=True)
class Shells:
    """The two shells that a command goes through."""

    outer: str
    """Ansible's setting `executable`."""
    inner: str
    """The play's."""

    def command(self, command: str) -> list[str]:
        """Return the argument list that Ansible's local connection starts for *command*."""
        return [self.outer, "-c", f"{self.inner} -c {shlex.quote(f'{command} && sleep 0')}"]


_Recipe = tuple[tuple[str, "_From | str"], ...]


class ShellEnvironments:
    """Environments behind shells; asks for each set of names once."""

    def __init__(self) -> None:
        self._recipes: dict[tuple[object, ...], _Recipe | None] = {}

    def behind(self, shells: Shells, environ: Mapping[str, str], *, cwd: str, program: str) -> dict[str, str] | None:
        """Return what *program*, started by *shells* with *environ* in *cwd*, finds; None where that can't be known."""
        kept = _names_folder(environ.get("PWD", ""), cwd)
        key = (shells, tuple(environ), tuple(environ.get(name) for name in _SET_BY_SHELLS[1:]), kept)
        if key not in self._recipes:
            self._recipes[key] = _recipe(shells, environ, cwd=cwd)
        recipe = self._recipes[key]
        if recipe is None:
            return None
        found: dict[str, str] = {}
        for name, source in recipe:
            match source:
                case _From.ENVIRONMENT:
                    found[name] = environ[name]
                case _From.FOLDER:
                    found[name] = os.path.realpath(cwd)
                case _From.PROGRAM:
                    found[name] = program
                case str():
                    found[name] = source
        return found


def _recipe(shells: Shells, environ: Mapping[str, str], *, cwd: str) -> _Recipe | None:
    asked = {name: environ[name] if name in {*_SET_BY_SHELLS, "PATH"} else _STAND_IN for name in environ}
    try:
        answer = subprocess.run(
            shells.command(f"{_PRINTS} /proc/self/environ"),
            env=asked,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    pairs = [os.fsdecode(pair).partition("=") for pair in answer.split(b"\0") if pair]
    recipe = [(name, _source(name, value, asked=asked, cwd=cwd)) for name, _, value in pairs]
    return tuple(recipe) or None


def _source(name: str, value: str, *, asked: Mapping[str, str], cwd: str) -> _From | str:
    if name == "_" and value == _PRINTS:
        return _From.PROGRAM
    if asked.get(name) == value:
        return _From.ENVIRONMENT
    return _From.FOLDER if name == "PWD" and value == os.path.realpath(cwd) else value


def _names_folder(path: str, folder: str) -> bool:
    try:
        return path.startswith("/") and Path(path).samefile(folder)
    except OSError:
        return False
