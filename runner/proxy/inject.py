"""The layer that says whose the objects are that a run makes: it puts the owner's marks into the bodies of writes.

Of a POST always; of a PUT and a server-side apply where the object doesn't exist yet, and where it is the owner's
already, as both drop what the body leaves out. What exists and isn't the owner's is never adopted. Subresources, kinds
that only answer questions (reviews), Events, and the patches that can't create anything pass as they are.

An object is not created without its owner in silence: what can't be looked up or read is refused with a sentence, and
what has to be passed on in a format that is not understood here (protobuf, CBOR) is told in the log (`unowned`).
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass

from aiohttp import web

from runner.errors import Forbidden, KubeError, NotFound, OperatorError
from runner.kube.discovery import Resource
from runner.kube.mapping import Mapped, Mapper
from runner.kube.metadata import Streams, read_metadata
from runner.logs import Logger
from runner.proxy.bodies import Choose, UnreadableBody, is_json, marked_json, unpacked
from runner.proxy.dependents import Dependents
from runner.proxy.exchange import Exchange, Handler, Owner
from runner.proxy.ownership import Marks, carried, may_be_dependent, wanted
from runner.proxy.refusals import refusal
from runner.proxy.request_info import RequestInfo
from runner.proxy.unowned import MAY_NOT_GET, NOT_READABLE, NOT_SERVED, Reason, Unowned
from runner.proxy.yaml_bodies import marked_yaml

_NEEDED_VERBS = frozenset({"get", "list", "watch"})
"""A kind without one of them isn't stored: its objects are questions and answers."""
_LARGE = 256 * 1024
"""Bytes; what is larger is read in a thread, so that other requests go on."""
_MOST_UNPACKED = 4 * 1024 * 1024


class _Deed(enum.Enum):
    """What a request does, as far as owners are concerned."""

    OTHER = enum.auto()
    CREATE = enum.auto()
    REPLACE_OR_CREATE = enum.auto()


class _Format(enum.Enum):
    """How a body is written."""

    JSON = enum.auto()
    YAML = enum.auto()
    UNKNOWN = enum.auto()


_FORMATS = {
    "": _Format.JSON,  # the API server's own guess
    "application/json": _Format.JSON,
    "application/yaml": _Format.YAML,
    "application/apply-patch+yaml": _Format.YAML,
}
_APPLY = "application/apply-patch+"


