"""The play server's life, with real forks of small plays (scripts/small_server.py)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from runner.execution.warm.far import forking, marking, telling
from runner.execution.warm.far.protocol import (
    LIMIT,
    Drain,
    Ended,
    Inbox,
    Message,
    Note,
    Ready,
    Refused,
    Retiring,
    Run,
    Start,
    Started,
    encode,
)

SCRIPT = Path(__file__).parent / "scripts" / "small_server.py"
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4]), marking.VARIABLE: marking.ROOM}
HUNG = 30.0


class Operator:
    """The near end of a server's connection."""

    def __init__(self, process: asyncio.subprocess.Process, *, near: socket.socket) -> None:
        """Own *process*."""
        self.process = process
        self._near = near
        self._inbox = Inbox()
        self.seen: list[Message] = []

    async def send(self, *messages: Message) -> None:
        """Send *messages*."""
        await asyncio.get_running_loop().sock_sendall(self._near, b"".join(map(encode, messages)))

    async def send_bytes(self, data: bytes) -> None:
        """Send what is no message."""
        with contextlib.suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._near, data)

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        """Read until a message is *wanted*, and return it."""
        async with asyncio.timeout(HUNG):
            while True:
                message = await self._next()
                if message is None:
                    raise AssertionError(f"the server is gone; it said {self.seen}")
                if wanted(message):
                    return message

    async def _next(self) -> Message | None:
        while (message := self._inbox.next()) is None:
            data = await asyncio.get_running_loop().sock_recv(self._near, 65536)
            if not data:
                return None
            self._inbox.feed(data)
        self.seen.append(message)
        return message

    async def ended(self, number: int) -> int:
        """Return the exit code of run *number*."""
        message = await self.until(lambda message: isinstance(message, Ended) and message.id == number)
        assert isinstance(message, Ended)
        return message.code

    async def left(self) -> int:
        """Return the exit code of the server, when it has said all."""
        async with asyncio.timeout(HUNG):
            while await self._next() is not None:
                pass
            return await self.process.wait()

    def go(self) -> None:
        """Be gone."""
        self._near.close()


@contextlib.asynccontextmanager
async def serving(scratch: str = "/plain", *more: str) -> AsyncIterator[Operator]:
    """Start a server and send it its `Start`."""
    near, far = socket.socketpair()
    near.setblocking(False)  # noqa: FBT003 - its only way
    with far:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(far.fileno()),
            *more,
            env=ENVIRON,
            pass_fds=[far.fileno()],
            stderr=asyncio.subprocess.DEVNULL,
        )
    operator = Operator(process, near=near)
    try:
        await operator.send(Start(scratch=scratch))
        yield operator
    finally:
        operator.go()
        if process.returncode is None:
            process.kill()
        await process.wait()


def a_run(number: int, *argv: str, ident: str = "", cwd: Path = Path("/"), **environ: str) -> Run:
    """Return the run *number* that does *argv*."""
    ident = ident or f"{number:019}"
    return Run(id=number, ident=ident, argv=argv, environ=environ, cwd=str(cwd), complaints="/dev/null")


async def told(path: Path) -> str:
    """Return what a play wrote to *path*."""
    async with asyncio.timeout(HUNG):
        while not path.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
    return path.read_text()


async def gone(*pids: int) -> None:
    """Wait until no process *pids* is there, not even as a zombie."""
    async with asyncio.timeout(HUNG):
        while any(Path(f"/proc/{pid}").exists() for pid in pids):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)


def resident(pid: int) -> int:
    """Return the kilobytes of memory of *pid*."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def test_server_tells_what_it_prepared_and_that_it_is_ready() -> None:
    """What preparing found out is told before the server says that it is ready, with its id and Ansible's version."""
    async with serving() as operator:
        ready = await operator.until(lambda message: isinstance(message, Ready))
        assert isinstance(ready, Ready)
        assert (ready.pid, ready.core, ready.preloaded) == (operator.process.pid, "2.0", ["kubernetes"])
        assert [message.message for message in operator.seen if isinstance(message, Note)] == ["A library is missing"]


@pytest.mark.parametrize(("argv", "code"), [(("exit", "0"), 0), (("exit", "4"), 4), (("die", "9"), -9)])
async def test_end_of_a_run_is_told_with_its_exit_code(argv: tuple[str, str], code: int) -> None:
    """A run is told to have started, then how it ended: its exit code, or the signal that ended it as a negative."""
    async with serving() as operator:
        await operator.send(a_run(7, *argv))
        assert await operator.ended(7) == code
        assert [message.id for message in operator.seen if isinstance(message, Started)] == [7]


