"""Discovery documents out of memory: what each run asks anew, as it has a temporary folder of its own.

A layer behind `identify`. A run gets a document at most `life` seconds old the first time it asks, and a new one each
time after that: clients ask again when they miss a kind. What isn't a plain GET of a live run passes through, and so
does everything for a while after a write to what discovery is made of.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from runner.clock import Clock
from runner.proxy.exchange import Caller, Exchange, Handler

_DOCUMENT = re.compile(r"/(version|api(/[\w.-]+)?|apis(/[\w.-]+){0,2})(\?[^#]*)?", re.ASCII)
_WITHOUT_EFFECT = frozenset({
    "accept", "accept-encoding", "authorization", "connection", "content-type", "host", "kubectl-command",
    "kubectl-session", "user-agent",
})  # fmt: skip
"""Headers that leave a discovery document as it is, or are in its key; with any other one the request passes."""
_NOT_KEPT = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_SOURCES = frozenset({
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
})  # fmt: skip
_KEYS_PER_RUN = 512
_LONGEST_KEY = 512
"""Characters of a request's target and the two headers that count; what clients send takes 250."""


@dataclass(frozen=True, kw_only=True)
class _Key:
    """What an answer depends on; every run sends the same operator's credentials on."""

    target: str
    accept: tuple[str, ...]
    encoding: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Document:
    """One answer as the API server gave it."""

    asked: float
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def answer(self) -> web.Response:
        """Return it as an answer to another request."""
        return web.Response(body=self.body, headers=self.headers)


_Flight = asyncio.Future[_Document | None]
"""A question that others wait for; None: they must ask themselves."""


class DiscoveryCache:
    """The layer; one for the whole proxy, used on the event loop alone."""

    def __init__(
        self,
        *,
        clock: Clock,
        lives: Callable[[Caller], bool],
        life: float = 10.0,
        limit: int = 8 * 2**20,
        most: int = 1024,
    ) -> None:
        """Keep *most* answers of *limit* bytes in all for *life* seconds; *lives* tells whether a run goes on."""
        self._clock = clock
        self._lives = lives
        self._life = life
        self._limit = limit
        self._most = most
        self._documents: OrderedDict[_Key, _Document] = OrderedDict()
        self._size = 0
        self._flights: dict[_Key, _Flight] = {}
        self._asked: dict[Caller, set[_Key]] = {}
        self._closed_until = clock.monotonic()

    def __call__(self, handler: Handler) -> Handler:
        """Return *handler* with this layer before it."""

        async def handle(exchange: Exchange) -> web.StreamResponse:
            info = exchange.info
            if info.verb in _WRITES and (info.group, info.resource) in _SOURCES:
                return await self._pass_write(exchange, handler)
            key = _key(exchange)
            if key is None or exchange.caller is None:
                return await handler(exchange)
            return await self._document(exchange, handler, key=key, again=self._asked_before(exchange.caller, key))

        return handle

    async def _document(self, exchange: Exchange, handler: Handler, *, key: _Key, again: bool) -> web.StreamResponse:
        if again or self._closed:
            return await self._ask(exchange, handler, key=key)
        kept = self._documents.get(key)
        if kept is not None and self._fresh(kept):
            return kept.answer()
        if (flight := self._flights.get(key)) is None:
            return await self._lead(exchange, handler, key=key)
        shared = await asyncio.shield(flight)
        if shared is not None and self._fresh(shared):
            return shared.answer()
        return await self._ask(exchange, handler, key=key)

    async def _lead(self, exchange: Exchange, handler: Handler, *, key: _Key) -> web.StreamResponse:
        """Ask for all who want the same document meanwhile; where that fails, each of them asks for itself."""
        flight: _Flight = asyncio.get_running_loop().create_future()
        self._flights[key] = flight
        try:
            return await self._ask(exchange, handler, key=key, flight=flight)
        finally:
            _land(flight, None)
            if self._flights.get(key) is flight:
                del self._flights[key]

    async def _ask(
        self, exchange: Exchange, handler: Handler, *, key: _Key, flight: _Flight | None = None
    ) -> web.StreamResponse:
        """Ask the API server; what it says is kept, and goes to those who wait.

        What was asked before a write and comes after it is older than `life` by the time that something is kept again.
        """
        asked = self._clock.monotonic()

        def take(status: int, headers: Mapping[str, str], body: bytes) -> None:  # noqa: PLR0917 - an `AnswerWatcher`
            if status != 200 or not body or self._closed:
                return  # the body is empty where the answer could not be shown
            kept = tuple((name, value) for name, value in headers.items() if name.lower() not in _NOT_KEPT)
            document = _Document(asked=asked, headers=kept, body=body)
            self._keep(key, document)
            _land(flight, document)

        exchange.answer_watchers.append(take)
        return await handler(exchange)

    def _keep(self, key: _Key, document: _Document) -> None:
        older = self._documents.get(key)
        if len(document.body) > self._limit // 4 or (older is not None and older.asked > document.asked):
            return
        self._drop(key)
        self._documents[key] = document
        self._size += len(document.body)
        while self._size > self._limit or len(self._documents) > self._most:
            self._drop(next(iter(self._documents)))

    def _drop(self, key: _Key) -> None:
        if document := self._documents.pop(key, None):
            self._size -= len(document.body)

    def _fresh(self, document: _Document) -> bool:
        return self._clock.monotonic() - document.asked < self._life

    @property
    def _closed(self) -> bool:
        return self._clock.monotonic() < self._closed_until

    async def _pass_write(self, exchange: Exchange, handler: Handler) -> web.StreamResponse:
        """Forget everything, before and after: the API server takes a moment to serve what was written."""
        self._forget()
        try:
            return await handler(exchange)
        finally:
            self._forget()

    def _forget(self) -> None:
        self._documents.clear()
        self._size = 0
        self._closed_until = self._clock.monotonic() + self._life
        for flight in self._flights.values():
            _land(flight, None)
        self._flights.clear()

    def _asked_before(self, caller: Caller, key: _Key) -> bool:
        """Tell whether the caller's run asked for this before, and remember that it did."""
        if caller not in self._asked:
            self._asked = {run: keys for run, keys in self._asked.items() if self._lives(run)}
        keys = self._asked.setdefault(caller, set())
        if key in keys or len(keys) >= _KEYS_PER_RUN:
            return True
        keys.add(key)
        return False


def _land(flight: _Flight | None, document: _Document | None) -> None:
    if flight is not None and not flight.done():
        flight.set_result(document)


def _key(exchange: Exchange) -> _Key | None:
    """Return what the answer depends on; None where the request is none for a plain document."""
    request = exchange.request
    if request.method != "GET" or exchange.body is not None or not _DOCUMENT.fullmatch(request.raw_path):
        return None
    if not _WITHOUT_EFFECT.issuperset(name.lower() for name in request.headers):
        return None
    key = _Key(
        target=request.raw_path,
        accept=tuple(request.headers.getall("Accept", ())),
        encoding=tuple(request.headers.getall("Accept-Encoding", ())),
    )
    return key if sum(map(len, (key.target, *key.accept, *key.encoding))) <= _LONGEST_KEY else None
