"""List + watch + store of one kind: the only reader of watch streams, for primaries and dependents alike.

An `Informer` lists (in pages), then watches from there, and reports each difference as a `Change` to `on_change`.
Whatever goes wrong (API server away, 410, dead peer, missing right, missing CRD, garbage) it goes on trying, tells its
state for readiness and metrics, and logs a change of state once. Its task ends only by cancellation.

    discover ──▶ list ──▶ watch ──┬─ ended ────────────────▶ watch from the last resource version
       ▲          ▲               ├─ connection lost ──────▶ back off, watch from the last resource version
       │          └───────────────┼─ 410, 5xx, garbage ────▶ back off, list, diff against the store
       └──────────────────────────┴─ 404 (twice) ──────────▶ everything DELETED, retry slowly
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import math
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from runner import errors
from runner.clock import Clock
from runner.errors import Call, OperatorError
from runner.kube.client import KubeClient, Query
from runner.kube.discovery import Discovery, Resource
from runner.kube.documents import reason_of
from runner.kube.errors import error_for
from runner.kube.objects import GVK, Object, name_of, resource_version_of
from runner.logs import Logger
from runner.settings import InformerSettings
from runner.sources.store import Change, Keeps, Store, Transform, keep_all, keeps_all

_NOTICE_INTERVAL = 60.0
"""Seconds between two log lines about interruptions that heal by themselves."""
_POSITION_HOLDS = (errors.ConnectionFailed, errors.TooManyRequests, errors.Unauthorized, errors.Forbidden)
"""Failures after which the last resource version still serves; after any other one the kind is listed again."""


class State(enum.Enum):
    """How an informer is doing."""

    STARTING = "starting"
    SYNCED = "synced"
    MISSING = "missing"
    """The API server does not serve the kind: its CRD is not there (yet, or any more)."""
    FORBIDDEN = "forbidden"
    ERROR = "error"


_SENTENCES = {
    State.SYNCED: "Watching",
    State.MISSING: "The kind is not served by the API server; waiting for its CRD",
    State.FORBIDDEN: "A right to list or watch is missing; waiting for it",
    State.ERROR: "The API server cannot be watched; retrying",
}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What one informer looks at."""

    gvk: GVK
    namespace: str = ""
    """Empty: all namespaces, or a cluster-scoped kind."""
    label_selector: str = ""
    field_selector: str = ""


@dataclass(frozen=True, kw_only=True)
class WatchContext:
    """What all informers of a process share."""

    client: KubeClient
    discovery: Discovery
    settings: InformerSettings
    clock: Clock
    logger: Logger


@dataclass(kw_only=True)
class Counters:
    """What an informer did so far, for metrics."""

    lists: int = 0
    watches: int = 0
    errors: int = 0

    @property
    def relists(self) -> int:
        """Return how often the kind was listed again."""
        return max(0, self.lists - 1)

    @property
    def rewatches(self) -> int:
        """Return how often the watch was opened again."""
        return max(0, self.watches - 1)


