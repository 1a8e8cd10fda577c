"""`POST /metrics` on localhost: where `operator_sdk.util.osdk_metric` sends the metrics of roles and playbooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

from aiohttp import web

from runner.logs import Logger
from runner.observe.endpoint import Address, Listener
from runner.observe.user_metrics import RefusedMetric


class UserMetricsServer:
    """A Service of the assembly that can do without its port: roles that send metrics then fail, nothing else."""

    def __init__(self, *, address: Address | None, handle: Callable[[object], str | None], logger: Logger) -> None:
        """Give each request's JSON to *handle*; *address* None listens nowhere."""
        self._listener = None if address is None else Listener(address=address)
        self._handle = handle
        self._logger = logger

    @property
    def port(self) -> int | None:
        """Return the port that it listens on."""
        return None if self._listener is None else self._listener.port

    async def start(self) -> None:
        """Listen, or say that this is not possible."""
        if self._listener is None:
            return
        app = web.Application()
        app.add_routes([web.route("*", "/metrics", self._metrics)])
        try:
            await self._listener.start(app)
        except OSError as error:
            self._logger.warning(
                "The address for user metrics is taken; going on without them. Choose another one with "
                "--user-metrics-bind-address, or 0 to switch it off",
                Address=str(self._listener),
                error=error.strerror or str(error),
            )
            return
        self._logger.info("Starting to serve metrics listener", Address=str(self._listener), port=self.port)

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.stop()

    async def _metrics(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return web.Response(status=405, text="Method not allowed\n", headers={"Allow": "POST"})
        try:
            document = json.loads(await request.read(), parse_constant=_refuse_constant)
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