async def test_runs_go_on_side_by_side(tmp_path: Path) -> None:
    """A run that takes long keeps no other one from starting or ending."""
    async with serving() as operator:
        await operator.send(a_run(1, "wait", str(tmp_path / "go")), *(a_run(n, "exit", str(n)) for n in range(2, 22)))
        codes: dict[int, int] = {}
        while len(codes) < 20:
            message = await operator.until(lambda message: isinstance(message, Ended))
            assert isinstance(message, Ended)
            codes[message.id] = message.code
        assert codes == {n: n for n in range(2, 22)}
        (tmp_path / "go").touch()
        assert await operator.ended(1) == 0


async def test_run_has_its_own_environment_folder_and_no_descriptor_of_the_server(tmp_path: Path) -> None:
    """A run has the environment and the working directory that it was given, and standard streams only."""
    async with serving() as operator:
        await operator.send(a_run(1, "look", str(tmp_path / "seen"), cwd=tmp_path, COLOUR="green"))
        assert await operator.ended(1) == 0
        assert await told(tmp_path / "seen") == f"{tmp_path} green 4"  # the fourth one reads the folder


async def test_draining_server_refuses_runs_and_exits_when_the_last_one_ended(tmp_path: Path) -> None:
    """After a Drain a run under way goes on to its end, a new one is refused, and the server exits with 0."""
    async with serving() as operator:
        await operator.send(a_run(1, "wait", str(tmp_path / "go")), Drain(), a_run(2, "exit", "0"))
        refused = await operator.until(lambda message: isinstance(message, Refused))
        assert refused == Refused(id=2, reason="the server is draining")
        (tmp_path / "go").touch()
        assert await operator.ended(1) == 0
        assert await operator.left() == 0


async def test_server_without_runs_drains_at_once() -> None:
    """A Drain that comes before the server is ready, and before any run, ends it with 0."""
    async with serving() as operator:
        await operator.send(Drain())
        assert await operator.left() == 0


async def test_end_of_the_operator_ends_every_run_with_its_processes(tmp_path: Path) -> None:
    """When the operator is gone, all processes of runs end, in other sessions and orphans too, and then the server."""
    async with serving() as operator:
        await operator.send(a_run(1, "family", str(tmp_path / "pids")), a_run(2, "family", str(tmp_path / "more")))
        pids = [int(pid) for name in ("pids", "more") for pid in (await told(tmp_path / name)).split()]
        operator.go()
        assert await asyncio.wait_for(operator.process.wait(), HUNG) == 0
        await gone(*pids)


async def test_term_signal_ends_runs_and_the_server(tmp_path: Path) -> None:
    """SIGTERM does what the end of the operator does, and the ends of runs are told."""
    async with serving() as operator:
        await operator.send(a_run(1, "family", str(tmp_path / "pids")))
        pids = [int(pid) for pid in (await told(tmp_path / "pids")).split()]
        operator.process.terminate()
        assert await operator.ended(1) == -signal.SIGTERM
        assert await operator.left() == 0
        await gone(*pids)


async def test_server_that_leaves_says_so_at_once_and_refuses_what_still_comes(tmp_path: Path) -> None:
    """While runs are being ended no new one is lost: the operator hears of it first, and gets an answer for each."""
    async with serving() as operator:
        await operator.send(a_run(1, "family", str(tmp_path / "pids"), "stubborn"))
        await told(tmp_path / "pids")
        operator.process.terminate()
        await operator.until(lambda message: isinstance(message, Retiring))
        await operator.send(a_run(2, "exit", "0"))
        refused = await operator.until(lambda message: isinstance(message, Refused))
        assert refused == Refused(id=2, reason="the server is ending")
        assert await operator.ended(1) == -signal.SIGKILL
        assert await operator.left() == 0


async def test_what_ignores_the_term_signal_is_killed(tmp_path: Path) -> None:
    """A run that does not end when asked to is killed after a grace, and so are the processes that it left."""
    async with serving() as operator:
        await operator.send(a_run(1, "family", str(tmp_path / "pids"), "stubborn"))
        pids = [int(pid) for pid in (await told(tmp_path / "pids")).split()]
        operator.process.terminate()
        assert await operator.ended(1) == -signal.SIGKILL
        assert await operator.left() == 0
        await gone(*pids)


async def test_interrupt_from_a_terminal_is_left_to_the_operator() -> None:
    """SIGINT does not touch the server: runs are forked as before."""
    async with serving() as operator:
        await operator.until(lambda message: isinstance(message, Ready))
        operator.process.send_signal(signal.SIGINT)
        await operator.send(a_run(1, "exit", "3"))
        assert await operator.ended(1) == 3


