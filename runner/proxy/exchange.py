"""One request through the proxy and what the layers do with it: the value that all of `runner.proxy` shares.

A layer takes a handler and returns one of the same signature: it may answer itself (a refusal), change the exchange and
pass it on, or look at the answer on its way back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from runner.kube.objects import GVK
from runner.proxy.request_info import RequestInfo


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The object on whose behalf a run speaks: what owner references and annotations name."""

    gvk: GVK
    namespace: str = ""
    """Empty for a cluster-scoped owner."""
    name: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A run that showed its live secret."""

    owner: Owner
    run: str
    """The run's id."""


AnswerWatcher = Callable[[int, Mapping[str, str], bytes], None]
"""Gets status, headers and whole body of an answer before the client does."""


@dataclass(kw_only=True)
class Exchange:
    """One request on its way."""

    request: web.BaseRequest
    """As the client sent it: method, raw path and query, headers, and the body as a stream."""
    info: RequestInfo
    caller: Caller | None = None
    """None: a request without credentials, which is passed unowned."""
    ended: str = ""
    """Why nothing more may be sent for it, once the caller's run is over or the leadership is lost."""
    body: bytes | None = None
    """Replaces what the client sends; None: the client's body is streamed as it comes."""
    content_type: str | None = None
    """Replaces the client's Content-Type together with the body; a replaced body is never encoded."""
    answer_watchers: list[AnswerWatcher] = field(default_factory=list)
    """Where there is one, the answer is read whole before the client gets it; only for answers that are small."""

    async def read(self) -> bytes:
        """Return the body whole, and keep it: it can't be streamed any more."""
        if self.body is None:
            self.body = await self.request.read()
        return self.body


Handler = Callable[[Exchange], Awaitable[web.StreamResponse]]
Layer = Callable[[Handler], Handler]
