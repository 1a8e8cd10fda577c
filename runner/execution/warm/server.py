"""One fork server, from its start to its end: the near side of `far/server`, one object per process.

It is handed runs by `launcher`. Whatever happens to the process, each of its runs gets to know how it ended or that
nobody knows, its scratch folder goes, and no process of its own lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runner.errors import ExecutionError
from runner.execution.chosen import WarmContent
from runner.execution.command import ansible_python, environment_of_plays
from runner.execution.launcher import PlayCommand
from runner.execution.leftovers import new_server_scratch, server_is_over, server_variables
from runner.execution.play import in_thread, to_the_end
from runner.execution.processes import MARK, SERVER_IDENT, marked_with
from runner.execution.scrub import Scrubber
from runner.execution.warm.far.protocol import (
    LIMIT,
    Drain,
    Ended,
    Message,
    Note,
    ProtocolError,
    Ready,
    Refused,
    Retiring,
    Run,
    Start,
    Started,
    decode,
    encode,
)
from runner.execution.warm.output import ServerOutput
from runner.execution.warm.runs import ForkedPlay, NotTaken, OpenRuns
from runner.logs import Logger
from runner.settings import ExecutionSettings

PROGRAM = Path(__file__).with_name("far") / "__main__.py"
WAY_OUT = "`executor: cold` in watches.yaml, or the annotation ansible-operator.io/executor: cold on the object"
_RETRIED = f"the reconcile is retried; if this happens again, set {WAY_OUT}"
_REMOVALS = 3
_LAST_WORDS = 1.0
"""Seconds in which the rest of the stream must be there, once the process has ended."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds after which a fork server is taken for hung."""

    start: float = 120.0
    """From its start to `Ready`: it imports some thousand files, on a machine that may be busy."""
    answer: float = 30.0
    """From `Run` to `Started`."""
    leave: float = 12.0
    """From the end of the connection to that of the process."""


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """What all fork servers of an operator are made from."""

    settings: ExecutionSettings
    content: WarmContent
    program: Path = PROGRAM
    """The far side's entry; tests have others."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class Death:
    """How a fork server ended."""

    how: str
    """A part of a sentence: `died of SIGKILL`."""
    lost: int = 0
    """Runs that were under way."""
    final: bool = False
    """It was killed with all runs, as the operator itself ends (`leftovers.kill_all_runs`)."""


class ForkServer:
    """One process that forks runs."""

    def __init__(
        self,
        plan: ServerPlan,
        *,
        logger: Logger,
        on_retiring: Callable[[ForkServer, str], None] = lambda *_: None,
        on_cold_modules: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Nothing runs before `start`.

        *on_retiring* hears why the server takes no run any more, *on_cold_modules* how many modules were refused.
        """
        self._plan = plan
        self._log = logger
        self._scrubber = Scrubber(plan.settings.environ)
        self._on_retiring = on_retiring
        self._on_cold_modules = on_cold_modules
        self._runs = OpenRuns()
        self._came_up = asyncio.Event()
        self._ready: Ready | None = None
        self._leaving = ""
        """Why it takes no run any more; empty while it does."""
        self._hung = ""
        self._unannounced = False
        """It closed its connection and hadn't said that it would leave."""
        self._closed = False
        self._life: asyncio.Task[Death] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def running(self) -> int:
        """Return how many runs it has."""
        return len(self._runs)

    async def start(self) -> Ready:
        """Start the process, and return when it can fork runs.

        Raises:
            ExecutionError: it can't be started, or does not get ready; nothing of it is left.
        """
        python = ansible_python(self._plan.settings)
        try:
            self._cwd = str(Path.cwd())
            self._scratch = new_server_scratch()
        except OSError as error:
            raise ExecutionError(f"a fork server has no folder to work in: {error}; check the disk") from error
        self._life = asyncio.create_task(self._live(python), name="fork server")
        self._life.add_done_callback(lambda _: self._came_up.set())
        try:
            await asyncio.wait_for(self._came_up.wait(), self._plan.limits.start)
        except TimeoutError:
            self._give_up(f"did not get ready within {self._plan.limits.start:g} s")
        except BaseException:
            await to_the_end(self.end(grace=0))
            raise
        if self._ready is None or self._hung:
            death = await self.wait()
            last = self._output.last.replace(str(self._scratch), "its folder")  # which has another name each time
            words = f"; it printed last: {last}" if last else ""
            raise ExecutionError(f"the fork server {death.how}{'' if self._hung else ' before it was ready'}{words}")
        return self._ready

    async def launch(self, command: PlayCommand) -> ForkedPlay:
        """Have *command* forked, and return when its process is there.

        Raises:
            NotTaken: nothing was done.
            ExecutionError: it may have been forked, but the server died or hung; what there was of it is ended.
        """
        if self._leaving or self._life is None or self._life.done():
            raise NotTaken(self._leaving or "the fork server is gone")
        number, play = self._runs.add(command.request.ident)
        self._send(
            Run(
                id=number,
                ident=play.ident,
                argv=list(command.argv),
                environ=dict(command.environ),
                cwd=self._cwd,
                complaints=str(command.complaints),
            )
        )
        try:
            await asyncio.wait_for(play.taken(), self._plan.limits.answer)
        except TimeoutError:
            self._give_up(f"did not answer within {self._plan.limits.answer:g} s")
            await play.taken()
        except asyncio.CancelledError:
            await to_the_end(self._withdraw(play))
            raise
        return play

    def drain(self) -> None:
        """Let it take no run any more, and exit when the last one has ended."""
        if not self._leaving:
            self._leaving = "the fork server is being replaced"
            self._send(Drain())

    async def wait(self) -> Death:
        """Wait for its end, any number of times."""
        if self._life is None:
            return Death(how="was never started")
        return await asyncio.shield(self._life)

    async def end(self, *, grace: float) -> None:
        """Drain it for *grace* seconds, end it and its runs then, and return when nothing is left."""
        if self._life is None:
            return
        self.drain()
        if self._ready is None:
            self._end_processes()  # it has no runs, and would hear nothing before its imports are done
        elif grace > 0:
            await asyncio.wait({self._life}, timeout=grace)
        self._close()
        await asyncio.wait({self._life})

    async def _withdraw(self, play: ForkedPlay) -> None:
        """End a run that nobody wants any more, which may not be forked yet: without its mark nobody finds it."""
        try:
            await asyncio.wait_for(play.taken(), self._plan.limits.answer)
            play.kill()
            await play.wait()
        except TimeoutError:
            self._give_up(f"did not answer within {self._plan.limits.answer:g} s")
        except (NotTaken, ExecutionError):
            return

    # from here on: the process, and what it says

    async def _live(self, python: str) -> Death:
        """Be the process's whole life; whatever ends it, nothing is left."""
        self._output = ServerOutput(logger=self._log, scrubber=self._scrubber)
        code: int | None = None
        trouble = ""
        try:
            async with self._output:
                code = await self._process_lives(python)
        except OSError as error:
            trouble = f"could not be started ({error})"
        finally:
            self._end_processes()
            await in_thread(self._remove_scratch)
        how = self._hung or trouble or _how(code)
        self._leaving = self._leaving or f"the fork server {how}"
        lost = self._runs.lose(lambda ident: _sentence(ident, how=how))
        return Death(how=how, lost=lost, final=not server_is_over(self._scratch))

    def _remove_scratch(self) -> None:
        for _ in range(_REMOVALS):  # a play that isn't ended yet may put something there at this very moment
            shutil.rmtree(self._scratch, ignore_errors=True)
            if not self._scratch.exists():
                return

    async def _process_lives(self, python: str) -> int:
        near, far = socket.socketpair()
        try:
            with far:
                process = self._process = await asyncio.create_subprocess_exec(
                    python,  # without -P, which plays would see; the program takes its own folder out of sys.path
                    str(self._plan.program),
                    "--fd",
                    str(far.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=self._output.far,
                    stderr=self._output.far,
                    env={**environment_of_plays(self._plan.settings, scratch=self._scratch), MARK: SERVER_IDENT},
                    pass_fds=[far.fileno()],
                    start_new_session=True,
                )
        except OSError:
            near.close()
            raise
        self._output.close_far()
        reader, self._writer = await asyncio.open_connection(sock=near, limit=LIMIT)
        if self._closed:
            self._writer.close()
        self._send(self._first_message())
        try:
            return await self._until_gone(process, reader)
        finally:
            self._close()

    def _first_message(self) -> Start:
        content, settings = self._plan.content, self._plan.settings
        roles_path = settings.roles_path or settings.environ.get("ANSIBLE_ROLES_PATH", "")
        return Start(
            scratch=str(self._scratch),
            roles=[str(role) for role in content.roles],
            playbooks=[str(playbook) for playbook in content.playbooks],
            roles_path=[path for path in roles_path.split(os.pathsep) if path],
        )

    async def _until_gone(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader) -> int:
        """Take messages until both process and connection have ended; the one may not outlive the other by long."""
        reading = asyncio.create_task(self._read(reader))
        exiting = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({reading, exiting}, return_when=asyncio.FIRST_COMPLETED)
            if exiting.done():
                await asyncio.wait({reading}, timeout=_LAST_WORDS)
            else:
                await asyncio.wait({exiting}, timeout=self._plan.limits.leave)
            return process.returncode if process.returncode is not None else await self._kill(process, exiting=exiting)
        finally:
            for task in (reading, exiting):
                task.cancel()
            if process.returncode is None:
                process.kill()

    async def _kill(self, process: asyncio.subprocess.Process, *, exiting: asyncio.Task[int]) -> int:
        self._hung = self._hung or ("closed its connection and did not exit" if self._unannounced else "")
        process.kill()
        return await exiting

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(decode(line))
            self._unannounced = not self._leaving
            self._leaving = self._leaving or "the fork server closed its connection"
        except ProtocolError as error:
            self._give_up(f"said what nobody understands ({error})")
        except (ValueError, ConnectionError) as error:
            self._give_up(f"broke its connection ({error})")

    def _take(self, message: Message) -> None:
        match message:
            case Ready():
                self._ready = message
                self._came_up.set()
            case Started():
                play = self._runs.get(message.id)
                if play is not None:
                    play.started(message.pid)
            case Ended():
                self._on_cold_modules(message.cold_modules)
                self._runs.close(message.id, tell=lambda play: _tell_end(play, message))
            case Refused():
                self._runs.close(message.id, tell=lambda play: play.refused(message.reason))
            case Retiring():
                self._leaving = self._leaving or f"the fork server is retiring: {message.reason}"
                self._on_retiring(self, self._scrubber.text(message.reason))
            case Note():
                self._note(message)
            case _:
                raise ProtocolError(f"a {type(message).__name__} comes from the operator only")

    def _note(self, note: Note) -> None:
        play = self._runs.get(note.run)
        log = self._log if play is None else self._log.bind(job=play.ident)
        write = {"debug": log.debug, "warning": log.warning, "error": log.error}.get(note.level, log.info)
        keys = {name: self._scrubber.value(value) for name, value in note.fields.items()}
        if play is not None and note.level in {"warning", "error"}:
            keys["wayOut"] = WAY_OUT  # a run that is the server's own fault is told apart
        write(self._scrubber.text(note.message), **keys)

    def _send(self, message: Message) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message))

    def _give_up(self, trouble: str) -> None:
        """End a server that can't be spoken with any more; its runs are told."""
        self._hung = self._hung or trouble
        self._leaving = self._leaving or f"the fork server {trouble}"
        self._end_processes()

    def _close(self) -> None:
        self._closed = True  # there may be no connection yet
        if self._writer is not None:
            self._writer.close()

    def _end_processes(self) -> None:
        """Kill the server's own processes; those of runs have marks of their own, and are ended by who runs them."""
        for pid in marked_with(server_variables(self._scratch)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None and self._process.returncode is None:
            self._process.kill()  # where there is no /proc


def _how(code: int | None) -> str:
    """Return how a process ended, as a part of a sentence."""
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = " (the kernel sends it where memory runs out)" if -code == signal.SIGKILL else ""
    return f"died of {name}{memory}"


def _tell_end(play: ForkedPlay, message: Ended) -> None:
    if message.lost:
        play.lost(f"the server of modules of run {play.ident} {message.lost}; {_RETRIED}")
    else:
        play.ended(message.code)


def _sentence(ident: str, *, how: str) -> str:
    return f"the fork server that run {ident} was forked from {how} while the run was under way; {_RETRIED}"
