"""When runs are warm and when cold: fork servers that start, die, are replaced; real processes of a stand-in."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.execution.chosen import WarmContent
from runner.execution.cold import ColdLauncher
from runner.execution.launcher import PlayCommand
from runner.execution.leftovers import SERVER_PREFIX, kill_all_runs
from runner.execution.processes import MARK, OWNER_MARK, SERVER_IDENT, end_processes, marked_with
from runner.execution.warm.launcher import WarmLauncher
from runner.execution.warm.server import ServerPlan
from runner.owner import own_identity
from runner.testing.waiting import eventually
from tests.unit.execution.warm.warm_near_bench import NearBench

IS_READY = "The fork server is ready"
STARTS = "The play starts"


def _launcher(bench: NearBench, plan: ServerPlan, *, pause: float = 0.0) -> WarmLauncher:
    return WarmLauncher(
        plan,
        fallback=ColdLauncher(settings=plan.settings, plays_found=True),
        clock=SystemClock(),
        delay=lambda _: pause,
        logger=bench.logger,
    )


def _own(bench: NearBench) -> set[int]:
    """Return the fork servers of *bench*; the session may have one of its own."""
    ours = {MARK: SERVER_IDENT, OWNER_MARK: own_identity(), "HOME": str(bench.root)}
    return marked_with(ours)


@asynccontextmanager
async def _started(bench: NearBench, mood: str = "", *, plan: ServerPlan | None = None) -> AsyncIterator[WarmLauncher]:
    launcher = _launcher(bench, plan or bench.plan(mood))
    await launcher.start()
    try:
        await asyncio.wait_for(launcher.settled(), 60)
        yield launcher
    finally:
        await launcher.stop()
        assert _own(bench) == set()
        assert list((bench.root / "tmp").glob(f"{SERVER_PREFIX}*")) == []


async def _ran(launcher: WarmLauncher, command: PlayCommand) -> int:
    return await (await launcher.launch(command)).wait()


def _ways(bench: NearBench) -> list[object]:
    return [record["executor"] for record in bench.records(STARTS)]


async def test_runs_are_cold_until_the_first_server_is_ready_and_warm_then(bench: NearBench) -> None:
    """Nobody waits for it, but the operator is not ready before; each run's line says which way it went and why."""
    launcher = _launcher(bench, bench.plan())
    await launcher.start()
    assert await launcher.ready() == "the fork server of warm Ansible is still starting"
    assert await _ran(launcher, bench.command("exit 5")) == 5
    await asyncio.wait_for(launcher.settled(), 60)
    assert await launcher.ready() is None
    assert await _ran(launcher, bench.command("exit 6")) == 6
    await launcher.stop()
    cold, warm = bench.records(STARTS)
    assert (cold["executor"], cold["why"]) == ("cold", "the first fork server is still starting")
    assert (warm["executor"], warm["job"]) == ("warm", "7002")
    (ready,) = bench.records(IS_READY)
    assert (ready["ansibleCore"], ready["preloaded"], ready["reason"]) == ("2.19.0", 1, "the operator starts")
    assert _own(bench) == set()


async def test_a_server_that_dies_is_followed_by_another_one(bench: NearBench) -> None:
    """The run under way fails with a sentence, one line of the log tells of the death, later runs are warm again."""
    async with _started(bench) as launcher:
        command = bench.command("exec sleep 1000")
        play = await launcher.launch(command)
        os.kill(int(str(bench.records(IS_READY)[0]["pid"])), signal.SIGKILL)
        with pytest.raises(ExecutionError, match="SIGKILL"):
            await play.wait()
        await end_processes(command.request.ident, grace=0)
        await eventually(lambda: len(bench.records(IS_READY)) == 2)
        assert await _ran(launcher, bench.command("exit 4")) == 4
    (death,) = bench.records("A fork server died")
    assert death["lostRuns"] == 1
    assert _ways(bench) == ["warm", "warm"]


async def test_runs_are_cold_while_there_is_no_server(bench: NearBench) -> None:
    """A death costs speed only; the reason is in the line of each run."""
    launcher = _launcher(bench, bench.plan(), pause=1000)
    await launcher.start()
    await asyncio.wait_for(launcher.settled(), 60)
    os.kill(int(str(bench.records(IS_READY)[0]["pid"])), signal.SIGTERM)
    await eventually(lambda: bench.records("A fork server died"))
    assert await launcher.ready() is None
    assert await _ran(launcher, bench.command("exit 4")) == 4
    await launcher.stop()
    (record,) = bench.records(STARTS)
    assert (record["executor"], record["why"]) == ("cold", "the fork server died of SIGTERM")


async def test_an_operator_without_a_working_server_becomes_ready_and_runs_cold(bench: NearBench) -> None:
    """After some tries, which the log tells with their reason; it goes on trying."""
    async with _started(bench, "exits") as launcher:
        assert await launcher.ready() is None
        assert await _ran(launcher, bench.command("exit 2")) == 2
        await eventually(lambda: len(bench.records("A fork server could not be started")) > 3)
    assert "no such library" in str(bench.records("A fork server could not be started: runs go cold")[0]["error"])
    assert bench.records(STARTS)[0]["executor"] == "cold"


async def test_where_cold_runs_cannot_start_either_the_operator_is_not_ready(bench: NearBench) -> None:
    """The reason is the cold launcher's, which names the remedy."""
    plan = bench.plan()
    plan = replace(plan, settings=replace(plan.settings, ansible_python="/nosuch/python"))
    launcher = WarmLauncher(
        plan,
        fallback=ColdLauncher(settings=plan.settings),
        clock=SystemClock(),
        delay=lambda _: 0.0,
        logger=bench.logger,
    )
    await launcher.start()
    await asyncio.wait_for(launcher.settled(), 60)
    assert "/nosuch/python" in str(await launcher.ready())
    await launcher.stop()


