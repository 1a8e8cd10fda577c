"""Whether a cold run could start, as the readiness probe asks."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from runner.execution.readiness import missing_for_plays
from runner.settings import ExecutionSettings

ENVIRON = {"PATH": os.defpath}


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


async def test_an_interpreter_with_ansible_is_ready() -> None:
    """The tests' own environment has ansible-core and ansible-runner: nothing is missing."""
    settings = ExecutionSettings(ansible_python=sys.executable, environ=ENVIRON)
    assert await missing_for_plays(settings) is None


async def test_an_interpreter_without_ansible_is_named_with_the_remedy(bare_python: Path) -> None:
    """The sentence names the interpreter, the packages and the flag."""
    settings = ExecutionSettings(ansible_python=str(bare_python), environ=ENVIRON)
    missing = await missing_for_plays(settings)
    assert missing is not None
    assert missing.startswith(f"{bare_python} has no ansible-core and no ansible-runner; ")
    assert "--ansible-python" in missing


async def test_no_interpreter_is_told() -> None:
    """A program that is not there is no error of the probe."""
    missing = await missing_for_plays(ExecutionSettings(ansible_python="/nowhere/python", environ=ENVIRON))
    assert missing is not None
    assert missing.startswith("there is no Python interpreter /nowhere/python; ")