async def test_server_with_threads_refuses_runs() -> None:
    """Where a library started a thread no run is forked: it is refused, and the log is told which thread it was."""
    async with serving("/threads") as operator:
        await operator.send(a_run(1, "exit", "0"))
        refused = await operator.until(lambda message: isinstance(message, Refused))
        assert isinstance(refused, Refused)
        assert refused.id == 1
        assert "a-library" in refused.reason
        assert [message.run for message in operator.seen if isinstance(message, Note) and message.level == "error"] == [
            1
        ]


async def test_death_of_the_module_server_lets_runs_end_and_makes_the_server_fail(tmp_path: Path) -> None:
    """When the server of modules dies the play server retires: no run is taken, the one under way ends, exit 1."""
    async with serving("/modules") as operator:
        await operator.send(a_run(1, "wait", str(tmp_path / "go")))
        await operator.until(lambda message: isinstance(message, Started))
        children = Path(f"/proc/{operator.process.pid}/task/{operator.process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        assert await operator.until(lambda message: isinstance(message, Retiring))
        await operator.send(a_run(2, "exit", "0"))
        await operator.until(lambda message: isinstance(message, Refused))
        (tmp_path / "go").touch()
        assert await operator.ended(1) == 0
        assert await operator.left() == 1


async def test_word_that_a_run_is_lost_comes_with_its_end(tmp_path: Path) -> None:
    """Of this run and no other, and once: it is taken out of the server's folder."""
    (tmp_path / f"lost-{1:019}").write_text("ended before its time")
    async with serving(str(tmp_path)) as operator:
        await operator.send(a_run(2, "exit", "0"), a_run(1, "die", "9"))
        await operator.ended(1)
        if not any(isinstance(message, Ended) and message.id == 2 for message in operator.seen):
            await operator.ended(2)
        ends = {message.id: message.lost for message in operator.seen if isinstance(message, Ended)}
        assert ends == {1: "ended before its time", 2: ""}
        assert list(tmp_path.iterdir()) == []


async def test_silence_of_the_module_server_makes_the_server_retire(tmp_path: Path) -> None:
    """It is noticed at the end of a run; the others go on, and neither they nor the module server are ended for it."""
    (tmp_path / "modules").mkdir()
    async with serving(str(tmp_path / "modules")) as operator:
        await operator.send(a_run(1, "wait", str(tmp_path / "go")))
        await operator.until(lambda message: isinstance(message, Started))
        children = Path(f"/proc/{operator.process.pid}/task/{operator.process.pid}/children").read_text().split()
        (tmp_path / "modules/silent").touch()
        await operator.send(a_run(2, "exit", "0"))
        retiring = await operator.until(lambda message: isinstance(message, Retiring))
        assert isinstance(retiring, Retiring)
        assert retiring.reason == "the server of modules does not answer"
        assert all(Path(f"/proc/{pid}").exists() for pid in children)
        (tmp_path / "go").touch()
        assert await operator.ended(1) == 0
        assert await operator.left() == 1


async def test_module_server_ends_with_the_play_server() -> None:
    """A server that is done leaves no server of modules behind."""
    async with serving("/modules") as operator:
        await operator.until(lambda message: isinstance(message, Ready))
        children = Path(f"/proc/{operator.process.pid}/task/{operator.process.pid}/children").read_text().split()
        await operator.send(Drain())
        assert await operator.left() == 0
        await gone(*map(int, children))


async def test_orphans_of_runs_are_reaped_by_the_server(tmp_path: Path) -> None:
    """A process whose parent in the run died becomes the server's child, and is no zombie when it ends."""
    async with serving() as operator:
        await operator.send(a_run(1, "family", str(tmp_path / "pids")))
        orphan = int((await told(tmp_path / "pids")).split()[2])
        status = Path(f"/proc/{orphan}/status").read_text()
        assert f"PPid:\t{operator.process.pid}\n" in status
        os.kill(orphan, signal.SIGKILL)
        await gone(orphan)


async def test_processes_of_a_run_carry_its_mark(tmp_path: Path) -> None:
    """What /proc says of each process of a run is the run's mark, and of the server that it has none."""
    async with serving() as operator:
        await operator.send(a_run(1, "family", str(tmp_path / "pids"), ident="4711"))
        pids = [int(pid) for pid in (await told(tmp_path / "pids")).split()]
        for pid in pids:
            assert b"ANSIBLE_OPERATOR_RUN=4711" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        of_server = Path(f"/proc/{operator.process.pid}/environ").read_bytes().split(b"\0")
        assert f"ANSIBLE_OPERATOR_RUN={marking.ROOM}".encode() in of_server


async def test_run_that_broke_in_our_own_code_is_told_apart() -> None:
    """A fork in which our own code fails ends with a code of its own and an error for the log, and serves nothing."""
    async with serving() as operator:
        await operator.send(a_run(1, "raise"))
        assert await operator.ended(1) == forking.BROKEN
        assert [message.run for message in operator.seen if isinstance(message, Note) and message.level == "error"] == [
            1
        ]
        await operator.send(a_run(2, "exit", "0"))
        assert await operator.ended(2) == 0


async def test_what_runs_tell_reaches_the_operator_once() -> None:
    """A reason that several runs tell is told once, with the first of them; what is far too long is dropped."""
    async with serving() as operator:
        for number, argv in enumerate([("same", "1"), ("same", "1"), ("long", "9999"), ("other", "1")], start=1):
            await operator.send(a_run(number, "tell", *argv))
            await operator.ended(number)
        await operator.send(Drain())
        assert await operator.left() == 0
        told = [m for m in operator.seen if isinstance(m, Note) and m.message == "what a run says"]
        assert [(note.run, note.fields["reason"]) for note in told] == [(1, "same"), (4, "other")]


async def test_modules_that_went_cold_are_counted_with_the_end_of_a_run() -> None:
    """The log has each reason once, the count has every module."""
    async with serving() as operator:
        for number, what in enumerate(["cold module", "cold module", "same"], start=1):
            await operator.send(a_run(number, "tell", what, "1"))
            await operator.ended(number)
        ends = [message.cold_modules for message in operator.seen if isinstance(message, Ended)]
        notes = [m for m in operator.seen if isinstance(m, Note) and m.message == telling.COLD_MODULE]
        assert (ends, len(notes)) == ([1, 1, 0], 1)


async def test_what_the_server_of_modules_tells_reaches_the_operator() -> None:
    """What is forked before there are runs can tell things, too."""
    async with serving("/modules") as operator:
        note = await operator.until(lambda message: isinstance(message, Note) and "modules" in message.message)
        assert isinstance(note, Note)
        assert (note.run, note.fields) == (None, {"reason": "cold"})


async def test_run_does_not_outlive_a_killed_server(tmp_path: Path) -> None:
    """When the server is killed its runs die with it."""
    async with serving() as operator:
        await operator.send(a_run(1, "wait", str(tmp_path / "never")))
        started = await operator.until(lambda message: isinstance(message, Started))
        assert isinstance(started, Started)
        operator.process.kill()
        await gone(started.pid)


async def test_server_that_cannot_get_ready_says_why() -> None:
    """A failure while preparing is told in one line, and the server exits with 1."""
    async with serving("/fails") as operator:
        assert await operator.left() == 1
        (note,) = operator.seen
        assert isinstance(note, Note)
        assert note.fields == {"error": "ValueError: no such collection"}


async def test_server_that_hangs_while_preparing_dies_with_its_operator(tmp_path: Path) -> None:
    """A server that is not ready yet, and so doesn't see that its operator is gone, is ended by the system."""
    operator = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT.with_name("careless_operator.py")),
        str(SCRIPT),
        str(tmp_path / "hangs"),
        env=ENVIRON,
        stdout=asyncio.subprocess.PIPE,
    )
    assert operator.stdout is not None
    server = int(await operator.stdout.readline())
    await told(tmp_path / "hangs")
    operator.kill()
    await operator.wait()
    await gone(server)


@pytest.mark.parametrize("line", [b"what?\n", encode(Ended(id=1, code=0)), b"x" * (LIMIT + 1)])
async def test_server_does_not_go_on_with_an_operator_that_it_does_not_understand(line: bytes) -> None:
    """What is no message, no message for a server, or longer than any, ends the server with 1 and an error."""
    async with serving() as operator:
        await operator.until(lambda message: isinstance(message, Ready))
        await operator.send_bytes(line)
        note = await operator.until(lambda message: isinstance(message, Note))
        assert isinstance(note, Note)
        assert note.level == "error"
        assert await asyncio.wait_for(operator.process.wait(), HUNG) == 1


async def test_growth_of_a_run_is_not_the_servers() -> None:
    """Memory that a run took is returned with its end: the server has not grown by it."""
    async with serving() as operator:
        await operator.send(a_run(1, "exit", "0"))
        await operator.ended(1)
        before = resident(operator.process.pid)
        await operator.send(a_run(2, "grow", "64"))
        await operator.ended(2)
        assert resident(operator.process.pid) - before < 16 * 1024
