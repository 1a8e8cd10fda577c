"""A process of the play server that stands by for the next run, with real forks (scripts/small_server.py)."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from runner.execution.warm.far.protocol import Drain
from tests.unit.execution.warm.test_warm_server import HUNG, Operator, a_run, gone, serving, told


async def standing_by(operator: Operator) -> int:
    """Wait until a process stands by; return its id."""
    children = Path(f"/proc/{operator.process.pid}/task/{operator.process.pid}/children")
    async with asyncio.timeout(HUNG):
        while not (pids := children.read_text().split()):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)
    return int(pids[0])


async def test_run_is_the_process_that_stood_by(tmp_path: Path) -> None:
    """Where nothing runs a process is forked beforehand, and becomes the next run; then there is another."""
    async with serving("/plain", "standby") as operator:
        for number in (1, 2):
            pid = await standing_by(operator)
            seen = tmp_path / str(number)
            await operator.send(a_run(number, "stood", str(seen)))
            assert await operator.ended(number) == 0
            assert await told(seen) == f"{pid} [{pid}]"


async def test_run_that_nobody_stood_by_for_is_forked(tmp_path: Path) -> None:
    """Runs that come at once need nobody who stands by."""
    async with serving("/plain", "standby") as operator:
        await standing_by(operator)
        await operator.send(a_run(1, "wait", str(tmp_path / "go")), a_run(2, "stood", str(tmp_path / "seen")))
        assert await operator.ended(2) == 0
        assert (await told(tmp_path / "seen")).endswith(" []")
        (tmp_path / "go").touch()
        assert await operator.ended(1) == 0


async def test_run_of_a_process_that_stood_by_is_like_any_other(tmp_path: Path) -> None:
    """It has the environment and working directory of the run, and none of the server's descriptors."""
    async with serving("/plain", "standby") as operator:
        await standing_by(operator)
        await operator.send(a_run(1, "look", str(tmp_path / "seen"), cwd=tmp_path, COLOUR="green"))
        assert await operator.ended(1) == 0
        assert await told(tmp_path / "seen") == f"{tmp_path} green 4"


async def test_death_of_a_process_that_stands_by_costs_no_run(tmp_path: Path) -> None:
    """When somebody ends it, the next run is played all the same."""
    async with serving("/plain", "standby") as operator:
        pid = await standing_by(operator)
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        await operator.send(a_run(1, "exit", "5"))
        assert await operator.ended(1) == 5


async def test_process_that_stands_by_ends_with_the_server() -> None:
    """A server that drains, or is told to end, leaves nobody who stands by."""
    async with serving("/plain", "standby") as operator:
        pid = await standing_by(operator)
        await operator.send(Drain())
        assert await operator.left() == 0
        await gone(pid)
    async with serving("/plain", "standby") as operator:
        pid = await standing_by(operator)
        operator.process.kill()
        await operator.process.wait()
        await gone(pid)
