"""The module server runs each module once at most, ends those that nobody waits for, and lives on whatever happens."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from runner.execution.warm.far import module_client
from runner.execution.warm.far.module_child import Request
from runner.execution.warm.far.module_client import Finished, Lost, Unreachable
from runner.execution.warm.far.module_server import call_ready
from runner.execution.warm.far.shell import Shells

SCRIPT = Path(__file__).parent / "scripts" / "module_server.py"
LIMIT = 20
"""Seconds; more means that it hangs."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A module server and its folder."""

    pid: int
    folder: Path

    def request(self, source: str) -> Request:
        """Return a request for a module with *source*."""
        shells = Shells(outer="/bin/sh", inner="/bin/sh")
        wanted = module_client.request(
            interpreter=sys.executable, script=None, shells=shells, cwd=str(self.folder), payload=source.encode()
        )
        return replace(wanted, mark="7")

    def run(self, source: str) -> Finished:
        """Run a module with *source*."""
        return module_client.run(self.request(source), address=str(self.folder / "modules.socket"))

    def children(self) -> list[str]:
        """Return the children of the server, zombies too."""
        return Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()


@contextlib.contextmanager
def served(folder: Path, *, before: str = "") -> Iterator[Served]:
    """Serve; *before* is done in the process that the module server is forked from."""
    command = [sys.executable, "-P", str(SCRIPT), str(folder), before]
    environ = {**os.environ, "ANSIBLE_OPERATOR_RUN": "0" * 19}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Served(pid=int(process.stdout.readline()), folder=folder)
        finally:
            process.stdin.close()


def holds(condition: str, *, values: dict[str, object]) -> None:
    """Wait until the expression is true."""
    until = time.monotonic() + LIMIT
    while not eval(condition, dict(values)):  # noqa: S307 - the test's own
        assert time.monotonic() < until, condition
        time.sleep(0.01)


def ticks(pid: int) -> int:
    """Return the CPU time of a process, in hundredths of a second."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]))


def in_fork(work: Callable[[], object]) -> int:
    """Do *work* in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def kill(pid: int) -> None:
    """Kill a child of this process and wait for its end."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_module_ends_as_it_says(tmp_path: Path) -> None:
    """What it prints and its exit code arrive."""
    with served(tmp_path) as server:
        assert server.run("print('x'); raise SystemExit(3)") == Finished(code=3, stdout=b"x\n", stderr=b"")


@pytest.mark.parametrize("call", ["pidfd_open", "register", "modify"])
def test_a_module_that_cannot_be_watched_is_ended_and_not_refused(tmp_path: Path, call: str) -> None:
    """Whatever fails once a module is forked ends it, and its worker doesn't start it again."""
    before = f"""
import os, selectors
real_fork = forking.fork
def fork():
    pid = real_fork()
    if pid and len(forked) == 1:
        def fails(*args):
            restore()
            raise OSError(28, "no room")
        owner = os if {call!r} == "pidfd_open" else selectors.EpollSelector
        real = getattr(owner, {call!r})
        restore = lambda: setattr(owner, {call!r}, real)
        setattr(owner, {call!r}, fails)
    forked.append(pid)
    return pid
forked = []
forking.fork = fork
"""
    with served(tmp_path, before=before) as server:
        with pytest.raises(Lost):
            server.run("import signal; signal.pause()")
        assert server.run("print(1)").stdout == b"1\n"
        assert server.children() == []


def test_where_processes_cannot_be_watched_modules_go_the_ordinary_way(tmp_path: Path) -> None:
    """Without pidfd_open nothing is started here."""
    ran = tmp_path / "ran"
    with (
        served(tmp_path, before="import os; del os.pidfd_open") as server,
        pytest.raises(Unreachable, match="pidfd_open"),
    ):
        server.run(f"open({str(ran)!r}, 'w')")
    assert not ran.exists()


def test_a_module_is_started_for_nobody_else_than_a_worker_that_waits(tmp_path: Path) -> None:
    """The request of a worker that was killed right after it sent it starts nothing."""
    forks, taken, go = (tmp_path / name for name in ("forks", "taken", "go"))
    wait = f"""
import pathlib, time
def behind(self, shells, environ, **_):
    pathlib.Path({str(taken)!r}).touch()
    while not pathlib.Path({str(go)!r}).exists():
        time.sleep(0.01)
    return environ
shell.ShellEnvironments.behind = behind
real = forking.fork
forking.fork = lambda: print("fork", file=open({str(forks)!r}, "a")) or real()
"""
    with served(tmp_path, before=wait) as server:
        worker = in_fork(lambda: server.run("pass"))
        holds("path.exists()", values={"path": taken})
        kill(worker)
        go.touch()
        assert server.run("print(1)").stdout == b"1\n"
    assert forks.read_text(encoding="ascii").split() == ["fork"] * 2  # the server, and the second module


