"""A stub of an API server that upgrades: on a free port, a thread a connection, blocking and thus easy to follow."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runner.localdev.pki import Authority

Conversation = Callable[[socket.socket], None]
"""What one connection is answered with, from behind the request's head on."""
SWITCHING = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: SPDY/3.1\r\nConnection: Upgrade\r\nX-Odd:  two  spaces\r\n\r\n"
)


@dataclass(kw_only=True)
class Upstream:
    """A listening stub and what it has seen."""

    port: int
    authority: Path
    conversations: Sequence[Conversation]
    context: ssl.SSLContext | None
    """None: without TLS."""
    heads: list[bytes] = field(default_factory=list)
    ended: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    """One entry for each conversation that is over: empty, or the error's name."""

    def kubeconfig(self, path: Path, *, user: dict[str, Any] | None = None, prefix: str = "", proxy: str = "") -> Path:
        """Write a kubeconfig that trusts the stub."""
        scheme = "https" if self.context else "http"
        server = f"{scheme}://127.0.0.1:{self.port}{prefix}"
        cluster = {"server": server, "certificate-authority": str(self.authority)}
        if proxy:
            cluster["proxy-url"] = proxy
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stub", "cluster": cluster}],
            "users": [{"name": "stub", "user": user or {"token": "operators-own"}}],
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
            "current-context": "stub",
        }
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        path.chmod(0o600)
        return path


@contextlib.contextmanager
def upstream(folder: Path, *conversations: Conversation, tls: bool = True) -> Iterator[Upstream]:
    """Listen during the block; the connections get the *conversations* in turn, and the last of them for ever."""
    Authority(folder).issue("server", common_name="stub", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stub = Upstream(
            port=listener.getsockname()[1],
            authority=folder / "ca.crt",
            conversations=conversations,
            context=context if tls else None,
        )
        threads: list[threading.Thread] = []
        serving = threading.Thread(target=_serve, args=(listener, stub, threads))
        serving.start()
        try:
            yield stub
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for thread in (serving, *threads):
                thread.join(timeout=30)
            assert not any(thread.is_alive() for thread in threads), "a connection to the API server was left open"


def _serve(listener: socket.socket, stub: Upstream, threads: list[threading.Thread]) -> None:
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        conversation = stub.conversations[min(len(threads), len(stub.conversations) - 1)]
        threads.append(threading.Thread(target=_talk, args=(plain, stub, conversation)))
        threads[-1].start()


def _talk(plain: socket.socket, stub: Upstream, conversation: Conversation) -> None:
    with contextlib.closing(plain):
        try:
            _converse(plain, stub, conversation)
        except OSError as error:
            stub.ended.put(type(error).__name__)
        else:
            stub.ended.put("")


def _converse(plain: socket.socket, stub: Upstream, conversation: Conversation) -> None:
    connection = plain if stub.context is None else stub.context.wrap_socket(plain, server_side=True)
    with contextlib.closing(connection):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            if not byte:
                return
            head += byte
        stub.heads.append(head)
        conversation(connection)
        if isinstance(connection, ssl.SSLSocket):
            with contextlib.suppress(OSError):  # the proxy may have gone first
                connection.unwrap()


def says(*parts: bytes) -> Conversation:
    """Return a conversation that sends *parts* and closes."""

    def conversation(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)

    return conversation


def echo(connection: socket.socket) -> None:
    """Upgrade, and send back whatever comes until the other side ends."""
    connection.sendall(SWITCHING)
    while data := connection.recv(65536):
        connection.sendall(data)


def count(connection: socket.socket) -> None:
    """Upgrade, read to the end, and only then answer with how much it was."""
    connection.sendall(SWITCHING)
    total = 0
    while data := connection.recv(65536):
        total += len(data)
    connection.sendall(f"{total} bytes".encode())
