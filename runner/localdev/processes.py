"""Processes that outlive the command that started them: spawn, watch, end.

`plane` starts each component through `spawn`. A process is known by its pid together with its start time, and is
signalled through a pidfd, so that a stranger that got the same pid is never hit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.errors import LocalPlaneError
from runner.localdev.progress import tail

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_POLL = 0.03


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of ours, perhaps started by an earlier command."""

    name: str
    pid: int
    started: str
    """Boot and tick of its start: with the pid, its identity."""
    log: Path

    def alive(self) -> bool:
        """Tell whether it runs; one that ended and waits for its parent doesn't."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # our own child: let it go
        return _stat(self.pid) == ("running", self.started)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where the process is gone."""
        with self._handle() as handle:
            if handle is not None:
                signal.pidfd_send_signal(handle, number)

    def end(self, *, grace: float = 10.0) -> None:
        """Ask it to end, and make it end after *grace* seconds."""
        if not self._signal_and_wait(signal.SIGTERM, seconds=grace):
            self.kill()

    def kill(self) -> None:
        """Make it end at once."""
        self._signal_and_wait(signal.SIGKILL, seconds=30.0)

    def _signal_and_wait(self, number: signal.Signals, *, seconds: float) -> bool:
        """Send a signal and tell whether the process is gone within *seconds*."""
        with self._handle() as handle:
            if handle is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)
                poller = select.poll()
                poller.register(handle, select.POLLIN)
                poller.poll(seconds * 1000)
        return not self.alive()

    @contextlib.contextmanager
    def _handle(self) -> Iterator[int | None]:
        """Give a pidfd that is surely this process, None where it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            yield handle if _stat(self.pid)[1] == self.started else None
        finally:
            os.close(handle)


def is_running(pid: int) -> bool:
    """Tell whether any process has this pid, and is more than the remains of one that ended."""
    return _stat(pid)[0] == "running"


def _stat(pid: int) -> tuple[str, str]:
    """Return `running`, `ended` (but not yet collected by its parent) or `gone`, and when the process started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return ("ended" if fields[0] in {"Z", "X"} else "running"), f"{_BOOT.read_text().strip()}/{fields[19]}"
    except (OSError, IndexError):
        return "gone", ""


def spawn(name: str, *, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> Process:
    """Start a program in a session of its own, with its output appended to *log*.

    Raises:
        LocalPlaneError: the program can't be started.
    """
    if not _BOOT.exists():
        raise LocalPlaneError("the local control plane needs Linux (its /proc): use a Linux machine, a VM or WSL")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawn(
            argv[0],
            list(argv),
            dict(environ),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE),  # Python ignores the last
        )
    except OSError as error:
        raise LocalPlaneError(
            f"cannot start {name} ({argv[0]}): {error.strerror}; is it a program for this machine?"
        ) from error
    return Process(name=name, pid=pid, started=_stat(pid)[1], log=log)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One condition of being ready, and the process whose log explains why it isn't met."""

    what: str
    process: str
    met: Callable[[], bool]


def wait_ready(checks: Sequence[Check], *, processes: Mapping[str, Process], limit: float) -> None:
    """Return when all *checks* are met.

    Raises:
        LocalPlaneError: a process ended, or *limit* seconds are over; the message has its log's path and end.
    """
    deadline = time.monotonic() + limit
    pending = list(checks)
    while pending:
        for process in processes.values():
            if not process.alive():
                raise LocalPlaneError(f"{process.name} ended while it was starting. {_log_of(process)}")
        pending = [check for check in pending if not check.met()]
        if pending and time.monotonic() > deadline:
            first = pending[0]
            missing = ", ".join(check.what for check in pending)
            raise LocalPlaneError(f"not ready after {limit:.0f} s: {missing}. {_log_of(processes[first.process])}")
        if pending:
            time.sleep(_POLL)


def _log_of(process: Process) -> str:
    return f"The log is {process.log}; it ends with:\n{tail(process.log)}"
