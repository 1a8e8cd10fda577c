"""Fault proxies in front of an API server: what a network and an overloaded server do, on command.

`TcpFaultProxy` (in `faults_tcp`) forwards bytes, TLS untouched: drop, refuse, half-open, delay.
`HttpFaultProxy` understands requests: it answers chosen ones itself, holds them, loses their answers, injects watch
events, and keeps a log of requests. Clients talk plain HTTP to it (or TLS with a given context); it talks to the real
API server with the credentials of a kubeconfig. It does not forward upgrades (exec, port-forward).

    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        conflict = proxy.rule(Rule(method="PUT|PATCH", path=r"/status$", times=3, status=409))
        client = KubeClient(settings=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))
        ...
        assert conflict.hits == 3
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from kubernetes.aio.client import ApiClient
from yarl import URL

from runner.kube.client import load_configuration
from runner.kube.connector import Connector
from runner.kube.errors import STATUS_REASONS
from runner.kube.objects import Object
from runner.settings import KubeSettings
from runner.testing.faults_tcp import TcpFaultProxy
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.waiting import eventually

__all__ = [
    "ActiveRule", "Answered", "HttpFaultProxy", "RequestRecord", "Rule", "TcpFaultProxy", "gone_event", "status_body",
]  # fmt: skip

_HOP_BY_HOP = frozenset({
    "connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What happens to requests that match; the first matching rule that still applies wins."""

    method: str = ""
    """A regular expression for the whole method; empty: any."""
    path: str = ""
    """A regular expression searched in path and query: `/configmaps\\?.*watch=1`."""
    times: int | None = None
    """How many requests it applies to; None: all, until `ActiveRule.cancel`."""
    status: int = 0
    """Answer with this status; 0: let the request through (useful with `hold`)."""
    reason: str = ""
    """The Status object's reason, by default the one that belongs to the status."""
    body: object = None
    """Bytes, or a JSON value; None: a Status object made from `status` and `reason`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: bool = False
    """Let the request wait until `ActiveRule.release`."""
    execute: bool = False
    """Send the request to the API server before its answer is replaced or lost."""
    lose: bool = False
    """Close the connection instead of answering."""


class ActiveRule:
    """A rule at work."""

    def __init__(self, rule: Rule) -> None:
        """Start with no hits."""
        self.rule = rule
        self.hits = 0
        self._active = True
        self._released = asyncio.Event()

    def cancel(self) -> None:
        """Apply no more, and let go what is held."""
        self._active = False
        self._released.set()

    def release(self) -> None:
        """Let go the requests that are held, and hold no further ones."""
        self._released.set()

    async def wait_hit(self, count: int = 1) -> None:
        """Return when *count* requests matched."""
        await eventually(lambda: self.hits >= count)

    def takes(self, *, method: str, path: str) -> bool:
        """Tell whether the rule applies to a request, and count it."""
        rule = self.rule
        spent = rule.times is not None and self.hits >= rule.times
        fits = not rule.method or re.fullmatch(rule.method, method)
        if not self._active or spent or not fits or not re.search(rule.path, path):
            return False
        self.hits += 1
        return True

    async def held(self) -> None:
        """Wait as long as the rule holds requests."""
        if self.rule.hold:
            await self._released.wait()


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """One request that came to the proxy, in the order of arrival."""

    method: str
    path: str
    """With the query."""
    body: bytes
    headers: Mapping[str, str]

    @property
    def is_watch(self) -> bool:
        """Tell whether this is a watch."""
        return bool(re.search(r"[?&]watch=(1|true)", self.path))


Answered = Callable[[RequestRecord], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class _OpenWatch:
    """A watch that passes through: its path and the task that copies its lines."""

    path: str
    copying: asyncio.Task[None]


class HttpFaultProxy:
    """An HTTP proxy with rules; an async context manager that listens on a free port of 127.0.0.1."""

    def __init__(
        self,
        *,
        upstream_kubeconfig: Path,
        ssl_context: ssl.SSLContext | None = None,
        impersonate: str = "",
        answered: Answered | None = None,
    ) -> None:
        """Forward to the API server of *upstream_kubeconfig*, as the user *impersonate* where given.

        *answered* is awaited when the API server has answered a request, before the client hears of it.
        """
        self.requests: list[RequestRecord] = []
        self.refused: list[RequestRecord] = []
        """What the API server itself answered with 403."""
        self.conflicts: list[RequestRecord] = []
        """What the API server itself answered with 409."""
        self.port = 0
        self._upstream = upstream_kubeconfig
        self._ssl = ssl_context
        self._impersonate = impersonate
        self._answered = answered
        self._rules: list[ActiveRule] = []
        self._watches: dict[web.StreamResponse, _OpenWatch] = {}
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> HttpFaultProxy:
        """Listen."""
        self._api = ApiClient(await load_configuration(KubeSettings(kubeconfig=str(self._upstream))))
        self._stack.push_async_callback(self._api.close)
        connector = Connector(tls=self._api.rest_client.ssl_context, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=2**24
        )
        self._stack.push_async_callback(self._session.close)
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._ssl)
        await site.start()
        self.port = runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections and stop listening."""
        self.clear()
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Return the address that clients use."""
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig (mode 0600) that points at the proxy; with TLS, clients do not verify."""
        return write_kubeconfig(path, server=self.url, insecure=self._ssl is not None)

    def rule(self, rule: Rule) -> ActiveRule:
        """Add *rule* behind the earlier ones."""
        active = ActiveRule(rule)
        self._rules.append(active)
        return active

    def clear(self) -> None:
        """Cancel all rules."""
        for active in self._rules:
            active.cancel()
        self._rules = []

    def watches(self, path: str = "") -> int:
        """Return how many watches are open whose path matches the regular expression *path*."""
        return len(self._matching(path))

    async def inject(self, line: Object | bytes, *, path: str = "") -> int:
        """Write a watch event (or raw bytes as a line) into the open watches that match; return how many."""
        raw = line if isinstance(line, bytes) else json.dumps(line).encode()
        chosen = self._matching(path)
        for response in chosen:
            await response.write(raw + b"\n")
        return len(chosen)

    async def end_watches(self, *, path: str = "") -> int:
        """End the open watches that match in order, as the server does after their time-out; return how many."""
        chosen = self._matching(path)
        for response in chosen:
            self._watches[response].copying.cancel()
        await eventually(lambda: not any(response in self._watches for response in chosen))
        return len(chosen)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        record = RequestRecord(method=request.method, path=request.path_qs, body=body, headers=dict(request.headers))
        self.requests.append(record)
        active = next((a for a in self._rules if a.takes(method=request.method, path=request.path_qs)), None)
        if active is None:
            return await self._forward(request, record)
        await active.held()
        rule = active.rule
        if not rule.status and not rule.lose:
            return await self._forward(request, record)
        if rule.execute:
            async with self._ask(record) as answer:
                await answer.read()
        if rule.lose:
            return _abort(request)
        raw = status_body(rule.status, reason=rule.reason) if rule.body is None else rule.body
        data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        return web.Response(status=rule.status, body=data, headers={"Content-Type": "application/json", **rule.headers})

    async def _forward(self, request: web.Request, record: RequestRecord) -> web.StreamResponse:
        try:
            async with self._ask(record) as answer:
                {403: self.refused, 409: self.conflicts}.get(answer.status, []).append(record)
                if self._answered is not None:
                    await self._answered(record)
                response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
                await response.prepare(request)
                await self._copy(answer, response, path=record.path if record.is_watch else "")
                await response.write_eof()
                return response
        except (aiohttp.ClientError, ConnectionError):  # of the API server, or the client went away
            return _abort(request)

    async def _copy(self, answer: aiohttp.ClientResponse, response: web.StreamResponse, *, path: str) -> None:
        if not path or answer.status != 200:
            async for piece in answer.content.iter_any():
                await response.write(piece)
            return
        copying = asyncio.create_task(_copy_lines(answer, response))
        self._watches[response] = _OpenWatch(path=path, copying=copying)
        try:
            await asyncio.wait({copying})
            if not copying.cancelled():
                copying.result()
        finally:
            copying.cancel()
            del self._watches[response]

    @contextlib.asynccontextmanager
    async def _ask(self, record: RequestRecord) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request to the API server with the kubeconfig's credentials instead of the client's."""
        headers = _end_to_end(record.headers)
        headers.pop("Authorization", None)
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], record.path, record.method, record.body)
        if self._impersonate:
            headers["Impersonate-User"] = self._impersonate
        url = URL(self._api.configuration.host + record.path, encoded=True)
        sending = self._session.request(
            record.method, url, headers=headers, data=record.body or None, skip_auto_headers=["Content-Type"]
        )
        async with sending as answer:
            yield answer

    def _matching(self, path: str) -> list[web.StreamResponse]:
        return [response for response, own in self._watches.items() if re.search(path, own.path)]


def status_body(status: int, *, reason: str = "", message: str = "injected by the fault proxy") -> Object:
    """Return a Status object as the API server sends it with an error."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason or STATUS_REASONS.get(status, ""),
        "message": message,
    }


def gone_event() -> Object:
    """Return the watch event that says that the resource version is too old."""
    return {"type": "ERROR", "object": status_body(410)}


async def _copy_lines(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    """Copy whole lines, so that injected ones stand between them."""
    async for line in answer.content:
        await response.write(line)


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _abort(request: web.Request) -> web.Response:
    """Close the client's connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
