"""The environment behind shells is found by asking them, and is what a program really finds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runner.execution.warm.far.shell import ShellEnvironments, Shells

SHELLS = [shell for shell in ("/bin/sh", "/bin/bash") if Path(shell).exists()]
ENVIRONMENTS = {
    "plain": {"B": "2", "A": "1 2", "HOME": "/root"},
    "with a folder": {"PWD": "{cwd}", "Z": "", "A": "1"},
    "with a wrong folder": {"PWD": "/nowhere", "OLDPWD": "/usr", "A": "1"},
    "with a level": {"SHLVL": "4", "_": "/usr/bin/x", "A": "1"},
    "with an odd name": {"A-B": "1", "C": "a\nb=c"},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_finds_what_was_told(tmp_path: Path, shell: str, name: str) -> None:
    """Names, values and order are those that a program behind the shells finds, also when the values change later."""
    (tmp_path / "link").symlink_to(tmp_path)
    cwd = str(tmp_path / "link")
    shells, environments = Shells(outer=shell, inner=shell), ShellEnvironments()
    for value in ("first", "second"):
        environ = {key: given.format(cwd=cwd) for key, given in ENVIRONMENTS[name].items()}
        environ = {"PATH": os.defpath, "VALUE": value, **environ}
        told = environments.behind(shells, environ, cwd=cwd, program="/bin/cat")
        command = shells.command("/bin/cat /proc/self/environ")
        really = subprocess.run(command, env=environ, cwd=cwd, capture_output=True, check=True).stdout.decode()
        assert told is not None
        assert [f"{key}={given}" for key, given in told.items()] == really.split("\0")[:-1]


def test_a_shell_that_cannot_be_asked_is_not_guessed(tmp_path: Path) -> None:
    """Nothing is told of a shell that doesn't exist."""
    shells = Shells(outer="/no/shell", inner="/no/shell")
    assert ShellEnvironments().behind(shells, {}, cwd=str(tmp_path), program="/bin/x") is None