async def test_a_run_that_the_server_refuses_is_cold(bench: NearBench) -> None:
    """Nothing was done of it, so it is no failure."""
    async with _started(bench, "refuses") as launcher:
        assert await _ran(launcher, bench.command("exit 9")) == 9
    (record,) = bench.records(STARTS)
    assert (record["executor"], record["why"]) == ("cold", "not today")


async def test_a_server_that_retires_is_followed_by_another_one(bench: NearBench) -> None:
    """It says so itself, and the run that it refused is cold."""
    async with _started(bench, "retires") as launcher:
        assert await _ran(launcher, bench.command("exit 9")) == 9
        await eventually(lambda: len(bench.records(IS_READY)) == 2)
    assert [record["reason"] for record in bench.records("The fork server retires")] == ["tired of it"]
    assert bench.records("A fork server died") == []


async def test_a_changed_task_replaces_the_server_without_a_gap(bench: NearBench) -> None:
    """The old one serves until the new one is ready, and ends after its last run."""
    tasks = bench.root / "roles/r/tasks/main.yml"
    tasks.parent.mkdir(parents=True)
    tasks.write_text("")
    plan = bench.plan(content=WarmContent(roles=(bench.root / "roles/r",)))
    async with _started(bench, plan=plan) as launcher:
        go = bench.root / "go"
        play = await launcher.launch(bench.command(f"while [ ! -e {go} ]; do sleep 0.01; done; exit 8"))
        tasks.write_text("[]")
        await eventually(lambda: bench.records("The fork server will be replaced"))
        assert await _ran(launcher, bench.command("true")) == 0
        await eventually(lambda: len(bench.records(IS_READY)) == 2)
        assert await _ran(launcher, bench.command("true")) == 0
        assert len(_own(bench)) == 2
        go.touch()
        assert await play.wait() == 8
        await eventually(lambda: len(_own(bench)) == 1)
    assert _ways(bench) == ["warm", "warm", "warm"]
    assert bench.records(IS_READY)[1]["reason"] == f"{tasks} changed"
    assert bench.records("A fork server died") == []


async def test_a_changed_collection_makes_runs_cold_until_a_new_server_has_read_it(bench: NearBench) -> None:
    """No run ever sees what was on disk before it started; the run under way goes on."""
    module = bench.root / "c/ansible_collections/a/b/plugins/modules/m.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    async with _started(bench, plan=bench.plan(collections=str(bench.root / "c"))) as launcher:
        go = bench.root / "go"
        play = await launcher.launch(bench.command(f"while [ ! -e {go} ]; do sleep 0.01; done; exit 8"))
        module.write_text("pass")
        await eventually(lambda: bench.records("Runs go cold until there is a new fork server"))
        assert await _ran(launcher, bench.command("true")) == 0
        await eventually(lambda: len(bench.records(IS_READY)) == 2)
        assert await _ran(launcher, bench.command("true")) == 0
        go.touch()
        assert await play.wait() == 8
    assert _ways(bench) == ["warm", "cold", "warm"]
    assert bench.records(STARTS)[1]["why"] == f"{module} changed"


async def test_no_more_than_two_servers_live_at_a_time(bench: NearBench) -> None:
    """While runs of two servers go on, a further change starts no third one: runs are cold until one of them ended."""
    module = bench.root / "c/ansible_collections/a/b/plugins/modules/m.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    async with _started(bench, plan=bench.plan(collections=str(bench.root / "c"))) as launcher:
        plays = []
        for number in (1, 2):
            go = bench.root / f"go{number}"
            plays.append(await launcher.launch(bench.command(f"while [ ! -e {go} ]; do sleep 0.01; done; exit 8")))
            module.write_text(f"pass  # {number}")
            if number == 1:
                await eventually(lambda: len(bench.records(IS_READY)) == 2)
        await eventually(lambda: bench.records("A new fork server waits until the runs of an older one have ended"))
        assert await _ran(launcher, bench.command("true")) == 0
        assert launcher.servers == 2
        (bench.root / "go1").touch()
        assert await plays[0].wait() == 8
        await eventually(lambda: len(bench.records(IS_READY)) == 3)
        assert await _ran(launcher, bench.command("true")) == 0
        (bench.root / "go2").touch()
        assert await plays[1].wait() == 8
    assert _ways(bench) == ["warm", "warm", "cold", "warm"]


async def test_nothing_is_started_after_all_runs_were_killed(bench: NearBench) -> None:
    """The leadership is lost or the process ends at once: a new server would be left behind."""
    async with _started(bench) as launcher:
        kill_all_runs()
        await eventually(lambda: launcher.servers == 0)
        launcher_is_quiet = bench.records(IS_READY)
        assert await launcher.ready() is None
    assert len(launcher_is_quiet) == 1
    assert bench.records("A fork server died") == []


async def test_stopping_waits_for_runs_only_within_the_grace_period(bench: NearBench) -> None:
    """Then no process is left, and later runs go cold."""
    async with _started(bench) as launcher:
        command = bench.command("exec sleep 1000")
        play = await launcher.launch(command)
        await launcher.stop()
        with pytest.raises(ExecutionError):
            await play.wait()
        await end_processes(command.request.ident, grace=0)
        assert await _ran(launcher, bench.command("exit 1")) == 1
    assert _ways(bench) == ["warm", "cold"]