class Informer:
    """Keeps a store of one kind (of one namespace) up to date and reports every change of it."""

    def __init__(
        self,
        *,
        target: Target,
        context: WatchContext,
        on_change: Callable[[Change], None],
        transform: Transform = keep_all,
        keeps: Keeps = keeps_all,
        on_state: Callable[[State], None] = lambda _state: None,
    ) -> None:
        """Do nothing yet: `run` is the body of a task; the callbacks must be quick, as they run in the event loop.

        Args:
            target: what to look at.
            context: what all informers share.
            on_change: gets every change.
            transform: cuts objects down before they are kept.
            keeps: tells which objects are kept, and told, at all.
            on_state: gets every new state.
        """
        self.target = target
        self.store = Store(transform=transform, keeps=keeps)
        self.counters = Counters()
        self._context = context
        self._on_change = on_change
        self._on_state = on_state
        self._logger = context.logger.bind(gvk=str(target.gvk), watchNamespace=target.namespace)
        self._state = State.STARTING
        self._version: str | None = None
        self._attempts = 0
        self._misses = 0
        self._opened = False
        self._productive = False
        self._next_notice = 0.0
        self._due = math.inf
        self._has_synced = False
        self._resource: Resource | None = None
        self._discovered = asyncio.Event()

    @property
    def state(self) -> State:
        """Return the present state."""
        return self._state

    @property
    def resource(self) -> Resource | None:
        """Return the kind as last discovered; None until it was served for the first time."""
        return self._resource

    @property
    def has_synced(self) -> bool:
        """Tell whether the store was complete at least once."""
        return self._has_synced

    @property
    def overdue(self) -> float:
        """Return how many seconds a sign of life is late: data, an answer or a new try; negative while all is well."""
        return self._context.clock.monotonic() - self._due

    async def discovered(self) -> Resource:
        """Return the resource as soon as the API server serves the kind."""
        while self._resource is None:
            await self._discovered.wait()
        return self._resource

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            await self._follow()
        finally:
            self._due = math.inf

    async def _follow(self) -> None:
        clock = self._context.clock
        while True:
            began, self._opened, self._productive = clock.monotonic(), False, False
            failure: OperatorError | None = None
            try:
                await self._turn()
            except OperatorError as error:
                failure = error
                self._failed(error)
            lasted = clock.monotonic() - began
            if self._productive or lasted >= self._context.settings.backoff_cap:
                self._attempts = 0
            if failure is not None or lasted < self._context.settings.backoff_base:
                self._attempts += 1
                await self._pause(self._delay(failure))

    async def _turn(self) -> None:
        """Go once through discover, list (where the position is lost) and watch."""
        self._expect_sign(within=self._context.settings.stall_timeout)
        self._resource = resource = await self._context.discovery.resource(self.target.gvk)
        self._discovered.set()
        if self._version is None:
            await self._list(resource)
        await self._watch(resource)

    async def _list(self, resource: Resource) -> None:
        items, version = await self._pages(resource)
        self.counters.lists += 1
        self._misses = 0
        self._version = version
        self._report(self.store.replace(items))
        if not self.has_synced:
            self._has_synced = True
            self._enter(State.SYNCED)

    async def _pages(self, resource: Resource) -> tuple[list[Object], str]:
        """Read all pages; where the server forgot how to continue, read all in one answer instead."""
        limit = str(self._context.settings.page_size)
        items: list[Object] = []
        query: Query = (("limit", limit),)
        while True:
            try:
                page = await self._page(resource, query=query)
            except errors.Gone:
                if len(query) < 2:
                    raise
                items, query = [], ()
                continue
            items += filter(self.store.wants, page["items"] or [])
            token = page["metadata"].get("continue")
            if not token:
                break
            query = (("limit", limit), ("continue", token))
        gvk = self.target.gvk
        typed = [{"apiVersion": gvk.api_version, "kind": gvk.kind, **item} for item in items]
        return typed, resource_version_of(page)

    async def _page(self, resource: Resource, *, query: Query) -> Object:
        pieces = self._http(resource, verb="list", query=query)
        body = b"".join([piece async for piece in pieces])
        page = self._parsed(body)
        if not isinstance(page.get("metadata"), dict) or not isinstance(page.get("items", 0), list | None):
            raise self._garbage("a list without metadata or items")
        return page

    async def _watch(self, resource: Resource) -> None:
        seconds = self._context.settings.watch_timeout * (1 + random.random())  # noqa: S311 - spreads load, no secret
        query = (
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version or ""),
            ("timeoutSeconds", str(max(1, int(seconds)))),
        )
        rest = b""
        async with contextlib.aclosing(self._http(resource, verb="watch", query=query)) as pieces:
            async for piece in pieces:
                if not self._opened:
                    self._opened = True
                    self.counters.watches += 1
                    self._enter(State.SYNCED)
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(None, lines):
                    self._take(self._parsed(line))

    async def _http(self, resource: Resource, *, verb: str, query: Query) -> AsyncGenerator[bytes]:
        """Send one GET and yield its body in pieces, first an empty one: the server accepted the request.

        Silence for longer than the stall time-out means that the peer is dead, whatever TCP believes.
        """
        context, target = self._context, self.target
        selectors = (("labelSelector", target.label_selector), ("fieldSelector", target.field_selector))
        path = resource.path(namespace=target.namespace)
        call = self._call(verb)
        stall = context.settings.stall_timeout
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=context.client.connect_timeout, sock_read=stall)
        full_query = [*((key, value) for key, value in selectors if value), *query]
        self._expect_sign(within=stall + context.client.connect_timeout)
        try:
            async with context.client.stream("GET", path, call=call, query=full_query, timeout=timeout) as response:
                yield b""
                async for piece in response.content.iter_any():
                    self._expect_sign(within=stall)
                    yield piece
        except TimeoutError as error:
            raise errors.ConnectionFailed(f"no data for {stall:g} s", call=call) from error
        except (aiohttp.ClientError, OSError) as error:
            raise errors.ConnectionFailed(reason_of(error), call=call) from error

    def _take(self, event: Object) -> None:
        """Apply one watch event."""
        obj = event.get("object")
        if not isinstance(obj, dict):
            raise self._garbage("a watch event without an object")
        kind = event.get("type")
        if kind == "ERROR":
            raise self._error_event(obj)
        version = resource_version_of(obj)
        if not version or (kind != "BOOKMARK" and not name_of(obj)):
            raise self._garbage("a watch event without name or resource version")
        if kind in {"ADDED", "MODIFIED"}:
            self._report(self.store.put(obj))
        elif kind == "DELETED":
            self._report(self.store.remove(obj))
        elif kind != "BOOKMARK":
            raise self._garbage(f"a watch event of unknown type {kind!r}")
        self._version = version
        self._productive = True

    def _report(self, changes: list[Change]) -> None:
        for change in changes:
            self._on_change(change)

    def _failed(self, error: OperatorError) -> None:
        """Decide where the next turn begins, and which state others see meanwhile."""
        self.counters.errors += 1
        self._logger.debug("A turn of the watch failed", error=error)
        if not isinstance(error, _POSITION_HOLDS):
            self._version = None
        if isinstance(error, errors.NotFound):
            self._missed(error)
        elif self._opened:
            self._notice(error)
        elif isinstance(error, errors.Forbidden):
            self._enter(State.FORBIDDEN, error=error)
        elif not isinstance(error, errors.Gone):  # 410 is the normal fate of an old position
            self._enter(State.ERROR, error=error)

    def _missed(self, error: OperatorError) -> None:
        """Take a 404; while objects are known it is believed only when it comes twice, as a starting server errs."""
        self._context.discovery.forget(self.target.gvk)
        self._misses += 1
        if self._misses > 1 or not len(self.store):
            self._enter(State.MISSING, error=error)
            self._report(self.store.replace([]))

    def _notice(self, error: OperatorError) -> None:
        """Log an interruption of a watch that was open: often harmless, so it is no state of its own."""
        now = self._context.clock.monotonic()
        if not isinstance(error, errors.Gone) and now >= self._next_notice:
            self._next_notice = now + _NOTICE_INTERVAL
            self._logger.info("The watch was interrupted; resuming", error=error)

    def _enter(self, state: State, *, error: OperatorError | None = None) -> None:
        if state is self._state:
            return
        self._state = state
        if state is State.SYNCED:
            self._logger.info(_SENTENCES[state], objects=len(self.store))
        else:
            self._logger.error(_SENTENCES[state], error=error)
        self._on_state(state)

    def _delay(self, failure: OperatorError | None) -> float:
        """Return the wait before the next turn: exponential with jitter, at least what the server asks for."""
        settings = self._context.settings
        slow = isinstance(failure, errors.NotFound | errors.Forbidden)
        cap = min(settings.missing_cap, settings.backoff_cap) if slow else settings.backoff_cap
        delay = min(cap, settings.backoff_base * 2.0 ** min(self._attempts - 1, 30))
        delay *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, no secret
        asked = failure.retry_after if isinstance(failure, errors.TooManyRequests | errors.ServerError) else None
        return max(delay, asked or 0.0)

    def _expect_sign(self, *, within: float) -> None:
        self._due = self._context.clock.monotonic() + within

    async def _pause(self, seconds: float) -> None:
        self._expect_sign(within=seconds)
        await self._context.clock.sleep(seconds)

    def _parsed(self, raw: bytes) -> dict[str, Any]:
        try:
            document = json.loads(raw)
        except ValueError as error:
            raise self._garbage(f"no JSON: {error}") from error
        if not isinstance(document, dict):
            raise self._garbage("JSON that is no object")
        return document

    def _garbage(self, what: str) -> errors.ServerError:
        return errors.ServerError(f"the API server sent {what}", call=self._call("watch"))

    def _error_event(self, status: Object) -> errors.KubeError:
        code = status.get("code")
        number = code if isinstance(code, int) and code >= 400 else 500
        return error_for(status=number, body=json.dumps(status).encode(), headers={}, call=self._call("watch"))

    def _call(self, verb: str) -> Call:
        resource = self._resource.label() if self._resource else str(self.target.gvk)
        return Call(verb=verb, resource=resource, namespace=self.target.namespace)
