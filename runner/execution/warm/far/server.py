"""The play server: prepares itself once, then forks one process per run and tells the operator how each ended.

Single-threaded, as a fork with other threads alive may inherit a lock that nobody will ever release. It never outlives
the operator: the end of the socket's stream ends every run, and then the server.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

from . import ending, environment, forking, losing, marking, module_server, needs, pages, probe, standby, telling
from .protocol import (
    VERSION,
    Drain,
    Ended,
    Inbox,
    Message,
    Note,
    ProtocolError,
    Ready,
    Refused,
    Retiring,
    Run,
    Start,
    Started,
    encode,
)

_CHUNK = 1 << 18
_DRAINING = "the server is draining"
_LEAVING = "the server is ending"
_MODULE_SERVER_DIED = "the server of modules died"
_MODULE_SERVER_SILENT = "the server of modules does not answer"
_MALFUNCTION = 1
_TOLD = 200
"""Different things that forks may have logged; their number is bounded nowhere else."""
_IDLE = 0.02
"""Seconds without anything to do, and without a run, after which a process is made ready for the next run."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a server has ready before it forks."""

    core: str
    """Version of ansible-core."""
    preloaded: Sequence[str] = ()
    module_server: int | None = None
    """The process id of the server of modules, whose end is this one's."""
    notes: Sequence[Note] = field(default=())


def main(descriptor: int, *, started: float) -> int:
    """Serve the operator at *descriptor*; return the exit code. *started* is when the process was, monotonic."""
    forking.set_name("warm-server")
    forking.die_with_parent(os.getppid())  # until it reads its socket
    forking.adopt_orphans()
    marking.remember()
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    with connection:
        return Server(connection, prepare=prepare, play=play, stand_by=stand_by, started=started).serve()


def prepare(start: Start) -> Prepared:
    """Load what plays and modules need, and fork the server of modules before any of Ansible is imported.

    Raises:
        Exception: whatever keeps Ansible from being imported, or this process from forking.
    """
    found = needs.find(
        roles=start.roles,
        playbooks=start.playbooks,
        roles_path=start.roles_path,
        collections_path=(collections_path := _collections_path()),
    )
    probed = probe.probe(dict.fromkeys((*found.libraries, *found.controller)))
    good = frozenset(probed.good)
    modules = module_server.fork(
        scratch=start.scratch,
        needs=found,
        libraries=[name for name in found.libraries if name in good],
        collections_path=collections_path,
    )
    environment.import_libraries(name for name in found.controller if name in good)
    from . import warmup  # noqa: PLC0415 - no module may find what it imports

    return Prepared(
        core=warmup.prepare(start, modules.address, modules=found.modules),
        preloaded=(*probed.good, *found.utilities),
        module_server=modules.pid,
        notes=_notes(probed.failed, odd=probed.odd),
    )


def _collections_path() -> list[str]:
    return [path for path in os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(os.pathsep) if path]


def _notes(failed: Sequence[str], *, odd: Mapping[str, str]) -> list[Note]:
    missing = "Libraries that modules import are not installed, or fail to be imported"
    left_out = "Libraries that modules import cannot be loaded beforehand: each such module imports them itself"
    notes = [Note(level="debug", message=missing, fields={"names": list(failed)})] if failed else []
    return [*notes, Note(level="warning", message=left_out, fields={"reasons": dict(odd)})] if odd else notes


def play(run: Run) -> NoReturn:
    """Become *run*, in a process that was just forked for it."""
    from . import runner_child  # noqa: PLC0415 - it needs Ansible, which `prepare` has imported at the right moment

    runner_child.play(run)


def stand_by() -> None:
    """Do in a process that was just forked what doesn't depend on the run that it will be."""
    from . import runner_child  # noqa: PLC0415 - as above

    runner_child.stand_by()


