"""A real fork server with small plays instead of Ansible: run by test_warm_server with the number of a descriptor.

A run's arguments say what its process does; `Start.scratch` says how the server is prepared.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from runner.execution.warm.far import forking, marking, server, telling
from runner.execution.warm.far.protocol import Note, Run, Start

_grown: list[bytearray] = []


def prepare(start: Start) -> server.Prepared:
    """Prepare as the last part of `scratch` says."""
    match Path(start.scratch).name:
        case "fails":
            raise ValueError("no such\ncollection")
        case "threads":
            threading.Thread(target=time.sleep, args=(60,), name="a-library", daemon=True).start()
        case "hangs":
            Path(start.scratch).touch()
            time.sleep(600)
        case "modules":
            if (pid := os.fork()) == 0:
                telling.tell("what the server of modules says", reason="cold")
                signal.pause()
            return server.Prepared(core="2.0", module_server=pid)
    return server.Prepared(
        core="2.0", preloaded=("kubernetes",), notes=[Note(level="info", message="A library is missing")]
    )


_stood_by: list[int] = []


def stand_by() -> None:
    """Remember which process stood by."""
    _stood_by.append(os.getpid())


def play(run: Run) -> NoReturn:
    """Do what the arguments say."""
    if run.argv[0] == "raise":
        raise RuntimeError("ours")
    if run.argv[0] == "tell":
        message = telling.COLD_MODULE if run.argv[1] == "cold module" else "what a run says"
        telling.tell(message, reason=run.argv[1], data="x" * int(run.argv[2]))
        os._exit(0)
    forking.become_child(mark=run.ident, environ=run.environ, cwd=run.cwd)
    forking.run_and_leave(lambda: _do(list(run.argv)))


def _do(argv: list[str]) -> None:
    match argv:
        case ["exit", code]:
            sys.exit(int(code))
        case ["die", number]:
            os.kill(os.getpid(), int(number))
        case ["wait", path]:
            while not Path(path).exists():
                time.sleep(0.01)
        case ["grow", megabytes]:
            _grown.append(bytearray(os.urandom(1 << 20) * int(megabytes)))
        case ["stood", path]:
            _tell(path, f"{os.getpid()} {_stood_by}")
        case ["look", path]:
            _tell(path, f"{Path.cwd()} {os.environ['COLOUR']} {len(list(Path('/proc/self/fd').iterdir()))}")
        case ["family", path, *stubborn]:
            _family(path, stubborn=bool(stubborn))


def _family(path: str, *, stubborn: bool) -> None:
    """Leave a child in a session of its own, and an orphan; tell all three ids; wait for a signal."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        orphan = os.fork()
        if orphan == 0:
            signal.pause()
        os.write(writing, str(orphan).encode())
        os._exit(0)
    os.wait()
    orphan = int(os.read(reading, 20))
    child = os.fork()
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if child == 0:
        os.setsid()
        while True:
            signal.pause()
    _tell(path, f"{os.getpid()} {child} {orphan}")
    while True:
        signal.pause()


def _tell(path: str, text: str) -> None:
    Path(f"{path}.new").write_text(text)
    Path(f"{path}.new").rename(path)


if __name__ == "__main__":
    marking.remember()
    forking.die_with_parent(os.getppid())
    forking.adopt_orphans()
    connection = socket.socket(fileno=int(sys.argv[1]))
    waits = stand_by if "standby" in sys.argv else None
    sys.exit(server.Server(connection, prepare=prepare, play=play, stand_by=waits, grace=0.5).serve())
