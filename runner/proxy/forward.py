"""The innermost handler: sends a request on to the API server with the operator's rights, and the answer back.

Bytes are passed as they come, both ways: path, query and headers keep their form, nothing is decompressed, and a watch
event or a line of a log goes to the client at once. What changes is what belongs to one connection alone (hop-by-hop
headers, Host), and the client's Authorization, which becomes the operator's.

`Impersonate-*` headers are passed on, as the peer does: they can't add a right, as the API server lets only those act
as somebody else to whom that is granted, and without them a request that was to run with less rights would run with all
of the operator's.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from runner.kube.access import Access, AccessSource
from runner.kube.client import Observe
from runner.kube.connector import Connector
from runner.proxy.dialling import make_socket
from runner.proxy.exchange import Exchange
from runner.proxy.fence import Fence
from runner.proxy.upstream import FAILURES, Upstream, answer_for, end_to_end

_OURS = frozenset({"authorization", "expect", "host"})
"""Of a request: replaced, answered by the server, or made by the client library."""
_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that the client library adds where there is none."""
_KEPT_BODY = 1024 * 1024
"""Bytes of a body that is read whole before it is sent, so that it can be sent again."""
_WATCHED_ANSWER = 8 * 1024 * 1024
_LONGEST_HEADER = 256 * 1024
_MOST_HEADERS = 1000
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError)


class Forward:
    """A `Handler`; one pool of connections for all requests, without a limit, as a watch holds one while it lives."""

    def __init__(self, *, access: AccessSource, fence: Fence | None = None, observe: Observe | None = None) -> None:
        """Connect nowhere yet.

        Args:
            access: where the API server is, and with which rights.
            fence: asked right before a request is sent.
            observe: told of each answer, for metrics, as `KubeClient` does.
        """
        self._access = access
        self._upstream = Upstream(access=access, fence=fence, observe=observe)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        """Send *exchange* on and return the answer, which the client has by then where it was streamed."""
        await _keep_small_body(exchange)
        repeatable = exchange.body is not None or not exchange.request.can_read_body
        try:
            answer = await self._upstream.ask(
                exchange, send=partial(self._send, exchange), close=_close, repeatable=repeatable
            )
        except FAILURES as error:
            return answer_for(error, exchange=exchange)
        try:
            return await (_watched if exchange.answer_watchers else _streamed)(answer, exchange=exchange)
        finally:
            answer.close()  # where it was read to its end its connection is in the pool again, and this does nothing

    async def _send(self, exchange: Exchange, access: Access) -> aiohttp.ClientResponse:
        request = exchange.request
        headers = _request_headers(exchange)
        headers.update(access.headers)
        return await self._connections().request(
            request.method,
            access.url(request.raw_path),
            data=_payload(exchange),
            headers=headers,
            ssl=access.ssl or True,
            server_hostname=access.server_hostname,
            proxy=access.proxy,
            proxy_headers=access.proxy_headers,
            allow_redirects=False,
            trace_request_ctx=exchange,
        )

    async def _last_look(self, _: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        """Raise where a request may not leave any more; the connection stands, and nothing was written to it yet."""
        self._upstream.last_look(context.trace_request_ctx)

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            last_look = aiohttp.TraceConfig()
            last_look.on_request_headers_sent.append(self._last_look)
            self._session = aiohttp.ClientSession(
                connector=Connector(socket_factory=make_socket),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._access.connect_timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_ADDED,
                auto_decompress=False,
                trust_env=False,  # `Access.proxy` has what the environment says
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
                max_headers=_MOST_HEADERS,
                trace_configs=[last_look],
            )
        return self._session


async def _close(answer: aiohttp.ClientResponse) -> None:
    answer.close()


async def _keep_small_body(exchange: Exchange) -> None:
    request = exchange.request
    if exchange.body is None and request.can_read_body and 0 < (request.content_length or 0) <= _KEPT_BODY:
        await exchange.read()


def _payload(exchange: Exchange) -> Any:
    if exchange.body is None:
        return exchange.request.content if exchange.request.can_read_body else None
    return exchange.body if len(exchange.body) <= _KEPT_BODY else io.BytesIO(exchange.body)  # sent in pieces


def _request_headers(exchange: Exchange) -> CIMultiDict[str]:
    headers = end_to_end(exchange.request.headers, drop=_OURS)
    if exchange.body is not None:
        headers.popall("Content-Length", None)
    if exchange.content_type is not None:
        headers.popall("Content-Encoding", None)
        headers["Content-Type"] = exchange.content_type
    if exchange.answer_watchers:
        headers["Accept-Encoding"] = "identity"
    return headers


async def _streamed(answer: aiohttp.ClientResponse, *, exchange: Exchange, head: bytes = b"") -> web.StreamResponse:
    """Pass the answer on, piece by piece as it comes; *head* is what was read of it before."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=end_to_end(answer.headers))
    await response.prepare(exchange.request)
    try:
        async for chunk in _pieces(answer, head=head):
            await response.write(chunk)
    except _BROKEN as error:
        # either side is gone; an answer that was cut short must not look complete
        raise ConnectionResetError("the answer ended before its end") from error
    await response.write_eof()
    return response


async def _pieces(answer: aiohttp.ClientResponse, *, head: bytes) -> AsyncIterator[bytes]:
    if head:
        yield head
    async for chunk in answer.content.iter_any():
        yield chunk


async def _watched(answer: aiohttp.ClientResponse, *, exchange: Exchange) -> web.StreamResponse:
    """Show the whole answer to those who watch it, then pass it on; one that is too large is shown without its body."""
    body = bytearray()
    try:
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > _WATCHED_ANSWER:
                break
    except _BROKEN as error:
        return answer_for(error, exchange=exchange)
    readable = len(body) <= _WATCHED_ANSWER and answer.headers.get("Content-Encoding", "identity") == "identity"
    for watcher in exchange.answer_watchers:
        watcher(answer.status, answer.headers, bytes(body) if readable else b"")
    return await _streamed(answer, exchange=exchange, head=bytes(body))
