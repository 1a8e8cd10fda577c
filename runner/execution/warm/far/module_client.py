"""Runs one module through the module server, for the connection plugin in ansible-core's workers.

It stands where `subprocess.Popen(...).communicate()` stands in Ansible's own plugin: the same pipes, read to their end
(a daemon that keeps one open is waited for), and the exit code that the shell around a module would have.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import socket
import subprocess
from dataclasses import dataclass
from typing import IO, Any

from . import addresses, losing, marking
from .module_child import Request, ignored_signals, own_limits, write_request
from .module_server import LET_GO
from .shell import Shells

ADDRESS: str | None = None
"""Where the module server listens; set in the play server, before it forks."""

ANSWER = 60.0
"""Seconds in which the module server says that a module starts: it may still be importing, on a busy machine."""
_BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a program."""
_CHUNK = 1 << 16
_ANSWER = 4096
_HELLO = b"run"


class Unreachable(Exception):
    """The module was not started and can go the ordinary way; the text tells why."""


class Lost(Exception):
    """The module was started, or may have been, and how it ended will never be known.

    The text tells why, as a part of a sentence about the module server.
    """


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a module ended."""

    code: int
    stdout: bytes
    stderr: bytes


def request(*, interpreter: str, script: str | None, shells: Shells, cwd: str, payload: bytes | None = None) -> Request:
    """Return the request for a module as a child of this process would run."""
    umask = os.umask(0)
    os.umask(umask)
    return Request(
        mark=os.environ.get(marking.VARIABLE, ""),
        interpreter=interpreter,
        script=script,
        shells=shells,
        environ=dict(os.environ),
        cwd=cwd,
        umask=umask,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        limits=own_limits(),
        ignored=ignored_signals(),
        blocked=sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        source=payload or b"",
    )


def run(wanted: Request, *, address: str, limit: float = ANSWER) -> Finished:
    """Run the module and return how it ended; *limit* is for the module server's first word, in seconds.

    Raises:
        Unreachable: it was not started.
        Lost: the module server died meanwhile, or can't be heard any more.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        stdout, stderr = _send(wanted, server=server, address=address, stack=stack)
        try:
            _await_first_word(server, limit=limit, address=address)
            said = _read_to_end(stdout, stderr)
            answer = _answer(server)
        except (Lost, Unreachable):
            raise
        except OSError as error:  # it may have been started: the closed connection ends it
            raise Lost(f"could not be heard any more ({error.strerror})") from error
        except BaseException:  # the task's time is up, or the worker is asked to end
            with contextlib.suppress(OSError):
                server.send(LET_GO)
            raise
    if "refused" in answer:
        raise Unreachable(answer["refused"])
    code = os.waitstatus_to_exitcode(int(answer["status"]))
    if code >= 0:
        return Finished(code=code, stdout=said[0], stderr=said[1])
    return _ended_by_signal(wanted, number=-code, stdout=said[0], stderr=said[1])


def _send(
    wanted: Request, *, server: socket.socket, address: str, stack: contextlib.ExitStack
) -> tuple[IO[bytes], IO[bytes]]:
    """Hand over request and descriptors; return the near ends of standard output and error."""
    ends: list[int] = []
    near: list[IO[bytes]] = []
    try:
        with addresses.short(address) as name:
            server.connect(name)
        ends.append(os.memfd_create("module"))
        write_request(wanted, ends[0])
        reader, writer = os.pipe()  # standard input: at its end, as Ansible leaves it
        os.close(writer)
        ends.append(reader)
        for _ in ("stdout", "stderr"):
            reader, writer = os.pipe()
            ends.append(writer)
            near.append(stack.enter_context(os.fdopen(reader, "rb", buffering=0)))
        socket.send_fds(server, [_HELLO], ends)
    except OSError as error:
        raise Unreachable(f"the module server can't be reached: {error}") from error
    finally:
        for end in ends:
            os.close(end)
    return near[0], near[1]


def _await_first_word(server: socket.socket, *, limit: float, address: str) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        if selector.select(limit):
            return
    server.shutdown(socket.SHUT_RD)  # from here on the server can't say that the module starts, and so doesn't start it
    if not server.recv(_ANSWER, socket.MSG_PEEK):
        losing.note_silence(address=address)
        raise Unreachable(f"the module server did not answer within {limit:g} s")


def _read_to_end(stdout: IO[bytes], stderr: IO[bytes]) -> tuple[bytes, bytes]:
    said = {stdout.fileno(): bytearray(), stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in (stdout, stderr):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                chunk = os.read(key.fd, _CHUNK)
                said[key.fd] += chunk
                _unregister_at_end(selector, key, chunk=chunk)
    return bytes(said[stdout.fileno()]), bytes(said[stderr.fileno()])


def _unregister_at_end(selector: selectors.BaseSelector, key: selectors.SelectorKey, *, chunk: bytes) -> None:
    if not chunk:
        selector.unregister(key.fileobj)


def _answer(server: socket.socket) -> dict[str, Any]:
    """Return the server's last word; that the module starts is its first one."""
    started = False
    while said := _received(server):
        answer: dict[str, Any] = json.loads(said)
        if "starts" not in answer:
            return answer
        started = True
    if started:
        raise Lost("ended before it told how a module ended")
    raise Unreachable("the module server died before it started the module")


def _received(server: socket.socket) -> bytes:
    try:
        return server.recv(_ANSWER)
    except ConnectionResetError:  # comes before what was received, where the server hadn't read all
        with contextlib.suppress(ConnectionResetError):
            return server.recv(_ANSWER)
        return b""


def _ended_by_signal(wanted: Request, *, number: int, stdout: bytes, stderr: bytes) -> Finished:
    """Return what the shells make of a module that a signal ended: they are asked, with a program that does so too."""
    stand_in = f"/bin/sh -c {shlex.quote(f'kill -{number} $$')}"
    try:
        ended = subprocess.run(
            wanted.shells.command(stand_in), cwd=wanted.cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError:  # there is no memory, or the module took its folder away; it has run, and isn't to run again
        return Finished(code=_BY_SIGNAL + number, stdout=stdout, stderr=stderr)
    command = " ".join(part for part in (wanted.interpreter, wanted.script) if part)
    said = ended.stderr.replace(stand_in.encode(), command.encode())
    return Finished(code=ended.returncode, stdout=stdout, stderr=stderr + said)