def test_a_module_that_has_yet_to_enter_its_group_is_ended_with_its_worker(tmp_path: Path) -> None:
    """A signal reaches a module from its first moment on."""
    ran, forked = tmp_path / "ran", tmp_path / "forked"
    late = f"""
import os, pathlib, signal, time
real = os.setpgid
def late(*args):
    pathlib.Path({str(forked)!r}).touch()
    while signal.SIGTERM not in signal.sigpending():  # it is let through when the process is a module's
        time.sleep(0.01)
    real(*args)
os.setpgid = late
"""
    with served(tmp_path, before=late) as server:
        worker = in_fork(lambda: server.run(f"open({str(ran)!r}, 'w')"))
        holds("path.exists()", values={"path": forked})
        kill(worker)
        holds("children() == []", values={"children": server.children})
    assert not ran.exists()


def test_an_event_of_a_descriptor_that_was_closed_meanwhile_is_not_taken_for_its_successor() -> None:
    """Of three that are ready at once, the second gets the number of one that the first closed: it is not called."""
    called: list[str] = []
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(3)]
        for near, far in pairs:
            stack.enter_context(near)
            stack.enter_context(far).send(b"x")

        def replaces(own: int) -> None:
            for other in set(range(3)) - {own}:
                number = pairs[other][0].fileno()
                selector.unregister(number)
                pairs[other][0].close()
                successor = stack.enter_context(socket.socket())
                assert successor.fileno() == number
                selector.register(successor, selectors.EVENT_READ, lambda: called.append("successor"))
            called.append("first")

        for own, (near, _) in enumerate(pairs):
            selector.register(near, selectors.EVENT_READ, partial(replaces, own))
        call_ready(selector)
    assert called == ["first"]


def test_no_zombie_stays(tmp_path: Path) -> None:
    """A module server that has nothing to do has no child, dead or alive."""
    with served(tmp_path) as server:
        assert server.children() == []
        server.run("print(1)")
        holds("children() == []", values={"children": server.children})


def test_a_module_may_lead_a_session(tmp_path: Path) -> None:
    """A module leads neither its group nor its session, so that it may begin one."""
    with served(tmp_path) as server:
        assert server.run("import os; os.setsid(); print(1)").stdout == b"1\n"


def test_modules_end_with_their_server(tmp_path: Path) -> None:
    """A server that is killed leaves no module behind, and its worker learns that it will never know the end."""
    noted = tmp_path / "noted"
    with served(tmp_path) as server:

        def end() -> None:
            holds("path.exists() and path.read_text()", values={"path": noted})
            os.kill(server.pid, signal.SIGKILL)

        threading.Thread(target=end).start()
        began = time.monotonic()
        with pytest.raises(Lost):
            server.run(f"import os, time; open({str(noted)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
        assert time.monotonic() - began < LIMIT
    holds("not exists(path)", values={"exists": os.path.exists, "path": f"/proc/{noted.read_text()}/fd/0"})


def test_ignored_and_blocked_signals_are_those_of_the_worker(tmp_path: Path) -> None:
    """A module ignores and blocks what a program ignores and blocks that the worker starts."""
    look = "print(*(l for l in open('/proc/self/status') if l.startswith(('SigIgn', 'SigBlk'))))"
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with served(
            tmp_path,
            before="import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
            "signal.signal(signal.SIGUSR2, signal.SIG_IGN); forking._inherited_mask = set()",
        ) as server:
            warm = server.run(look).stdout
        cold = subprocess.run([sys.executable, "-c", look], stdout=subprocess.PIPE, check=True).stdout
    finally:
        signal.signal(signal.SIGHUP, former)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert warm == cold


def test_without_descriptors_the_server_waits_instead_of_looking_all_the_time(tmp_path: Path) -> None:
    """A server that can't accept connections uses no CPU for them, and accepts them once it can."""
    low = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (24, r.getrlimit(r.RLIMIT_NOFILE)[1]))"
    with served(tmp_path, before=low) as server:
        assert server.run("print(1)").stdout == b"1\n"
        with contextlib.ExitStack() as crowd:
            for _ in range(60):
                one = crowd.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                one.connect(str(tmp_path / "modules.socket"))
            before = ticks(server.pid)
            time.sleep(0.5)
            assert ticks(server.pid) - before < 10  # of 50
        assert server.run("print(1)").stdout == b"1\n"


def test_a_request_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    """Where descriptors didn't arrive, as the server has too many already, the module goes the ordinary way."""
    with served(tmp_path) as server, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as worker:
        worker.connect(str(tmp_path / "modules.socket"))
        socket.send_fds(worker, [b"run"], [0, 0])
        assert b"refused" in worker.recv(4096)
        assert server.run("print(1)").stdout == b"1\n"


def test_each_module_that_is_refused_is_told_with_the_reason(tmp_path: Path) -> None:
    """The play server counts them, and has each reason logged once."""
    told = tmp_path / "told"
    tell = f"""
import itertools
telling.tell = lambda message, *, reason: print(message, reason, sep=": ", file=open({str(told)!r}, "a"))
reasons = itertools.cycle(["one", "other"])
def refuse(*args, **keywords):
    raise payload.NoPayload if next(reasons) == "one" else ValueError
payload.Payloads.code = refuse
"""
    with served(tmp_path, before=tell) as server:
        for _ in range(4):
            with pytest.raises(Unreachable):
                server.run("print(1)")
    first, second, *more = told.read_text(encoding="utf-8").splitlines()
    assert more == [first, second]
    assert first.startswith("Modules are started cold: it is no payload")
    assert second.startswith("Modules are started cold: the module server can't do it: ValueError")
