"""Stands in for the far side of warm runs: speaks its protocol, and runs a shell line in the place of a play.

`STAND_IN` in its environment makes it misbehave. A run's shell line is the last of its arguments.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from runner.execution.warm.far.protocol import (
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

MOOD = os.environ.get("STAND_IN", "")


class StandIn:
    """One connection."""

    def __init__(self, descriptor: int) -> None:
        """Serve the operator at *descriptor*."""
        self.connection = socket.socket(fileno=descriptor)
        self.connection.set_inheritable(False)
        self.runs: dict[int, Run] = {}
        self.draining = False
        self.inbox = Inbox()
        self.wake, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def send(self, message: Message) -> None:
        """Tell the operator."""
        self.connection.sendall(encode(message))

    def serve(self) -> int:
        """Serve until there is nothing to do."""
        while not self.draining or self.runs:
            ready, _, _ = select.select([self.connection.fileno(), self.wake], [], [])
            if self.wake in ready:
                os.read(self.wake, 1000)
                self.reap()
            if self.connection.fileno() in ready:
                received = self.connection.recv(1 << 20)
                if not received:
                    return 0
                self.inbox.feed(received)
                while (message := self.inbox.next()) is not None:
                    self.take(message)
        return 0

    def take(self, message: Message) -> None:
        """Do what the operator says."""
        match message:
            case Start():
                self.begin(message)
            case Drain():
                self.draining = True
            case Run():
                self.play(message)

    def begin(self, start: Start) -> None:
        """Get ready, or don't."""
        match MOOD:
            case "exits":
                print("no such library", file=sys.stderr, flush=True)
                sys.exit(3)
            case "trouble" if (trouble := Path(os.environ["HOME"]) / "trouble").exists():
                print(trouble.read_text(encoding="utf-8"), file=sys.stderr, flush=True)
                sys.exit(3)
            case "garbage":
                self.connection.sendall(b"what?\n")
                time.sleep(1000)
            case "silent":
                time.sleep(1000)
            case "chatty":
                for number in range(1000):
                    print(f"line {number} of hunter2hunter2", flush=True)
        self.send(Note(level="warning", message="hello hunter2hunter2", fields={"roles": list(start.roles)}))
        self.send(Ready(pid=os.getpid(), core="2.19.0", preloaded=["boto3"], seconds=0.5))

    def play(self, run: Run) -> None:
        """Fork *run*."""
        match MOOD:
            case "refuses":
                self.send(Refused(id=run.id, reason="not today"))
                return
            case "mute":
                return
            case "loses":
                self.send(Started(id=run.id, pid=os.getpid()))
                self.send(Ended(id=run.id, code=-9, lost="ended before it told how a module ended"))
                return
            case "retires":
                self.send(Refused(id=run.id, reason="tired"))
                self.send(Retiring(reason="tired of it"))
                self.draining = True
                return
            case "hangs up":
                self.send(Refused(id=run.id, reason="good bye"))
                self.connection.shutdown(socket.SHUT_WR)
                time.sleep(1000)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.chdir(run.cwd)
            os.dup2(os.open(run.complaints, os.O_WRONLY | os.O_APPEND), 2)
            os.execve("/bin/sh", ["/bin/sh", "-c", run.argv[-1]], dict(run.environ))  # noqa: S606 - it is a shell
        self.runs[pid] = run
        self.send(Started(id=run.id, pid=pid))
        if MOOD == "notes":
            self.send(Note(level="warning", message="a module broke", run=run.id))

    def reap(self) -> None:
        """Tell of the ends of runs."""
        for pid in list(self.runs):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                cold = 3 if MOOD == "cold modules" else 0
                self.send(Ended(id=self.runs.pop(pid).id, code=code, cold_modules=cold))


def main() -> int:
    """Serve; see `far.__main__`."""
    return StandIn(int(sys.argv[2])).serve()


if __name__ == "__main__":
    sys.exit(main())
