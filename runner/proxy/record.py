"""The layer that tells of each write of a run: before it is sent, and what the API server answered.

A change that a run made itself starts no further run of its owner (`runner.sources.own_writes`). The answer names the
object's UID and new resource version, and the watch tells the same two. That holds for subresources, too: `status`
answers the whole object, and `scale` a Scale with UID and resource version of the object that is scaled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from runner.kube.discovery import Resource
from runner.proxy.dependents import OwnWrites, Writing
from runner.proxy.exchange import Exchange, Handler, Layer
from runner.proxy.request_info import RequestInfo

LookUp = Callable[[RequestInfo], Awaitable[Resource | None]]
"""Returns the resource that a request is about, None where it is not known."""

_VERBS = {"create", "update", "patch", "delete"}


def recording(own: OwnWrites, *, look_up: LookUp) -> Layer:
    """Return the layer that tells *own* of the writes of runs."""

    def layer(inner: Handler) -> Handler:
        async def record(exchange: Exchange) -> web.StreamResponse:
            caller, info = exchange.caller, exchange.info
            if caller is None or not _counts(exchange) or (resource := await look_up(info)) is None:
                return await inner(exchange)
            # a request about a Namespace has its name in both places
            namespace = info.namespace if resource.namespaced else ""
            with own.writing(resource, namespace=namespace, name=info.name, verb=info.verb, caller=caller) as writing:
                exchange.answer_watchers.append(_watcher(writing))
                return await inner(exchange)

        return record

    return layer


def _counts(exchange: Exchange) -> bool:
    """Tell whether the request changes one object, and the answer shows which and how.

    Not a create on a subresource (token, eviction, binding), whose answer is another object, nor a deletion of many.
    """
    info = exchange.info
    if not info.is_resource or info.verb not in _VERBS or (info.subresource and info.verb not in {"update", "patch"}):
        return False
    return not exchange.request.query.get("dryRun")


def _watcher(writing: Writing) -> Callable[[int, Mapping[str, str], bytes], None]:
    def answered(status: int, _headers: Mapping[str, str], body: bytes) -> None:
        writing.answered(status=status, body=body)

    return answered
