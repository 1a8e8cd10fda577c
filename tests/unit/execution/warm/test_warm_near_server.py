"""One fork server as the operator sees it, with a real process that speaks the protocol (scripts/stand_in.py)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runner.errors import ExecutionError
from runner.execution.leftovers import SERVER_PREFIX, kill_all_runs, new_scratch, run_is_over
from runner.execution.processes import MARK, OWNER_MARK, SERVER_IDENT, end_processes, marked_with, processes_of
from runner.execution.warm.runs import NotTaken
from runner.execution.warm.server import ForkServer, Limits
from runner.owner import identity, own_identity
from runner.testing.waiting import eventually
from tests.unit.execution.warm.warm_near_bench import SECRET, NearBench


@asynccontextmanager
async def _serving(bench: NearBench, mood: str = "", *, limits: Limits | None = None) -> AsyncIterator[ForkServer]:
    server = ForkServer(bench.plan(mood, limits=limits), logger=bench.logger)
    await server.start()
    try:
        yield server
    finally:
        await server.end(grace=0)
        assert _folders(bench) == []


def _folders(bench: NearBench) -> list[str]:
    return [path.name for path in (bench.root / "tmp").glob(f"{SERVER_PREFIX}*")]


async def test_a_run_is_forked_with_all_that_its_command_says(bench: NearBench) -> None:
    """Its environment, its standard error, its exit code."""
    async with _serving(bench) as server:
        command = bench.command(f'echo "${MARK}" >&2; pwd >&2; exit 7')
        play = await server.launch(command)
        assert await play.wait() == 7
        assert await play.wait() == 7
        assert command.complaints.read_text().splitlines() == [command.request.ident, str(Path.cwd())]
        assert server.running == 0


async def test_the_server_has_what_all_plays_have_and_the_mark_of_none(bench: NearBench) -> None:
    """Its mark has room for any run's, its temporary files are in a folder of its own, its owner is this process."""
    server = ForkServer(bench.plan(), logger=bench.logger)
    ready = await server.start()
    try:
        lines = Path(f"/proc/{ready.pid}/environ").read_bytes().decode().split("\0")
        environ = dict(line.split("=", 1) for line in lines if line)
        assert environ[MARK] == SERVER_IDENT
        assert len(SERVER_IDENT) == len(str(2**63 - 1))
        assert environ[OWNER_MARK] == own_identity()
        assert Path(environ["TMPDIR"]).parent.name in _folders(bench)
        assert os.getsid(ready.pid) == ready.pid
    finally:
        await server.end(grace=0)
    assert identity(ready.pid) == ""
    assert _folders(bench) == []


async def test_a_run_that_is_killed_says_so(bench: NearBench) -> None:
    """`kill` ends the process of the run itself; its code is the signal."""
    async with _serving(bench) as server:
        play = await server.launch(bench.command("exec sleep 1000"))
        play.kill()
        assert await play.wait() == -signal.SIGKILL
        play.kill()


async def test_a_drained_server_ends_when_its_last_run_has(bench: NearBench) -> None:
    """It takes no new one meanwhile, and its end is no surprise."""
    server = ForkServer(bench.plan(), logger=bench.logger)
    await server.start()
    go = bench.root / "go"
    play = await server.launch(bench.command(f"while [ ! -e {go} ]; do sleep 0.01; done"))
    server.drain()
    with pytest.raises(NotTaken):
        await server.launch(bench.command("true"))
    go.touch()
    assert await play.wait() == 0
    death = await server.wait()
    assert (death.how, death.final, death.lost) == ("ended with exit code 0", False, 0)
    assert _folders(bench) == []


@pytest.mark.parametrize(
    ("mood", "told"),
    [
        ("exits", "ended with exit code 3 before it was ready; it printed last: no such library"),
        ("garbage", "said what nobody understands"),
        ("silent", "did not get ready within 1 s"),
    ],
)
async def test_a_server_that_does_not_come_up_is_an_error(bench: NearBench, mood: str, told: str) -> None:
    """The error tells why, and nothing of the server is left."""
    server = ForkServer(bench.plan(mood, limits=Limits(start=1.0 if mood == "silent" else 60.0)), logger=bench.logger)
    with pytest.raises(ExecutionError, match=told):
        await server.start()
    assert _folders(bench) == []
    with pytest.raises(NotTaken):
        await server.launch(bench.command("true"))


async def test_a_start_that_is_cancelled_leaves_nothing(bench: NearBench) -> None:
    """A process that has not said a word is ended with the operator."""
    ours = {MARK: SERVER_IDENT, OWNER_MARK: own_identity(), "HOME": str(bench.root)}
    server = ForkServer(bench.plan("silent"), logger=bench.logger)
    start = asyncio.create_task(server.start())
    await eventually(lambda: marked_with(ours))
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert marked_with(ours) == set()
    assert _folders(bench) == []


async def test_a_run_of_which_nobody_knows_how_a_module_ended_says_so(bench: NearBench) -> None:
    """Its exit code is no end of the play: the reconcile is retried, as after the death of the whole fork server."""
    server = ForkServer(bench.plan("loses"), logger=bench.logger)
    await server.start()
    command = bench.command("true")
    sentence = f"server of modules of run {command.request.ident} ended before it told .*retried.*executor: cold"
    with pytest.raises(ExecutionError, match=sentence):
        await (await server.launch(command)).wait()
    await server.end(grace=0)


