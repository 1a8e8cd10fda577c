"""The layer that finds out who speaks: a live run, nobody in particular, or somebody with credentials of no live run.

The first two go on, with `Exchange.caller` set or not; the third is refused. Each request is counted here, by the
three of them and by the answer's status.
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from runner.kube.client import NO_ANSWER
from runner.proxy.exchange import Exchange, Handler, Layer
from runner.proxy.refusals import refusal
from runner.proxy.runs import CallerRefused, Runs

RUN, NOBODY, REFUSED = "run", "none", "refused"


class Count(Protocol):
    """Counts requests (`runner.observe.metrics.Metrics.proxy_request`)."""

    def __call__(self, *, caller: str, code: str) -> None:
        """Take one request: `run`, `none` or `refused`, and the status of its answer."""
        ...


def identify(*, runs: Runs, count: Count) -> Layer:
    """Return the layer that asks *runs* and tells *count*."""

    def layer(handler: Handler) -> Handler:
        async def handle(exchange: Exchange) -> web.StreamResponse:
            try:
                exchange.caller = runs.authenticate(exchange.request.headers.get("Authorization"))
            except CallerRefused as error:
                count(caller=REFUSED, code="403")
                return refusal(message=str(error))
            caller, code = RUN if exchange.caller else NOBODY, NO_ANSWER
            try:
                response = await handler(exchange)
                code = str(response.status)
                return response
            finally:
                count(caller=caller, code=code)

        return handle

    return layer
