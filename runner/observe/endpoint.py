"""The servers of this package's HTTP: `/metrics` for Prometheus, with or without TLS and access control.

`Listener` is one listening socket. `MetricsServer` is the scraper's endpoint; that of roles and playbooks is
`runner.observe.user_metrics_server`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from runner.errors import ConfigError
from runner.logs import Logger
from runner.observe.address import Address, bound
from runner.observe.connections import BoundedRunner
from runner.observe.metrics_text import CONTENT_TYPE

_SHUTDOWN_TIMEOUT = 5.0
"""Seconds that answers under way get at the end."""
_COMPRESSED_AT_ONCE = 64 * 1024
"""Bytes of a page; a longer one is compressed in a thread."""
_REFUSED = re.compile(r"q\s*=\s*0(\.0*)?")


class Listener:
    """One application on one address."""

    def __init__(self, *, address: Address, tls: ssl.SSLContext | None = None) -> None:
        """Listen nowhere yet; port 0 takes a free one."""
        self._address = address
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.port: int | None = None

    def __str__(self) -> str:
        """Return the address as it was given."""
        return f"{self._address[0]}:{self._address[1]}"

    async def start(self, app: web.Application) -> None:
        """Listen; raise OSError where the address is taken or not ours."""
        runner = BoundedRunner(app, shutdown_timeout=_SHUTDOWN_TIMEOUT)
        await runner.setup()
        try:
            await web.SockSite(runner, bound(self._address), ssl_context=self._tls).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening; also where nothing listens."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


class Guard(Protocol):
    """Who may read (`runner.observe.endpoint_access.Access`)."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer for who may not, None for who may."""
        ...


class MetricsServer:
    """`GET /metrics`; a Service of the assembly."""

    def __init__(
        self,
        *,
        address: Address | None,
        text: Callable[[], str],
        logger: Logger,
        tls: Callable[[], ssl.SSLContext] | None = None,
        guard: Guard | None = None,
    ) -> None:
        """Serve *text* on *address* (None: nowhere).

        Args:
            address: host and port.
            text: makes the page; called in a thread.
            logger: told of start and trouble.
            tls: makes the TLS context at the start; None for plain HTTP.
            guard: refuses who may not read.
        """
        self._address = address
        self._text = text
        self._logger = logger
        self._tls = tls
        self._guard = guard
        self._listener: Listener | None = None

    @property
    def port(self) -> int | None:
        """Return the port that it listens on."""
        return None if self._listener is None else self._listener.port

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address is taken or not ours, or the certificate cannot be used.
        """
        if self._address is None:
            return
        self._listener = Listener(address=self._address, tls=None if self._tls is None else self._tls())
        app = web.Application()
        app.add_routes([web.get("/metrics", self._metrics)])
        try:
            await self._listener.start(app)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on --metrics-bind-address {self._listener}: {error.strerror or error}; "
                "choose another port, or 0 to switch it off"
            ) from error
        self._logger.info(
            "Serving metrics server", bindAddress=str(self._listener), port=self.port, secure=self._tls is not None
        )

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.stop()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if self._guard is not None and (refusal := await self._guard.refusal(request)) is not None:
            return refusal
        page = await asyncio.to_thread(self._text)  # many objects take tenths of a second: nothing waits for that
        body = page.encode(errors="backslashreplace")  # a lone surrogate must not take the page away
        response = web.Response(
            body=body, headers={"Content-Type": CONTENT_TYPE}, zlib_executor_size=_COMPRESSED_AT_ONCE
        )
        if takes_gzip(request.headers.get("Accept-Encoding", "")):
            response.enable_compression(web.ContentCoding.gzip)
        return response


def takes_gzip(accepted: str) -> bool:
    """Tell whether the header Accept-Encoding allows gzip: by its name or by `*`, and not with `q=0`."""
    wanted = {}
    for part in accepted.lower().split(","):
        coding, *parameters = (piece.strip() for piece in part.split(";"))
        wanted[coding] = not any(_REFUSED.fullmatch(parameter) for parameter in parameters)
    return wanted.get("gzip", wanted.get("*", False))