async def test_the_runs_of_a_server_that_died_say_so(bench: NearBench) -> None:
    """The message names the run, the signal, what happens next and the way out."""
    server = ForkServer(bench.plan(), logger=bench.logger)
    ready = await server.start()
    command = bench.command("exec sleep 1000")
    play = await server.launch(command)
    os.kill(ready.pid, signal.SIGKILL)
    with pytest.raises(ExecutionError) as caught:
        await play.wait()
    text = str(caught.value)
    assert all(part in text for part in (command.request.ident, "SIGKILL", "retried", "executor: cold"))
    death = await server.wait()
    assert (death.final, death.lost) == (False, 1)
    await end_processes(command.request.ident, grace=0)
    assert _folders(bench) == []


async def test_a_server_that_does_not_answer_is_ended(bench: NearBench) -> None:
    """The run is an error, as nobody knows whether it was begun; the process does not live on."""
    server = ForkServer(bench.plan("mute", limits=Limits(answer=0.5)), logger=bench.logger)
    ready = await server.start()
    with pytest.raises(ExecutionError, match="did not answer"):
        await server.launch(bench.command("true"))
    await server.wait()
    assert identity(ready.pid) == ""


async def test_a_launch_that_is_cancelled_leaves_no_run_behind(bench: NearBench) -> None:
    """Even a run that is forked after nobody wants it any more is ended before the cancellation goes on."""
    async with _serving(bench) as server:
        command = bench.command("exec sleep 1000")
        launch = asyncio.create_task(server.launch(command))
        await asyncio.sleep(0)
        launch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await launch
        assert server.running == 0
        assert processes_of(command.request.ident) == set()
        assert await (await server.launch(bench.command("exit 3"))).wait() == 3


async def test_a_refused_run_was_not_taken(bench: NearBench) -> None:
    """The server says why, and goes on."""
    async with _serving(bench, "refuses") as server:
        with pytest.raises(NotTaken, match="not today"):
            await server.launch(bench.command("true"))
        assert server.running == 0


async def test_a_server_that_hangs_up_gets_no_run_any_more(bench: NearBench) -> None:
    """From the end of its connection on, though the process lives on for a while, runs go another way at once."""
    server = ForkServer(bench.plan("hangs up", limits=Limits(leave=3.0)), logger=bench.logger)
    await server.start()
    with pytest.raises(NotTaken, match="good bye"):
        await server.launch(bench.command("true"))
    for _ in range(100):  # steps of the loop until it has seen the end
        await asyncio.sleep(0)
    with pytest.raises(NotTaken, match="closed its connection"):
        await server.launch(bench.command("true"))
    assert "did not exit" in (await server.wait()).how


async def test_a_server_can_retire_by_itself(bench: NearBench) -> None:
    """Who uses it hears why, and it takes no run any more."""
    heard: list[str] = []
    server = ForkServer(bench.plan("retires"), logger=bench.logger, on_retiring=lambda _, why: heard.append(why))
    await server.start()
    with pytest.raises(NotTaken, match="tired"):
        await server.launch(bench.command("true"))
    await server.wait()
    assert heard == ["tired of it"]


async def test_what_the_server_says_is_logged_without_secrets(bench: NearBench) -> None:
    """Notes with their fields, and what it prints, up to a limit."""
    async with _serving(bench, "chatty"):
        await eventually(lambda: bench.records("The fork server printed more"))
    printed = bench.records("The fork server printed")
    assert len(printed) == 201
    assert printed[0]["text"] == "line 0 of ********"
    assert bench.records("hello ********")[0]["roles"] == []
    assert SECRET not in str(bench.sink.records)


async def test_a_note_about_a_run_names_the_run_and_the_way_out(bench: NearBench) -> None:
    """What may be the fault of warm runs is told apart in the log."""
    async with _serving(bench, "notes") as server:
        command = bench.command("sleep 0.1")
        await (await server.launch(command)).wait()
    (record,) = bench.records("a module broke")
    assert (record["level"], record["job"]) == ("warn", command.request.ident)
    assert "executor: cold" in str(record["wayOut"])


async def test_ending_does_not_wait_for_runs_beyond_the_grace_period(bench: NearBench) -> None:
    """The runs are told, as are those who wait for them."""
    server = ForkServer(bench.plan(), logger=bench.logger)
    await server.start()
    command = bench.command("exec sleep 1000")
    play = await server.launch(command)
    await server.end(grace=0.1)
    with pytest.raises(ExecutionError, match=command.request.ident):
        await play.wait()
    await end_processes(command.request.ident, grace=0)


async def test_an_operator_that_ends_at_once_takes_its_servers_along(bench: NearBench) -> None:
    """`kill_all_runs` kills server and runs and removes the folder; the server's end is known to be the last."""
    server = ForkServer(bench.plan(), logger=bench.logger)
    ready = await server.start()
    command = bench.command("exec sleep 1000")
    new_scratch(command.request.ident)
    play = await server.launch(command)
    assert kill_all_runs() == 2
    run_is_over(command.request.ident)
    assert identity(ready.pid) == ""
    assert _folders(bench) == []
    assert (await server.wait()).final
    with pytest.raises(ExecutionError):
        await play.wait()
