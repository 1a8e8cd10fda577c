"""Counts the calls of an operator and its plays to Kubernetes and AWS, and holds the answer to a chosen one.

The call has been carried out then and its caller doesn't know: the worst moment for a crash. A test kills the operator
while the answer is held.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Container
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs

import aiohttp
from aiohttp import web

from runner.testing.faults import HttpFaultProxy, RequestRecord

_NOT_COUNTED = re.compile(r"/leases\b|[?&]watch=|^/(apis?(/[^/]+)?(/v\d\w*)?|version|openapi/.*)/?(\?.*)?$")
"""What a process does by itself: leader election, watches, discovery."""

_NAMES = re.compile(r"\b(call|moment)\d+\b|test-[0-9a-f]{8}")

Chosen = Callable[[str], object]


class CrashGate:
    """What calls there were since `arm`, and which one of them is held."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.calls: list[str] = []
        """`GET /api/...` with the body behind it, or `AWS RunInstances`."""
        self.held = self.held_key = ""
        """The call whose answer is held, or was; and its `key`."""
        self.reached = asyncio.Event()
        self._chosen: Chosen | None = None
        self._released = asyncio.Event()

    def arm(self, chosen: Chosen) -> None:
        """Forget all calls, and hold the answer to the first one from now on that *chosen* takes."""
        self.calls.clear()
        self.held = self.held_key = ""
        self.reached.clear()
        self._released = asyncio.Event()
        self._chosen = chosen

    def arm_beyond(self, known: Container[str]) -> None:
        """Hold the answer to the first call that is none of *known*, as `key` tells them."""
        self.arm(lambda _call: self.key not in known)

    @property
    def key(self) -> str:
        """Return what the newest call is, whatever the object is called, and which one of its kind."""
        shapes = [_NAMES.sub("NAME", call.split("?")[0].split(" {")[0]) for call in self.calls]
        return f"{shapes[-1]} ({shapes.count(shapes[-1])})"

    def disarm(self) -> None:
        """Hold nothing any more, and let go what is held."""
        self._chosen = None
        self._released.set()

    async def passed(self, call: str) -> None:
        """Take note of a *call* that was carried out; return if its answer may go.

        Raises:
            ConnectionResetError: it was held, and nobody shall hear of it.
        """
        self.calls.append(call)
        if self._chosen is None or self.reached.is_set() or not self._chosen(call):
            return
        self.held, self.held_key = call, self.key
        self.reached.set()
        await self._released.wait()
        raise ConnectionResetError("the answer was held until its caller was killed")

    async def kubernetes(self, record: RequestRecord) -> None:
        """Take note of a request to the API server."""
        if not _NOT_COUNTED.search(record.path):
            await self.passed(f"{record.method} {record.path} {record.body.decode(errors='replace')}".strip())


@asynccontextmanager
async def gates(gate: CrashGate, *, kubeconfig: Path, endpoint: str, folder: Path) -> AsyncIterator[tuple[Path, str]]:
    """Give a kubeconfig and an AWS endpoint whose calls go through *gate*."""
    async with AsyncExitStack() as stack:
        proxy = HttpFaultProxy(upstream_kubeconfig=kubeconfig, answered=gate.kubernetes)
        await stack.enter_async_context(proxy)
        aws = await stack.enter_async_context(_aws(gate, endpoint=endpoint))
        yield proxy.kubeconfig(folder / "gate.kubeconfig"), aws
        gate.disarm()


@asynccontextmanager
async def _aws(gate: CrashGate, *, endpoint: str) -> AsyncIterator[str]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
            url = endpoint + request.path_qs
            async with session.request(request.method, url, headers=headers, data=body) as answer:
                data = await answer.read()
            try:
                await gate.passed(f"AWS {_action(request, body)}")
            except ConnectionResetError:
                if request.transport is not None:
                    request.transport.abort()
            return web.Response(status=answer.status, body=data, content_type=answer.content_type)

        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            gate.disarm()
            await runner.cleanup()


def _action(request: web.Request, body: bytes) -> str:
    named = parse_qs(body.decode(errors="replace")).get("Action")
    return named[0] if named else f"{request.method} {request.path}"
