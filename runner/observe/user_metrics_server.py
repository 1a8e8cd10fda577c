"""`POST /metrics` on localhost: where `operator_sdk.util.osdk_metric` sends the metrics of roles and playbooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import NoReturn

from aiohttp import web

from runner.clock import Clock, SystemClock
from runner.logs import Logger
from runner.observe.address import EVERYWHERE, Address
from runner.observe.endpoint import Listener
from runner.observe.user_metrics import RefusedMetric

_PAUSE = 5.0
"""Seconds until a taken address is tried again: an instance that stood by gets it when the other one ends."""


class UserMetricsServer:
    """A Service of the assembly that can do without its port: roles then send no metrics, nothing else."""

    def __init__(
        self,
        *,
        address: Address | None,
        handle: Callable[[object], str | None],
        logger: Logger,
        clock: Clock | None = None,
        tell_url: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Listen on *address* (None: nowhere).

        Args:
            address: host and port.
            handle: gets each request's JSON.
            logger: told of start and trouble.
            clock: measures the pause before a taken address is tried again.
            tell_url: told where runs can send metrics, once that is known.
        """
        self._host = "" if address is None else address[0]
        self._listener = None if address is None else Listener(address=address)
        self._handle = handle
        self._logger = logger
        self._clock = clock or SystemClock()
        self._tell_url = tell_url
        self._trying: asyncio.Task[None] | None = None

    @property
    def port(self) -> int | None:
        """Return the port that it listens on."""
        return None if self._listener is None else self._listener.port

    async def start(self) -> None:
        """Listen, or say that this is not possible yet and try again in the background."""
        if self._listener is None:
            return
        try:
            await self._listen(self._listener)
        except OSError as error:
            self._logger.warning(
                "The address for user metrics is taken; going on without them until it is free. A second operator on "
                "this machine needs --user-metrics-bind-address=localhost:PORT with a port of its own (the default is "
                "5050), or 0 to switch it off",
                Address=str(self._listener),
                error=error.strerror or str(error),
            )
            self._trying = asyncio.create_task(self._try_again(self._listener), name="user metrics")

    async def stop(self) -> None:
        """Stop listening."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        if self._listener is not None:
            await self._listener.stop()

    async def _try_again(self, listener: Listener) -> None:
        while True:
            await self._clock.sleep(_PAUSE)
            try:
                await self._listen(listener)
            except OSError:
                continue  # told already
            return

    async def _listen(self, listener: Listener) -> None:
        app = web.Application()
        app.add_routes([web.route("*", "/metrics", self._metrics)])
        await listener.start(app)
        self._logger.info("Starting to serve metrics listener", Address=str(listener), port=self.port)
        host = "localhost" if self._host in EVERYWHERE else self._host
        self._tell_url(f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics")

    async def _metrics(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return web.Response(status=405, text="Method not allowed\n", headers={"Allow": "POST"})
        try:
            document = json.loads(await request.read(), parse_constant=_refuse_constant)
        except web.RequestPayloadError as error:  # it is not what Content-Encoding says, or the client is gone
            return self._refused(f"the request cannot be read: {' '.join(str(error).split())}")
        except ValueError as error:  # UnicodeDecodeError is one
            return self._refused(f"the request is no JSON: {error}")
        except RecursionError:
            return self._refused("the request is no JSON of a metric: it is nested too deeply")
        try:
            registered = self._handle(document)
        except RefusedMetric as refusal:
            return self._refused(str(refusal))
        if registered is not None:
            self._logger.info("Registering", metric=registered)
        return web.Response()

    def _refused(self, text: str) -> web.Response:
        self._logger.info("A user metric was refused", reason=text)
        return web.Response(status=400, text=f"{text}\n")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
