"""What `forward` and `tunnel` share on the way to the API server: the last look, the second try, what went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from runner.errors import ConfigError
from runner.kube.access import Access, AccessSource
from runner.kube.client import NO_ANSWER, Observe
from runner.kube.documents import reason_of
from runner.proxy.exchange import Exchange
from runner.proxy.fence import Fence
from runner.proxy.refusals import refusal

_HOP_BY_HOP = frozenset({
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
})
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


class NotConnectedError(Exception):
    """There is no connection to the API server."""


class RefusedError(Exception):
    """A request that was stopped at the last moment, with its answer."""

    def __init__(self, response: web.Response) -> None:
        """Keep the answer."""
        super().__init__(response.status)
        self.response = response


FAILURES = (ConfigError, NotConnectedError, RefusedError, aiohttp.ClientError, OSError)
"""What `answer_for` knows an answer to."""


class _Answer(Protocol):
    """The head of an answer, behind which its connection is open."""

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        ...


_A = TypeVar("_A", bound=_Answer)


class Upstream:
    """The API server as those see it who send requests on."""

    def __init__(self, *, access: AccessSource, fence: Fence | None, observe: Observe | None) -> None:
        """Use *access*; *fence* is asked right before a request is sent, and *observe* told of each answer."""
        self._access = access
        self._fence = fence
        self._observe = observe

    def last_look(self, exchange: Exchange) -> None:
        """Raise `RefusedError` where the request may not leave any more."""
        if self._fence is not None and (refused := self._fence.refusal(exchange)) is not None:
            raise RefusedError(refused)

    async def ask(
        self,
        exchange: Exchange,
        *,
        send: Callable[[Access], Awaitable[_A]],
        close: Callable[[_A], Awaitable[object]],
        repeatable: bool = True,
    ) -> _A:
        """Return the API server's answer; after a 401 the credentials are read again, for a second try if *repeatable*.

        *send* opens a connection for one answer; *close* ends that of one that nobody gets.
        """
        access = await self._access.current()
        answer = await self._sent(exchange, access=access, send=send)
        if answer.status != 401:
            return answer
        try:
            access = await self._access.refreshed(access)
        except ConfigError:  # in the middle of a rotation: the client gets the 401
            return answer
        except BaseException:
            await close(answer)
            raise
        if not repeatable:
            return answer
        await close(answer)
        return await self._sent(exchange, access=access, send=send)

    async def _sent(self, exchange: Exchange, *, access: Access, send: Callable[[Access], Awaitable[_A]]) -> _A:
        code = NO_ANSWER
        try:
            answer = await send(access)
            code = str(answer.status)
            return answer
        finally:
            if self._observe is not None:
                self._observe(exchange.request.method, code=code, host=access.base.host_port_subcomponent or "")


def answer_for(error: BaseException, *, exchange: Exchange) -> web.Response:
    """Return what the client gets instead of an answer that one of `FAILURES` prevented."""
    match error:
        case RefusedError():
            return error.response
        case ConfigError():
            return _unavailable(f"the operator has no usable credentials for the API server: {error}")
    if isinstance(error, (NotConnectedError, *_NOT_CONNECTED)):
        return _unavailable(
            f"the API server can't be reached, so nothing was sent to it: {reason_of(error)}; try again"
        )
    return refusal(
        message=f"the API server's answer to the request for {exchange.info.path} did not come: {reason_of(error)}; "
        "what was asked may have been done or not: read before you write again",
        status=502,
        reason="InternalError",
    )


def end_to_end(
    headers: CIMultiDictProxy[str] | CIMultiDict[str], *, drop: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    """Return *headers* without those that are for one connection alone, and without *drop*."""
    dropped = _HOP_BY_HOP | drop | connection_options(headers)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)


def connection_options(headers: CIMultiDictProxy[str] | CIMultiDict[str]) -> frozenset[str]:
    """Return what the header Connection names, in lower case."""
    return frozenset(name.strip() for name in ",".join(headers.getall("Connection", [])).lower().split(","))


def _unavailable(message: str) -> web.Response:
    return refusal(message=message, status=503, reason="ServiceUnavailable")
