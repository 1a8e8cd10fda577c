"""The shell commands around a module, done without a shell, leave the same behind and say the same."""

from __future__ import annotations

import getpass
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.execution.warm.far.local_commands import understand
from runner.execution.warm.far.shell import Shells

SHELLS = Shells(outer="/bin/sh", inner="/bin/sh")
NAME = "ansible-tmp-1.5-2-3"


def commands(base: Path) -> list[str]:
    """Return what Ansible has done for a module below *base*, in its order; the module itself left out."""
    path = base / "deep" / NAME
    folder = f'mkdir -p "` echo {path.parent} `"&& mkdir "` echo {path} `" && echo {NAME}="` echo {path} `"'
    chmod = f"chmod u+rwx {path}/ {path}/file"
    return [f"echo ~{getpass.getuser()}", f"( umask 77 && {folder} )", chmod, f"rm -f -r {path}/ > /dev/null 2>&1"]


def found_below(base: Path) -> list[tuple[str, str]]:
    """Return each path below *base* with its rights."""
    return [(str(path.relative_to(base)), stat.filemode(path.stat().st_mode)) for path in sorted(base.rglob("*"))]


def test_each_command_has_the_effects_and_the_answer_of_a_shell(tmp_path: Path) -> None:
    """Folders, rights and output are the same, step by step."""
    quick, slow = tmp_path / "a", tmp_path / "b"
    quick.mkdir()
    slow.mkdir()
    before = os.umask(0o022)
    os.umask(before)
    for ours, theirs in zip(commands(quick), commands(slow), strict=True):
        for base in (quick, slow):
            if (base / "deep" / NAME).exists() and "chmod" in ours:
                (base / "deep" / NAME / "file").write_text("x")
        known = understand(f"/bin/sh -c '{ours} && sleep 0'", shells=SHELLS, in_data=None)
        assert known is not None, ours
        shell = subprocess.run(SHELLS.command(theirs), capture_output=True, check=False)
        expected = (shell.returncode, shell.stdout.replace(str(slow).encode(), str(quick).encode()), shell.stderr)
        assert known(str(tmp_path)) == expected
        assert found_below(quick) == found_below(slow)
    assert os.umask(before) == before


@pytest.mark.parametrize(
    "command",
    [
        "/bin/sh -c 'echo ~$USER && sleep 0'",
        "/bin/sh -c 'echo ~root; id && sleep 0'",
        "/bin/bash -c 'echo ~root && sleep 0'",
        "/bin/sh -c 'rm -f -r /home/user/ > /dev/null 2>&1 && sleep 0'",
        "/bin/sh -c 'chmod u+rwx relative && sleep 0'",
        "/bin/sh -c 'chmod u+rwx /a b && sleep 0'",
        "/bin/sh -c 'FOO=1 /usr/bin/python /tmp/ansible-tmp-1/AnsiballZ_x.py && sleep 0'",
        "/bin/sh -c '/other/python /tmp/ansible-tmp-1/AnsiballZ_x.py && sleep 0'",
        "/bin/sh -c 'echo ~root && sleep 0'\n",
        "id",
    ],
)
def test_anything_else_is_left_to_a_shell(command: str) -> None:
    """A command that differs by a character is not understood."""
    assert understand(command, shells=SHELLS, in_data=None) is None


@pytest.mark.parametrize("step", [1, 2, 3])
def test_what_goes_wrong_is_left_to_a_shell(tmp_path: Path, step: int) -> None:
    """A command that fails raises, so that a shell says what is wrong."""
    (tmp_path / "deep").touch()
    known: Any = understand(f"/bin/sh -c '{commands(tmp_path)[step]} && sleep 0'", shells=SHELLS, in_data=None)
    with pytest.raises(OSError, match=r"\S"):
        known(str(tmp_path))