class Server:
    """Serves one operator over one connection."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        prepare: Callable[[Start], Prepared],
        play: Callable[[Run], NoReturn],
        stand_by: Callable[[], None] | None = None,
        started: float | None = None,
        grace: float = ending.GRACE,
    ) -> None:
        """*prepare* is called once, *play* in a fork of this process for each run: it never returns.

        *stand_by* is called in a fork that waits for its run; without it none does.

        *grace* is how long a run may take to end by itself when the operator is gone.
        """
        self._grace = grace
        self._connection = connection
        self._prepare = prepare
        self._play = play
        self._stand_by = stand_by
        self._standby: standby.Standby | None = None
        self._since = time.monotonic() if started is None else started
        self._inbox = Inbox()
        self._runs: dict[int, Run] = {}
        """By process id."""
        self._told: set[tuple[str, str]] = set()
        self._cold_modules = 0
        self._module_server: int | None = None
        self._scratch = ""
        self._ready: Ready
        self._closed: str | None = None
        """Why no run is taken any more."""
        self._code = 0

    def serve(self) -> int:
        """Prepare, serve until there is nothing to serve any more, leave no process behind; return the exit code."""
        gc.disable()  # nothing is collected here ever again: what is loaded stays, and children share its memory
        try:
            with telling.pipe() as notes:  # before anything is forked: the server of modules has things to tell, too
                if self._begin():
                    self._serve_runs(notes)
        except ProtocolError as error:
            self._fail("What the operator sent to the fork server cannot be understood", error=str(error))
        finally:
            if self._module_server is not None:
                ending.end_child(self._module_server)
        return self._code

    def _serve_runs(self, notes: int) -> None:
        with _signals() as wakeup, selectors.DefaultSelector() as selector:
            for source in (self._connection, wakeup, notes):
                selector.register(source, selectors.EVENT_READ)
            try:
                self._send(self._ready)
                self._loop(selector, wakeup=wakeup, notes=notes)
            finally:
                self._dismiss_standby()
                self._leave()
                under_way = {pid: run.ident for pid, run in self._runs.items()}
                ending.end_runs(under_way, reap=self._reap_and_refuse, grace=self._grace)
                self._reap_and_refuse()
                self._hand_on(telling.told(notes))

    def _begin(self) -> bool:
        """Read `Start` and get ready; tell whether there is anything to serve."""
        while (start := self._inbox.next()) is None:
            if not self._read():
                return False
        if not isinstance(start, Start) or start.version != VERSION:
            raise ProtocolError("the first message is no Start of this release")
        try:
            prepared = self._prepare(start)
        except Exception as error:  # noqa: BLE001 - whatever Ansible or a library raises, the operator shall read it
            traceback.print_exc()
            self._fail("The fork server cannot get ready", error=_one_line(error))
            return False
        self._module_server, self._scratch = prepared.module_server, start.scratch
        gc.collect()
        pages.fill_holes()
        gc.freeze()
        pages.make_huge()
        for note in prepared.notes:
            self._send(note)
        seconds = round(time.monotonic() - self._since, 3)
        self._ready = Ready(pid=os.getpid(), core=prepared.core, preloaded=tuple(prepared.preloaded), seconds=seconds)
        forking.outlive_parent()  # the end of the stream tells from now on, and there is time to end what runs
        return True

    def _loop(self, selector: selectors.BaseSelector, *, wakeup: socket.socket, notes: int) -> None:
        """Serve until the operator is gone or a `Drain` is done."""
        self._reap()
        self._serve_inbox()
        while self._runs or self._closed is None:
            ready = {key.fileobj for key, _ in selector.select(self._patience())}
            if not ready:
                self._make_standby()
            if notes in ready:
                self._hand_on(telling.told(notes))
            # first the ends: an operator that is told of one may send the next run
            if wakeup in ready:
                if signal.SIGTERM in wakeup.recv(_CHUNK):
                    return
                self._reap()
            if self._connection in ready:
                if not self._read():
                    return
                self._serve_inbox()

    def _hand_on(self, notes: Sequence[Note]) -> None:
        """Send what forks told, each thing once: it is the same for each run of a kind."""
        for note in notes:
            self._cold_modules += note.message == telling.COLD_MODULE
            same = (note.message, str(note.fields))
            if same not in self._told and len(self._told) < _TOLD:
                self._told.add(same)
                self._send(note)

    def _serve_inbox(self) -> None:
        while (message := self._inbox.next()) is not None:
            self._serve_one(message)

    def _serve_one(self, message: Message) -> None:
        match message:
            case Run() if self._closed is not None:
                self._send(Refused(id=message.id, reason=self._closed))
            case Run():
                self._fork(message)
            case Drain():
                self._closed = self._closed or _DRAINING
            case _:
                raise ProtocolError(f"a {type(message).__name__} is not for a server")

    def _patience(self) -> float | None:
        """Return how long to wait for something to do: where nothing runs, the next run can be made ready for."""
        idle = self._stand_by is not None and self._standby is None and self._closed is None and not self._runs
        return _IDLE if idle else None

    def _make_standby(self) -> None:
        server, stand_by = os.getpid(), self._stand_by
        if stand_by is None:
            return

        def become(wait: Callable[[], Run | None]) -> NoReturn:
            self._in_child(lambda: stand_by() or wait(), server=server)

        try:
            self._standby = standby.Standby(become=become)
        except (forking.ForkError, OSError):
            self._stand_by = None  # what is wrong is told when a run can't be forked

    def _dismiss_standby(self) -> None:
        former, self._standby = self._standby, None
        if former is not None:
            former.dismiss()

    def _take_standby(self, run: Run) -> int | None:
        """Return the process that stood by and is *run* now, if there is one."""
        former, self._standby = self._standby, None
        return former.pid if former is not None and former.give(run) else None

    def _fork(self, run: Run) -> None:
        server = os.getpid()
        try:
            pid = self._take_standby(run)
            if pid is None:
                pid = forking.fork()
        except forking.ForkError as error:
            self._note("error", "A run cannot be forked and goes the ordinary way", run=run.id, error=str(error))
            self._send(Refused(id=run.id, reason=str(error)))
            return
        if pid == 0:
            self._in_child(lambda: run, server=server)
        self._runs[pid] = run
        self._send(Started(id=run.id, pid=pid))

    def _in_child(self, wait: Callable[[], Run | None], *, server: int) -> NoReturn:
        """Play the run that *wait* gives; whatever happens, this process doesn't go on as a second server."""
        try:
            forking.set_name("warm-run")
            forking.die_with_parent(server)
            run = wait()
            if run is None:
                os._exit(0)
            telling.speak_for(run.id)
            self._play(run)
        except BaseException:  # noqa: BLE001 - the top of a process
            traceback.print_exc()
        finally:
            os._exit(forking.BROKEN)

    def _reap(self) -> None:
        """Reap every child that ended, and every orphan of one; tell of the ends of runs."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._has_ended(ended[0], code=os.waitstatus_to_exitcode(ended[1]))

    def _has_ended(self, pid: int, *, code: int) -> None:
        if pid == self._module_server:
            self._module_server = None
            self._retire(_MODULE_SERVER_DIED, code=code)
        elif self._standby is not None and pid == self._standby.pid:
            self._dismiss_standby()  # somebody ended it
        elif run := self._runs.pop(pid, None):
            if code == forking.BROKEN:
                self._note("error", "A forked run broke before Ansible began; its standard error tells", run=run.id)
            lost = losing.reason_of(self._scratch, ident=run.ident)
            self._send(Ended(id=run.id, code=code, cold_modules=self._cold_modules, lost=lost))
            self._cold_modules = 0
            if self._closed is None and losing.is_silent(self._scratch):
                self._retire(_MODULE_SERVER_SILENT, code=None)

    def _retire(self, reason: str, *, code: int | None) -> None:
        self._fail("The fork server takes no run any more", reason=reason, exit=code)
        self._send(Retiring(reason=reason))
        self._closed = reason

    def _leave(self) -> None:
        """Say that no run is taken any more, before those under way are ended: that may take its time."""
        if self._closed is None:
            self._closed = _LEAVING
            self._send(Retiring(reason=_LEAVING))

    def _reap_and_refuse(self) -> None:
        """Reap, and refuse what was asked for before the operator knew."""
        self._reap()
        with contextlib.suppress(BlockingIOError, ProtocolError):  # there is no more, or nothing to understand
            while self._read(socket.MSG_DONTWAIT):
                self._serve_inbox()

    def _read(self, flags: int = 0) -> bool:
        """Take in what came; tell whether the operator is still there."""
        try:
            received = self._connection.recv(_CHUNK, flags)
        except ConnectionError:
            return False
        self._inbox.feed(received)
        return bool(received)

    def _send(self, message: Message) -> None:
        with contextlib.suppress(ConnectionError):  # the end of the stream is noticed where it is read
            self._connection.sendall(encode(message))

    def _note(self, level: str, message: str, *, run: int | None = None, **fields: Any) -> None:
        self._send(Note(level=level, message=message, fields=fields, run=run))

    def _fail(self, message: str, **fields: Any) -> None:
        """Have the operator log *message*, and exit with a failure in the end."""
        self._note("error", message, **fields)
        self._code = _MALFUNCTION


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """Give a socket that gets the number of each signal that came: SIGCHLD, SIGTERM. SIGINT is for the operator."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)  # noqa: FBT003 - its only way
    writing.setblocking(False)  # noqa: FBT003 - its only way
    former = {number: signal.signal(number, _ignore) for number in (signal.SIGCHLD, signal.SIGTERM)}
    if callable(signal.getsignal(signal.SIGINT)):  # not where it was ignored already, as forks inherit that
        former[signal.SIGINT] = signal.signal(signal.SIGINT, _ignore)
    previous = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in former.items():
            signal.signal(number, handler)
        reading.close()
        writing.close()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Let the call that was interrupted go on: the number was written to the socket."""


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
