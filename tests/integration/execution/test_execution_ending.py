"""How a run ends before its time: killed, cancelled, or with helpers that want to live on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.execution.processes import processes_of
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually
from tests.integration.execution.bench import Bench, Warm

WAITS = """
- ansible.builtin.shell: |
    trap '' TERM
    touch {{ out }}/started
    while true; do read -t 1 < {{ out }}/pipe; done
  args: {executable: /bin/bash}
"""
LEAVES_A_HELPER = """
- ansible.builtin.shell: "setsid -f sleep 1000"
- ansible.builtin.command: sleep 1001
  async: 1000
  poll: 0
"""


def _waiting(bench: Bench) -> RunRequest:
    os.mkfifo(bench.root / "pipe")
    return bench.request(bench.tasks(WAITS), vars={"out": str(bench.root)})


def _command_lines(pids: set[int]) -> dict[int, str]:
    lines = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return lines


def _lines_with(text: str, request: RunRequest) -> list[str]:
    return [line for line in _command_lines(processes_of(request.ident)).values() if text in line]


async def test_a_killed_playbook_is_a_failure(tmp_path: Path, warm: Warm) -> None:
    """SIGKILL of ansible-playbook in mid-run ends the run at once, with a message that says so (field case R2)."""
    bench = Bench(tmp_path, warm=warm)
    request = _waiting(bench)
    run = asyncio.create_task(bench.run(request))
    await eventually((tmp_path / "started").exists)
    lines = _command_lines(processes_of(request.ident))
    playbooks = [pid for pid, line in lines.items() if "ansible-playbook" in line]
    for pid in playbooks:
        os.kill(pid, signal.SIGKILL)
    outcome = await run
    assert not outcome.success
    assert outcome.stats is None
    assert outcome.rc is None
    assert "killed by a signal" in outcome.failures[0]
    assert processes_of(request.ident) == set()


async def test_cancelling_leaves_nothing_running(tmp_path: Path, warm: Warm) -> None:
    """A cancelled run raises once all its processes are gone, one that ignores SIGTERM too; no file of it stays."""
    bench = Bench(tmp_path, environ={"MY_TOKEN": "canary-of-the-environment"}, warm=warm)
    request = _waiting(bench)
    run = asyncio.create_task(bench.run(request))
    await eventually((tmp_path / "started").exists)
    assert any("shell" in line or "bash" in line for line in _command_lines(processes_of(request.ident)).values())
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert processes_of(request.ident) == set()
    assert list(bench.scratch.iterdir()) == []
    command = next(bench.settings.runner_dir.rglob("artifacts/*/command"))
    assert "canary" not in command.read_text()


async def test_a_run_that_hangs_is_ended_at_its_time_limit(tmp_path: Path, warm: Warm) -> None:
    """At the limit, not before, all processes of the run end, and its failure names limit, task and both remedies."""
    clock = FakeClock()
    bench = Bench(tmp_path, warm=warm, clock=clock)
    request = replace(_waiting(bench), time_limit=timedelta(minutes=15))
    run = asyncio.create_task(bench.run(request))
    await eventually((tmp_path / "started").exists)
    await clock.advance(15 * 60 - 1)
    assert processes_of(request.ident)
    await clock.advance(1)
    outcome = await run
    assert (outcome.success, outcome.timed_out) == (False, True)
    (failure,) = outcome.failures
    assert failure == (
        "The run took longer than its time limit of 15m0s and was ended; the task that began last was "
        '"ansible.builtin.shell". It is tried again; give the task a timeout of its own, or the run more time by '
        "runTimeout in watches.yaml or by the annotation ansible-operator.io/run-timeout"
    )
    assert processes_of(request.ident) == set()
    assert list(bench.scratch.iterdir()) == []


async def test_a_time_limit_that_is_not_reached_changes_nothing(tmp_path: Path, warm: Warm) -> None:
    """A run that ends in time is what it would be without a limit, and the next one's time is its own."""
    clock = FakeClock()
    bench = Bench(tmp_path, warm=warm, clock=clock)
    request = bench.request(bench.tasks("- ansible.builtin.debug: {}"))
    for ident in ("1", "2"):
        outcome = await bench.run(replace(request, ident=ident, time_limit=timedelta(seconds=1)))
        assert (outcome.success, outcome.timed_out) == (True, False)
        assert clock.sleeping == 0
        await clock.advance(10)


async def test_cancelling_before_the_first_task_is_clean_too(tmp_path: Path, warm: Warm) -> None:
    """A run that is cancelled right after its start leaves neither a process nor a pipe."""
    bench = Bench(tmp_path, warm=warm)
    request = bench.request(bench.tasks("- ansible.builtin.debug: {}"))
    run = asyncio.create_task(bench.run(request))
    await eventually(lambda: processes_of(request.ident))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert processes_of(request.ident) == set()
    assert not [path for path in bench.settings.runner_dir.rglob("*") if path.is_fifo()]


async def test_helpers_do_not_outlive_a_run_but_detached_tasks_do(tmp_path: Path, warm: Warm) -> None:
    """A daemon that a task left behind is ended with the run; an `async` task with `poll: 0` lives on (case CC1)."""
    bench = Bench(tmp_path, warm=warm)
    request = bench.request(bench.tasks(LEAVES_A_HELPER))
    outcome = await bench.run(request)
    try:
        assert outcome.success
        assert not _lines_with("sleep 1000", request)
        await eventually(lambda: _lines_with("sleep 1001", request))
    finally:
        for pid in processes_of(request.ident):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def test_a_python_without_ansible_is_named_with_the_remedy(tmp_path: Path) -> None:
    """An interpreter that lacks Ansible, or isn't there, gives an error that names it and the flag (case R2)."""
    bench = Bench(tmp_path)
    request = bench.request(bench.tasks("- ansible.builtin.debug: {}"))
    bare = tmp_path / "bare-python"
    bare.write_text('#!/bin/sh\nexec python3 -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ExecutionError, match=r"bare-python has no ansible-runner; .*--ansible-python"):
        await bench.executor(ansible_python=str(bare)).run(request)
    without = tmp_path / "without-ansible-core"
    without.write_text(f'#!/bin/sh\nPATH=/nosuch exec {sys.executable} "$@"\n')
    without.chmod(0o755)
    with pytest.raises(ExecutionError, match=r"ansible-playbook is neither beside .*; install ansible-core there"):
        await bench.executor(ansible_python=str(without)).run(replace(request, ident="another"))
    with pytest.raises(ExecutionError, match=r"no Python interpreter /nosuch/python; .*--ansible-python"):
        await bench.executor(ansible_python="/nosuch/python").run(replace(request, ident="other"))
