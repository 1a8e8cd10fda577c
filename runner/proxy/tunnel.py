"""Requests that upgrade their connection, such as exec, attach and port-forward: passed through byte for byte.

The last handler of the proxy for them, beside `forward`. The request's head goes to the API server over a connection of
its own, with the operator's credentials in the place of the client's; a 101 goes back as it came, and from then on the
two connections are one. Any other answer goes back as an ordinary one. Nothing of the new protocol is parsed, and what
one end doesn't take isn't read from the other.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial

from aiohttp import encode_basic_auth, hdrs, web
from yarl import URL

from runner.kube.access import Access, AccessSource
from runner.kube.client import Observe
from runner.kube.documents import reason_of
from runner.proxy.answers import HEAD_END, Answer, pass_body, read_answer
from runner.proxy.connection import TakenOver, take_over
from runner.proxy.dialling import dial
from runner.proxy.exchange import Exchange, Handler
from runner.proxy.fence import Fence, is_upgrade
from runner.proxy.streams import TcpStream, TlsStream, UpstreamStream, splice
from runner.proxy.upstream import FAILURES, NotConnectedError, Upstream, answer_for, end_to_end

_OURS = frozenset({"host", "authorization", "proxy-authorization", "content-length", "transfer-encoding", "expect"})
"""Headers of the client that are replaced or dropped on the way to the API server."""
_WITH_BODY = frozenset({hdrs.METH_POST, hdrs.METH_PUT, hdrs.METH_PATCH})


class Upgradeable:
    """The handler that picks one of two by the request's headers."""

    def __init__(self, *, forward: Handler, tunnel: Handler) -> None:
        """Send requests for an upgrade to *tunnel*, all others to *forward*."""
        self._forward = forward
        self._tunnel = tunnel

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        """Handle one request."""
        handler = self._tunnel if is_upgrade(exchange.request) else self._forward
        return await handler(exchange)


class Tunnel:
    """The handler of requests for an upgrade."""

    def __init__(self, *, access: AccessSource, fence: Fence | None = None, observe: Observe | None = None) -> None:
        """Connect nowhere yet.

        Args:
            access: where the API server is, and with which rights.
            fence: asked right before a request is sent.
            observe: told of each answer, for metrics, as `Forward` does.
        """
        self._access = access
        self._upstream = Upstream(access=access, fence=fence, observe=observe)

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        """Pass one request on, and what comes after it."""
        body = await exchange.read()
        send = partial(self._send, exchange, body=body)
        try:
            answer = await self._upstream.ask(exchange, send=send, close=_close)
        except FAILURES as error:
            return answer_for(error, exchange=exchange)
        try:
            return await _relay(exchange.request, answer=answer)
        except OSError as error:
            raise ConnectionResetError("the client or the API server is gone") from error
        finally:
            await answer.stream.close()

    async def _send(self, exchange: Exchange, access: Access, *, body: bytes) -> Answer:
        stream = await self._dial(access)
        try:
            self._upstream.last_look(exchange)
            await stream.write(_request_head(exchange.request, access=access, length=len(body)) + body)
            return await read_answer(stream)
        except BaseException:
            await stream.close()
            raise

    async def _dial(self, access: Access) -> UpstreamStream:
        try:
            async with asyncio.timeout(self._access.connect_timeout):
                return await _dial(access)
        except OSError as error:
            raise NotConnectedError(reason_of(error)) from error


async def _close(answer: Answer) -> None:
    await answer.stream.close()


def _request_head(request: web.BaseRequest, *, access: Access, length: int) -> bytes:
    """Return the client's head for the API server: method, target and headers as they came, but the credentials."""
    target = f"{access.base.raw_path.rstrip('/')}{request.raw_path}"
    lines = [f"{request.method} {target} HTTP/1.1".encode(), f"Host: {_authority(access.base)}".encode()]
    lines += [name + b": " + value for name, value in request.raw_headers if name.decode().lower() not in _OURS]
    lines += [f"{name}: {value}".encode() for name, value in access.headers.items()]
    if length or request.method in _WITH_BODY:
        lines.append(f"Content-Length: {length}".encode())
    return b"\r\n".join(lines) + HEAD_END


def _authority(url: URL) -> str:
    return f"{url.host_subcomponent}:{url.port}"


async def _dial(access: Access) -> UpstreamStream:
    """Connect to the API server, through the HTTP proxy where there is one."""
    target = access.proxy or access.base
    stream: UpstreamStream = TcpStream(await dial(target.host or "", port=target.port or 0))
    try:
        if access.proxy is not None:
            stream = await _through_proxy(stream, access=access, proxy=access.proxy)
        if access.ssl is None:
            return stream
        return await _secured(stream, context=access.ssl, name=access.server_hostname or access.base.host or "")
    except BaseException:
        await stream.close()
        raise


async def _secured(stream: UpstreamStream, *, context: ssl.SSLContext, name: str) -> UpstreamStream:
    tls = TlsStream(stream, context=context, server_hostname=name)
    await tls.handshake()
    return tls


async def _through_proxy(stream: UpstreamStream, *, access: Access, proxy: URL) -> UpstreamStream:
    """Have the HTTP proxy connect *stream* to the API server."""
    if proxy.scheme == "https":
        stream = await _secured(stream, context=ssl.create_default_context(), name=proxy.host or "")
    target = _authority(access.base)
    headers = {"Host": target, **(access.proxy_headers or {})}
    if proxy.user is not None:
        headers.setdefault("Proxy-Authorization", encode_basic_auth(proxy.user, proxy.password or ""))
    lines = [f"CONNECT {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    await stream.write("\r\n".join(lines).encode() + HEAD_END)
    answer = await read_answer(stream)
    if answer.status != 200:
        raise ConnectionRefusedError(f"the proxy {proxy.origin()} answered {answer.status} {answer.reason}")
    return stream


async def _relay(request: web.BaseRequest, *, answer: Answer) -> web.StreamResponse:
    if answer.status != 101:
        return await _relay_ordinary(request, answer=answer)
    client = take_over(request)
    await client.write(answer.head + answer.early)
    await splice(client, answer.stream)
    return TakenOver()


async def _relay_ordinary(request: web.BaseRequest, *, answer: Answer) -> web.StreamResponse:
    """Pass on an answer that upgrades nothing, its body as it comes."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=end_to_end(answer.headers))
    await response.prepare(request)
    await pass_body(answer, method=request.method, sink=response.write)
    await response.write_eof()
    return response
