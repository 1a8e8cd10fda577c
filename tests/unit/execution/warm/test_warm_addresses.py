"""Sockets in folders of any length of path."""

from __future__ import annotations

import socket
from pathlib import Path

from runner.execution.warm.far.addresses import short


def test_a_socket_far_down_can_be_bound_and_reached(tmp_path: Path) -> None:
    """The path of a user's TMPDIR may be longer than the 108 bytes of a socket's name; no descriptor is left."""
    folder = tmp_path / ("deep" * 50)
    folder.mkdir()
    address = str(folder / "socket")
    before = len(list(Path("/proc/self/fd").iterdir()))

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        with short(address) as name:
            listener.bind(name)
        listener.listen()
        with short(address) as name:
            client.connect(name)
        accepted, _ = listener.accept()
        with accepted:
            client.sendall(b"x")
            assert accepted.recv(1) == b"x"
    assert Path(address).is_socket()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
