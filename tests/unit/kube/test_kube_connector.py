"""Connections that callers dropped: they end with their pool, whether the server says goodbye or not."""

from __future__ import annotations

import asyncio
import queue
import select
import socket
from pathlib import Path

import aiohttp
import pytest

from runner.errors import Call
from runner.kube.client import KubeClient
from runner.settings import KubeSettings
from runner.testing.waiting import eventually
from tests.unit.proxy.upstream import Conversation, upstream

CALL = Call(verb="watch", resource="configmaps")
_BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


class Silent:
    """An API server that never answers a goodbye, and tells whether its client hung up nevertheless."""

    def __init__(self) -> None:
        self.hung_up: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def says(self, answer: bytes) -> Conversation:
        """Return the conversation that sends *answer* and then nothing."""

        def conversation(connection: socket.socket) -> None:
            connection.sendall(answer)
            poll = select.poll()
            poll.register(connection, select.POLLRDHUP)
            self.hung_up.put(bool(poll.poll(10_000)))  # TLS waits for a goodbye for three times as long

        return conversation


def client_for(kubeconfig: Path) -> KubeClient:
    """Build a client."""
    return KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig)))


@pytest.mark.parametrize("tls", [True, False])
async def test_a_watch_that_was_left_ends_with_the_client(tmp_path: Path, *, tls: bool) -> None:
    """A client that is closed leaves no connection of an answer that was not read to its end."""
    silent = Silent()
    with upstream(tmp_path, silent.says(_BEGUN), tls=tls) as stub:
        async with client_for(stub.kubeconfig(tmp_path / "kubeconfig")) as client:
            timeout = aiohttp.ClientTimeout(total=None)
            async with client.stream("GET", "/api/v1/configmaps", call=CALL, timeout=timeout) as answer:
                assert await answer.content.readexactly(2) == b"{}"
        assert await asyncio.to_thread(silent.hung_up.get, timeout=30)


@pytest.mark.parametrize("tls", [True, False])
async def test_a_cancelled_request_ends_with_the_client(tmp_path: Path, *, tls: bool) -> None:
    """A client that is closed leaves no connection of a request that was cancelled while its answer was awaited."""
    silent = Silent()
    with upstream(tmp_path, silent.says(b""), tls=tls) as stub:
        async with client_for(stub.kubeconfig(tmp_path / "kubeconfig")) as client:
            request = asyncio.create_task(client.request("GET", "/api/v1/configmaps", call=CALL))
            await eventually(lambda: stub.heads)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
        assert await asyncio.to_thread(silent.hung_up.get, timeout=30)
