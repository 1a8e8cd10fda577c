"""`molecule test` of the bundled operator: converge, idempotence, verify and destroy, without a container engine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from runner.settings import environment
from runner.testing.processes import processes_with
from tests.content.ec2_instance.role_harness import ROOT


@pytest.mark.timeout(1800)
async def test_the_default_scenario_passes_and_leaves_nothing(tmp_path: Path) -> None:
    """`molecule test` starts a plane and an operator of its own, passes every step, and stops what it started."""
    inherited = {key: value for key, value in environment().items() if not key.startswith(("AWS_", "KUBECONFIG"))}
    programs = Path(sys.executable).parent
    process = await asyncio.create_subprocess_exec(
        str(programs / "molecule"),
        "test",
        cwd=ROOT,
        env={
            **inherited,
            "PATH": f"{programs}:{inherited.get('PATH', '')}",
            "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path / "molecule"),
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    raw, _ = await process.communicate()
    output = raw.decode(errors="replace")
    assert process.returncode == 0, output[-6000:]
    for step in ("converge", "idempotence", "verify", "destroy"):
        assert step in output
    assert not processes_with(str(tmp_path))
