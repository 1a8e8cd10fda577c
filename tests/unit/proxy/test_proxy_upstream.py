"""What `forward` and `tunnel` share: connections, and the second try after a 401."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from runner.kube.access import Access, AccessSource
from runner.proxy.dialling import dial
from runner.proxy.exchange import Exchange
from runner.proxy.request_info import parse
from runner.proxy.upstream import Upstream
from runner.settings import KubeSettings
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.waiting import eventually


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The head of an answer."""

    status: int


class Slow(AccessSource):
    """Credentials that take for ever to be read again."""

    asked = False

    async def refreshed(self, refused: Access) -> Access:
        """Wait."""
        self.asked = True
        await asyncio.Event().wait()
        return refused


async def test_a_client_that_leaves_during_a_401_leaves_no_connection(tmp_path: Path) -> None:
    """Where a request is cancelled while credentials are read again, the refused answer's connection is closed."""
    path = write_kubeconfig(tmp_path / "kubeconfig", server="http://127.0.0.1:1")
    access = Slow(settings=KubeSettings(kubeconfig=str(path)))
    exchange = Exchange(request=make_mocked_request("GET", "/api"), info=parse("GET", "/api"))
    closed: list[Answer] = []

    async def send(_: Access) -> Answer:
        return Answer(status=401)

    async def close(answer: Answer) -> None:
        closed.append(answer)

    upstream = Upstream(access=access, fence=None, observe=None)
    request = asyncio.create_task(upstream.ask(exchange, send=send, close=close))
    await eventually(lambda: access.asked)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert closed == [Answer(status=401)]


async def test_a_connection_notices_a_server_that_went_without_a_word() -> None:
    """The kernel asks a silent peer after 30 s, not after its default of two hours, and small writes leave at once."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        await dial("127.0.0.1", port=listener.getsockname()[1]) as connected,
    ):
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert not connected.getblocking()


async def test_nobody_who_listens_is_an_error() -> None:
    """Where no address takes the connection the error is an OSError."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await dial("127.0.0.1", port=port)
