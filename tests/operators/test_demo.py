"""`ansible-operator demo`: the stories that the README promises, told to their ends."""

from __future__ import annotations

import asyncio
import os
import re
import sys

import pytest

from runner.settings import environment
from runner.testing.processes import processes_with
from tests.content.ec2_instance.role_harness import ROOT


async def tell(*arguments: str, stdin: int = asyncio.subprocess.DEVNULL) -> str:
    """Run the demo, and return what it printed; it leaves no process."""
    inherited = {key: value for key, value in environment().items() if not key.startswith(("AWS_", "KUBECONFIG"))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runner", "demo", *arguments),
        cwd=ROOT,
        env=inherited,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    raw, _ = await process.communicate()
    output = raw.decode(errors="replace")
    assert process.returncode == 0, output[-4000:]
    assert "Where the time went" in output
    assert not processes_with("ansible-operator-demo-")
    return output


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_the_demo_tells_its_story_and_leaves_nothing() -> None:
    """The demo launches, repairs and terminates, prints where the time went, exits 0 and leaves no process."""
    output = await tell()
    for part in ("is running and Ready", "runs again", "is terminated, and the object is gone"):
        assert part in output


@pytest.mark.timeout(600)
@pytest.mark.parametrize("person", [False, pytest.param(True, marks=pytest.mark.full)])
async def test_a_conflict_costs_what_the_story_says(*, person: bool) -> None:
    """A label repeats ten steps by error and none on conflict, a spec edit is one further run in both; 409 is shown."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, b"\n\n")  # Enter, pressed beforehand
        output = await tell("--scenario=conflict", stdin=theirs if person else asyncio.subprocess.DEVNULL)
    finally:
        os.close(ours)
        os.close(theirs)
    assert ("press Enter" in output) == person
    said = "HTTP 409: Operation cannot be fulfilled on onconflicts.demo.ansible-operator.io"
    assert output.count(said) == 2
    assert "please apply your changes to the latest version and try again" in output
    costs = re.findall(r"^\s*(label|patch)\s+(\d+) steps, [\d.]+ s\s+(\d+) steps,", output, re.MULTILINE)
    assert costs == [("label", "20", "10"), ("patch", "20", "20")]


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_machines_come_and_go_with_the_load() -> None:
    """Two pods of 28 GiB raise a pool of 96 GiB to exactly 1, four to 2, none to 0; three that wait raise nothing."""
    output = await tell("--scenario=autoscale")
    assert re.findall(r"targetNodes is exactly (\d)", output) == ["1", "2", "0"]
    for reason in ("nobody-made-it doesn't exist", "disk=gold", "bound to the node fake-1 already"):
        assert reason in output
    assert re.search(r"NodePool +workers: target 1, current \d, ready \d, active", output)
    gone = [output.index(f"workers-{number}: gone") for number in (2, 1)]
    assert gone == sorted(gone)  # the newest first
