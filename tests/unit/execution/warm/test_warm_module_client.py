"""A module server that isn't there, or dies, is told apart."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from runner.execution.warm.far import module_client
from runner.execution.warm.far.module_child import Request
from runner.execution.warm.far.module_client import Lost, Unreachable
from runner.execution.warm.far.shell import Shells


def wanted(cwd: Path) -> Request:
    """Return a request for a module that nobody will run."""
    shells = Shells(outer="/bin/sh", inner="/bin/sh")
    return module_client.request(interpreter=sys.executable, script=None, shells=shells, cwd=str(cwd), payload=b"x")


def answering(path: Path, answer: bytes) -> threading.Thread:
    """Serve one request at *path* with *answer*."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            _, descriptors, _, _ = socket.recv_fds(connection, 64, 4)
            for descriptor in descriptors:
                socket.close(descriptor)
            for line in answer.splitlines():
                connection.send(line)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_without_a_server_the_module_goes_the_ordinary_way(tmp_path: Path) -> None:
    """A server that can't be reached has started nothing."""
    with pytest.raises(Unreachable):
        module_client.run(wanted(tmp_path), address=str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (b'{"refused": "the reason"}', Unreachable, "the reason"),
        (b'{"starts": true}\n{"refused": "the reason"}', Unreachable, "the reason"),
        (b"", Unreachable, "before it started"),
        (b'{"starts": true}', Lost, "died"),
    ],
    ids=["refuses", "cannot start it", "dies before it starts it", "dies"],
)
def test_a_server_that_does_not_run_the_module_says_so(
    tmp_path: Path, answer: bytes, error: type[Exception], text: str
) -> None:
    """A module goes the ordinary way unless it may have run."""
    thread = answering(tmp_path / "socket", answer)
    with pytest.raises(error, match=text):
        module_client.run(wanted(tmp_path), address=str(tmp_path / "socket"))
    thread.join()


def test_a_server_that_says_nothing_is_told_as_hung(tmp_path: Path) -> None:
    """After a while the run is lost: whether the module starts some day nobody knows."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        with pytest.raises(Lost, match=r"did not answer within 0\.1 s") as caught:
            module_client.run(wanted(tmp_path), address=str(tmp_path / "socket"), limit=0.1)
    assert caught.value.loss.hung


def test_the_end_of_a_module_is_what_a_shell_makes_of_it(tmp_path: Path) -> None:
    """An exit code is that of the module; a signal is told as the shell tells it."""
    thread = answering(tmp_path / "socket", b'{"status": 768}')
    ended = module_client.run(wanted(tmp_path), address=str(tmp_path / "socket"))
    thread.join()
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    thread = answering(tmp_path / "other", b'{"status": 9}')
    killed = module_client.run(wanted(tmp_path), address=str(tmp_path / "other"))
    thread.join()
    assert killed.code == 137
    assert b"Killed" in killed.stderr
