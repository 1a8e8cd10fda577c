"""The layer that finds out who speaks: a live run, nobody in particular, or somebody with credentials of no live run.

The first two go on, with `Exchange.caller` set or not; the third is refused. Each request is counted here, by the
three of them and by the answer's status.

A request lasts no longer than the run that sent it, nor an unowned write longer than the leadership: what is still
under way then, such as a watch or a shell in a Pod that a task left behind, is broken off.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiohttp import web

from runner.kube.client import NO_ANSWER
from runner.proxy.connection import is_begun
from runner.proxy.exchange import Exchange, Handler, Layer
from runner.proxy.fence import writes
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
            # several headers of one name are one with commas, says HTTP
            headers = exchange.request.headers.getall("Authorization", [])
            try:
                exchange.caller = runs.authenticate(", ".join(headers) if headers else None)
            except CallerRefused as error:
                count(caller=REFUSED, code="403")
                return refusal(message=str(error))
            caller, code = RUN if exchange.caller else NOBODY, NO_ANSWER
            try:
                response = await _until_ended(handler, exchange, runs=runs)
                code = str(response.status)
                return response
            finally:
                count(caller=caller, code=code)

        return handle

    return layer


async def _until_ended(handler: Handler, exchange: Exchange, *, runs: Runs) -> web.StreamResponse:
    if exchange.caller is None and not writes(exchange.request):
        return await handler(exchange)
    task = asyncio.current_task()
    assert task is not None, "a layer runs in a task"  # noqa: S101 - for the type checker
    cancelled_before = task.cancelling()

    def end(reason: str) -> None:
        if not exchange.ended:
            exchange.ended = reason
            task.cancel()

    with runs.speaking(exchange.caller, end):
        try:
            return await handler(exchange)
        except asyncio.CancelledError:
            if not exchange.ended or task.uncancel() > cancelled_before:
                raise  # the client left, or the proxy stops
    if is_begun(exchange.request):
        raise ConnectionResetError(exchange.ended)  # what was cut short must not look complete
    return refusal(message=f"{exchange.ended}. The request was under way; what it asked may have been done or not")