class OwnerInjection:
    """The layer."""

    def __init__(self, *, mapper: Mapper, client: Streams, dependents: Dependents, logger: Logger) -> None:
        """Inject for each request of a run.

        Args:
            mapper: tells the kind of a URL.
            client: reads live objects, with the operator's rights.
            dependents: told of a kind before the first object of it is made.
            logger: gets what passes without an owner.
        """
        self._mapper = mapper
        self._client = client
        self._dependents = dependents
        self._unowned = Unowned(logger)

    def __call__(self, handler: Handler) -> Handler:
        """Return the layer around *handler*."""

        async def handle(exchange: Exchange) -> web.StreamResponse:
            deed, caller = _deed(exchange), exchange.caller
            if caller is None or deed is _Deed.OTHER:
                return await handler(exchange)
            try:
                passed = await self._prepare(exchange, deed=deed, owner=caller.owner)
            except UnreadableBody as error:
                return _unreadable(exchange.info, error)
            except _UndecidedError as error:
                return refusal(message=str(error), status=503, reason="ServiceUnavailable", retry_after=1)
            answer = await handler(exchange)
            if passed is not None and answer.status < 300:
                self._unowned.tell(passed, info=exchange.info, caller=caller, content_type=_content_type(exchange))
            return answer

        return handle

    async def _prepare(self, exchange: Exchange, *, deed: _Deed, owner: Owner) -> Reason | None:
        """Put the marks into the body where they belong, or return why nobody can."""
        mapped = await self._mapped(exchange.info)
        if mapped is None:
            return NOT_SERVED
        if not mapped.verbs >= _NEEDED_VERBS or not may_be_dependent(mapped.resource.gvk):
            return None
        if _format(exchange) is _Format.UNKNOWN:
            return NOT_READABLE
        marks: Marks | None = None
        if deed is _Deed.REPLACE_OR_CREATE:
            try:
                marks = await self._live(exchange.info, resource=mapped.resource, owner=owner)
            except Forbidden:
                return MAY_NOT_GET
        if marks is None or marks:
            await self._inject(exchange, resource=mapped.resource, owner=owner, kept=marks)
        return None

    async def _mapped(self, info: RequestInfo) -> Mapped | None:
        try:
            return await self._mapper.find(info.group, info.version, plural=info.resource, namespaced=info.namespaced)
        except OperatorError as error:
            where = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
            raise _UndecidedError(
                f"the proxy could not ask the API server what {_label(info)} is ({_text(error)}), so the object was "
                "not sent on, as it would have no owner; try again, and if that stays look at "
                f"`kubectl get --raw {where}`"
            ) from error

    async def _live(self, info: RequestInfo, *, resource: Resource, owner: Owner) -> Marks | None:
        """Return *owner*'s marks on the object as it is, None where there is no object."""
        namespace = info.namespace if resource.namespaced else ""
        try:
            metadata = await read_metadata(self._client, resource, namespace=namespace, name=info.name)
        except NotFound:
            return None
        except Forbidden:
            raise
        except OperatorError as error:
            raise _UndecidedError(
                f"the proxy could not look whether {_label(info)} {info.name} exists ({_text(error)}), so this "
                f"{info.method} was not sent on, as the object could be left without its owner; try again"
            ) from error
        return carried(metadata, owner=owner)

    async def _inject(self, exchange: Exchange, *, resource: Resource, owner: Owner, kept: Marks | None) -> None:
        """Replace the body by one with the marks that are *kept*, or those of a new object."""
        place = _Place(namespace=exchange.info.namespace)

        def choose(of_body: str) -> Marks:
            place.namespace = place.namespace or of_body
            return kept or wanted(owner, resource=resource, namespace=place.namespace)

        body, written = await exchange.read(), _format(exchange)
        if len(body) > _LARGE or not is_json(body):  # YAML and what is packed take their time
            exchange.body = await asyncio.to_thread(_marked, body, written=written, choose=choose)
        else:
            exchange.body = _marked(body, written=written, choose=choose)
        exchange.content_type = exchange.request.headers.get("Content-Type") or "application/json"
        if "dryRun" not in exchange.request.query:
            namespace = place.namespace if resource.namespaced else ""
            await self._dependents.ensure(resource, namespace=namespace, owner=owner)


class _UndecidedError(Exception):
    """Nobody can tell whether an owner belongs into a body; the text is for the client."""


@dataclass(kw_only=True)
class _Place:
    """The namespace of an object, of which the URL tells nothing until the body is read."""

    namespace: str


def _deed(exchange: Exchange) -> _Deed:
    info = exchange.info
    if not info.is_resource or not info.resource or info.subresource:
        return _Deed.OTHER
    if info.verb == "create" and not info.name:
        return _Deed.CREATE
    applies = info.verb == "patch" and _content_type(exchange).startswith(_APPLY)
    return _Deed.REPLACE_OR_CREATE if info.name and (info.verb == "update" or applies) else _Deed.OTHER


def _content_type(exchange: Exchange) -> str:
    return exchange.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _format(exchange: Exchange) -> _Format:
    return _FORMATS.get(_content_type(exchange), _Format.UNKNOWN)


def _marked(body: bytes, *, written: _Format, choose: Choose) -> bytes:
    plain = unpacked(body, limit=_MOST_UNPACKED)
    if written is _Format.YAML and not is_json(plain):
        return marked_yaml(plain, choose)
    try:
        return marked_json(plain, choose)
    except UnreadableBody:
        if written is _Format.JSON:
            raise
        return marked_yaml(plain, choose)  # {a: b} is YAML, and no JSON


def _label(info: RequestInfo) -> str:
    return f"{info.resource}.{info.group}" if info.group else info.resource


def _unreadable(info: RequestInfo, error: UnreadableBody) -> web.Response:
    return refusal(
        message=f"no owner can be noted in the body of this {info.method} of {_label(info)}, so it was not sent to the "
        f"API server: {error}; send one object, as JSON or YAML",
        status=400,
        reason="BadRequest",
    )


def _text(error: OperatorError) -> str:
    return error.message if isinstance(error, KubeError) and error.message else str(error)
