"""The layer that tells of each write of a run: before it is sent, and what the API server answered.

A change that a run made itself starts no further run of its owner (`runner.sources.own_writes`). The answer names the
object's UID and new resource version, and the watch tells the same two. That holds for subresources, too: `status`
answers the whole object (so do `finalize` of a Namespace, and `approval` of a certificate request), and `scale` a Scale
with UID and resource version of the object that is scaled. The deletion of a collection answers a list of what is
deleted.

An answer that carries the owner's marks has its kind watched, too: a role's patch of what is there may be all that ever
touches a dependent that could not be watched when it was made, or when the operator started. Nobody waits for that
watch: the object is there already.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from runner.kube.discovery import Resource
from runner.kube.objects import metadata
from runner.proxy.dependents import Dependents, OwnWrites
from runner.proxy.exchange import Exchange, Handler, Layer, Owner
from runner.proxy.ownership import carried
from runner.proxy.request_info import RequestInfo

LookUp = Callable[[RequestInfo], Awaitable[Resource | None]]
"""Returns the resource that a request is about, None where it is not known."""

_DELETIONS = {"delete", "deletecollection"}
_VERBS = {"create", "update", "patch"} | _DELETIONS
_SUBRESOURCES = {"", "status", "scale", "ephemeralcontainers", "resize", "finalize", "approval"}
"""Whose update and patch are answered with UID and resource version of the object; `proxy` may answer anything."""


def recording(own: OwnWrites, *, dependents: Dependents, look_up: LookUp) -> Layer:
    """Return the layer that tells *own* of the writes of runs, and *dependents* of what they find to be their own."""

    def layer(inner: Handler) -> Handler:
        async def record(exchange: Exchange) -> web.StreamResponse:
            caller, info = exchange.caller, exchange.info
            if caller is None or not await _counts(exchange) or (resource := await look_up(info)) is None:
                return await inner(exchange)
            # a request about a Namespace has its name in both places
            namespace = info.namespace if resource.namespaced else ""

            def answered(status: int, _headers: Mapping[str, str], body: bytes) -> None:
                writing.answered(status=status, body=body)
                if status < 300 and info.verb not in _DELETIONS and _is_owned(body, owner=caller.owner):
                    dependents.follow(resource, namespace=namespace, owner=caller.owner)

            with own.writing(resource, namespace=namespace, name=info.name, verb=info.verb, caller=caller) as writing:
                exchange.answer_watchers.append(answered)
                return await inner(exchange)

        return record

    return layer


async def _counts(exchange: Exchange) -> bool:
    """Tell whether the request changes something, and the answer shows what and how.

    Not a create on a subresource (token, eviction, binding), whose answer is another object.
    """
    info = exchange.info
    subresources = _SUBRESOURCES if info.verb in {"update", "patch"} else {""}
    if not info.is_resource or info.verb not in _VERBS or info.subresource not in subresources:
        return False
    if exchange.request.query.get("dryRun"):
        return False
    return info.verb not in _DELETIONS or not await _may_be_dry(exchange)


async def _may_be_dry(exchange: Exchange) -> bool:
    """Tell whether a deletion may be a dry run: alone of the writes that count, its options may be its body.

    So it is where the body can't be read here: to take a deletion for nobody's costs a run more, to take one that never
    happened for a run's own could hide somebody else's.
    """
    if not exchange.request.can_read_body or not (body := await exchange.read()):
        return False
    try:
        options = json.loads(body)
    except (ValueError, RecursionError):  # YAML or protobuf, for example
        return True
    return not isinstance(options, dict) or bool(options.get("dryRun"))


def _is_owned(body: bytes, *, owner: Owner) -> bool:
    """Tell whether *body* is an object that says it is *owner*'s; of another form than JSON nobody can."""
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(carried(metadata(document), owner=owner))
