"""A module server that isn't there, or dies, is told apart."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from runner.execution.warm.far import losing, module_client
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
        (b'{"starts": true}', Lost, "ended before it told"),
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


@pytest.mark.parametrize("accepted", [False, True])
def test_a_module_whose_server_says_nothing_goes_the_ordinary_way(tmp_path: Path, *, accepted: bool) -> None:
    """After a while; the server can't say any more that the module starts, and so doesn't start it; it is noted."""
    path, ended, said = tmp_path / "socket", threading.Event(), list[object]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()

        def late() -> None:
            if not accepted:
                ended.wait()
            with listener.accept()[0] as connection:
                ended.wait()
                try:
                    said.append(connection.send(b'{"starts": true}'))
                except OSError as error:
                    said.append(type(error))

        thread = threading.Thread(target=late)
        thread.start()
        with pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
            module_client.run(wanted(tmp_path), address=str(path), limit=0.1)
        assert losing.is_silent(str(tmp_path))
        ended.set()
        thread.join()
    assert said == [BrokenPipeError]


def test_a_word_that_comes_at_the_last_moment_is_heard(tmp_path: Path) -> None:
    """A module that starts is never started again."""
    thread = answering(tmp_path / "socket", b'{"starts": true}\n{"status": 0}')
    ended = module_client.run(wanted(tmp_path), address=str(tmp_path / "socket"), limit=60.0)
    thread.join()
    assert ended.code == 0
    assert not losing.is_silent(str(tmp_path))


def test_the_end_by_a_signal_is_told_without_a_folder_to_ask_shells_in(tmp_path: Path) -> None:
    """A module that removed its folder has run all the same."""
    gone = tmp_path / "gone"
    gone.mkdir()
    thread = answering(tmp_path / "socket", b'{"status": 9}')
    request = wanted(gone)
    gone.rmdir()
    ended = module_client.run(request, address=str(tmp_path / "socket"))
    thread.join()
    assert ended.code == 137


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
