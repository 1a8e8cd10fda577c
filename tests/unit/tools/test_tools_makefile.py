"""The Makefile and `.ci/run`: what people and machines call."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run make in *folder*, without what an outer make hands down."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_make_alone_lists_every_target_with_a_line_about_it() -> None:
    """Whoever types `make` sees what there is, and nothing is started."""
    targets = re.search(r"^\.PHONY: (help .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    listed = re.findall(r"^  ([a-z-]+) +\S", make().stdout, re.MULTILINE)
    assert sorted(listed) == sorted(targets.group(1).split())


def test_no_python_that_is_new_enough_is_said_before_anything_runs() -> None:
    """The first thing that a bare machine lacks is named with the remedy."""
    done = make("setup", "PYTHON=")
    assert done.returncode != 0
    assert "no Python 3.11 or newer" in done.stderr


@pytest.mark.parametrize(("tool", "failing"), [("check", "ruff"), ("test", "python")])
def test_ci_fails_where_a_check_or_a_test_fails_from_any_directory(tmp_path: Path, tool: str, failing: str) -> None:
    """`.ci/run` runs check, then test, in its own tree, and hands the failure on."""
    tree = tmp_path / "tree"
    (tree / ".ci").mkdir(parents=True)
    script = tree / ".ci" / "run"
    script.write_text((ROOT / ".ci" / "run").read_text())
    script.chmod(0o755)
    (tree / "Makefile").write_text(
        "check:\n\t@echo checked\n\ntest:\n\t@echo tested\n".replace(f"@echo {tool}ed", f"@echo {failing} >&2; exit 1")
    )
    done = subprocess.run([script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert failing in done.stderr
    assert ("checked" in done.stdout) == (tool == "test")


@pytest.mark.parametrize(
    ("variables", "flags"),
    [([], ""), (["KEEP=1"], "--keep"), (["KEEP=0", "USE_CLUSTER=yes"], "--use-cluster")],
)
def test_demo_turns_its_variables_into_flags(tmp_path: Path, variables: list[str], flags: str) -> None:
    """`make demo KEEP=1 USE_CLUSTER=1` reaches the command; 0 is no."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    command = tmp_path / "ansible-operator"
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    done = make("demo", "PYTHON=true", "BIN=.", *variables, folder=tmp_path)
    assert done.stdout.split() == ["demo", *flags.split()]
