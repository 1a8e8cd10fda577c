"""`ansible-operator demo`: the story that the README promises, told to its end."""

from __future__ import annotations

import asyncio
import sys

import pytest

from runner.settings import environment
from runner.testing.processes import processes_with
from tests.content.ec2_instance.role_harness import ROOT


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_the_demo_tells_its_story_and_leaves_nothing() -> None:
    """The demo launches, repairs and terminates, prints where the time went, exits 0 and leaves no process."""
    inherited = {key: value for key, value in environment().items() if not key.startswith(("AWS_", "KUBECONFIG"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "runner",
        "demo",
        cwd=ROOT,
        env=inherited,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    raw, _ = await process.communicate()
    output = raw.decode(errors="replace")
    assert process.returncode == 0, output[-4000:]
    for part in ("is running and Ready", "runs again", "is terminated, and the object is gone", "Where the time went"):
        assert part in output
    assert not processes_with("ansible-operator-demo-")
