"""The environments that plays are tested on: the operator's own, and the one that `make test-full` makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.settings import environment

ROOT = Path(__file__).resolve().parents[3]
CORES = ("2.19", pytest.param("2.18", marks=pytest.mark.full))
"""The series of ansible-core; what a fixture is parametrised with."""


def interpreter_of(core: str) -> str:
    """Return the Python that has *core*; skip the test where there is none on this machine."""
    if core == "2.19":
        return sys.executable
    named = environment().get("TEST_ANSIBLE_2_18_PYTHON", "")
    python = Path(named) if named else ROOT / ".venv-2.18" / "bin" / "python"
    if not python.exists():
        if named:
            pytest.fail(f"TEST_ANSIBLE_2_18_PYTHON names {named}, which does not exist: unset it or correct it")
        pytest.skip("no environment with ansible-core 2.18: python -m tools.setup --ansible-2.18")
    return str(python)
