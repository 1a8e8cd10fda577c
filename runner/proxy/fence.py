"""The last look before a request leaves: an instance that may not lead any more writes nothing, an ended run nothing
at all.

It stands twice. As a layer it refuses early, before anything is prepared for a write that may not be; `Forward` and the
tunnel ask `Fence.refusal` again right before they send, as a process that stood still (SIGSTOP, a paused machine) wakes
up in the middle of a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from multidict import CIMultiDictProxy

from runner.proxy.exchange import Exchange, Handler
from runner.proxy.refusals import refusal

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Fence:
    """A layer; also what sends requests asks it."""

    def __init__(self, *, fenced: Callable[[], bool]) -> None:
        """Refuse writes while *fenced* is true."""
        self._fenced = fenced

    def __call__(self, handler: Handler) -> Handler:
        """Return the layer around *handler*."""

        async def handle(exchange: Exchange) -> web.StreamResponse:
            return self.refusal(exchange) or await handler(exchange)

        return handle

    def refusal(self, exchange: Exchange) -> web.Response | None:
        """Return the answer for what may not be sent now, None for what may."""
        if exchange.ended:
            return refusal(message=exchange.ended)
        if not writes(exchange.request) or not self._fenced():
            return None
        return refusal(
            message=f"this instance of the operator does not lead any more, so its {_deed(exchange)} was not sent to "
            "the API server: the instance that leads now runs the reconcile again"
        )


def writes(request: web.BaseRequest) -> bool:
    """Tell whether *request* may change something: by its method, or because it becomes a tunnel into a Pod."""
    return request.method not in _READS or is_upgrade(request)


class Head(Protocol):
    """A request, or its parsed head."""

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """Return its headers."""
        ...


def is_upgrade(request: Head) -> bool:
    """Tell whether *request* asks to become another protocol (exec, attach, port-forward).

    HTTP/2 without TLS (`h2c`, which Java's client and `curl --http2` offer each server) is none: the API server has no
    such thing, so the offer is dropped, and the request is one like any other.
    """
    return "upgrade" in _tokens(request, "Connection") and bool(_tokens(request, "Upgrade") - {"h2c"})


def _tokens(request: Head, header: str) -> set[str]:
    tokens = ",".join(request.headers.getall(header, [])).lower().split(",")
    return {token.strip() for token in tokens} - {""}


def _deed(exchange: Exchange) -> str:
    info = exchange.info
    what = "/".join(part for part in (info.resource, info.subresource) if part)
    return " ".join(part for part in (info.verb, what, info.name) if part)
