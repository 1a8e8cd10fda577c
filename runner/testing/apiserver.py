"""A small API server in memory, for exact sequences of lists and watches that the real one cannot be made to show.

It knows discovery, list with paging, watch with history, and plain create / replace / delete over HTTP. It has no
validation, admission, subresources or patches: everything else is tested against the real API server, and the
informer's contract (`runner.testing.contracts`) runs against both, so this one cannot drift away unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from runner.kube.discovery import Resource
from runner.kube.objects import Object, resource_version_of
from runner.testing.faults import status_body
from runner.testing.kubeconfig import write_kubeconfig

Event = tuple[int, str, Object]
"""Resource version, type, object."""


@dataclass(kw_only=True)
class _Kind:
    """What the server knows of one kind."""

    resource: Resource
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    watchers: set[asyncio.Queue[Event | None]] = field(default_factory=set)


class FakeApiServer:
    """Serves the kinds that were defined; an async context manager that listens on a free port of 127.0.0.1."""

    def __init__(self) -> None:
        """Start without kinds, at resource version 1."""
        self.port = 0
        self.token = ""
        """The bearer token that requests must carry; empty: none."""
        self.refused = 0
        """How many requests came without it."""
        self._kinds: dict[str, _Kind] = {}
        self._version = 1
        self._oldest = 0
        self._uids = 0
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> FakeApiServer:
        """Listen."""
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self.port = runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the watches and stop listening."""
        self.end_watches()
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Return the server's address."""
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self, path: Path, *, user: dict[str, Any] | None = None) -> Path:
        """Write a kubeconfig (mode 0600) for this server."""
        return write_kubeconfig(path, server=self.url, user=user)

    def define(self, resource: Resource) -> None:
        """Serve a kind, as after the creation of its CRD."""
        self._kinds[resource.plural] = _Kind(resource=resource)

    def undefine(self, plural: str) -> None:
        """Serve a kind no longer, as after the deletion of its CRD: objects go first, then the watches end."""
        kind = self._kinds[plural]
        for obj in list(kind.objects.values()):
            self._remove(kind, obj)
        del self._kinds[plural]
        _end(kind)

    def put(self, resource: Resource, *, body: Object, namespace: str = "") -> None:
        """Create an object without a request: one that is too large to be sent in one piece, for example."""
        self._create(self._kinds[resource.plural], body, namespace=namespace)

    def compact(self) -> None:
        """Forget the history: a watch from an older resource version gets 410."""
        self._oldest = self._version
        for kind in self._kinds.values():
            kind.history = []

    def end_watches(self) -> None:
        """End all watches as a server does after their time-out."""
        for kind in self._kinds.values():
            _end(kind)

    def bookmark(self) -> int:
        """Send a bookmark with the newest resource version into all watches, and return that version."""
        self._version += 1
        for kind in self._kinds.values():
            mark = {
                "apiVersion": kind.resource.gvk.api_version,
                "kind": kind.resource.gvk.kind,
                "metadata": {"resourceVersion": str(self._version)},
            }
            _send(kind, (self._version, "BOOKMARK", mark))
        return self._version

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            self.refused += 1
            return _refusal(401)
        parts = request.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if not rest:
            return self._discovery("/".join(parts[1:]))
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kind = self._kinds.get(rest[0])
        if kind is None:
            return _refusal(404)
        if len(rest) == 1:
            return await self._collection(request, kind, namespace=namespace)
        return await self._single(request, kind, key=(namespace, rest[1]))

    def _discovery(self, api_version: str) -> web.Response:
        resources = [kind.resource for kind in self._kinds.values()]
        served = [
            {"name": resource.plural, "kind": resource.gvk.kind, "namespaced": resource.namespaced}
            for resource in resources
            if resource.gvk.api_version == api_version
        ]
        return web.json_response({"resources": served}) if served else _refusal(404)

    async def _collection(self, request: web.Request, kind: _Kind, *, namespace: str) -> web.StreamResponse:
        if request.method == "POST":
            return self._create(kind, json.loads(await request.read()), namespace=namespace)
        if request.query.get("watch") in {"1", "true"}:
            return await self._watch(request, kind, namespace=namespace)
        return self._list(request, kind, namespace=namespace)

    def _list(self, request: web.Request, kind: _Kind, *, namespace: str) -> web.Response:
        items = [obj for key, obj in sorted(kind.objects.items()) if namespace in {"", key[0]}]
        start = int(request.query.get("continue") or 0)
        end = start + int(request.query.get("limit") or len(items) or 1)
        meta = {"resourceVersion": str(self._version)}
        if end < len(items):
            meta["continue"] = str(end)
        bare = [{key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}} for obj in items]
        return web.json_response({"metadata": meta, "items": bare[start:end]})

    async def _watch(self, request: web.Request, kind: _Kind, *, namespace: str) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if since < self._oldest:
            await response.write(_line("ERROR", status_body(410)))
            return response
        for past in kind.history:
            if past[0] > since:
                queue.put_nowait(past)
        kind.watchers.add(queue)
        try:
            while (event := await queue.get()) is not None:
                obj = event[2]
                if event[1] == "BOOKMARK" or namespace in {"", obj["metadata"].get("namespace", "")}:
                    await response.write(_line(event[1], obj))
        finally:
            kind.watchers.discard(queue)
        return response

    async def _single(self, request: web.Request, kind: _Kind, *, key: tuple[str, str]) -> web.Response:
        found = kind.objects.get(key)
        if found is None:
            return _refusal(404)
        if request.method == "DELETE":
            self._remove(kind, found)
        if request.method == "PUT":
            return self._replace(kind, json.loads(await request.read()), old=found)
        return web.json_response(found)

    def _create(self, kind: _Kind, body: Object, *, namespace: str) -> web.Response:
        key = (namespace, body["metadata"]["name"])
        if key in kind.objects:
            return _refusal(409, reason="AlreadyExists")
        self._uids += 1
        meta = {**body["metadata"], "uid": f"uid-{self._uids}", **({"namespace": namespace} if namespace else {})}
        return web.json_response(self._store(kind, {**body, "metadata": meta}, change="ADDED"), status=201)

    def _replace(self, kind: _Kind, body: Object, *, old: Object) -> web.Response:
        if resource_version_of(body) not in {"", resource_version_of(old)}:
            return _refusal(409)
        meta = {**body["metadata"], "uid": old["metadata"]["uid"]}
        return web.json_response(self._store(kind, {**body, "metadata": meta}, change="MODIFIED"))

    def _store(self, kind: _Kind, obj: Object, *, change: str) -> Object:
        self._version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        kind.objects[stored["metadata"].get("namespace", ""), stored["metadata"]["name"]] = stored
        self._record(kind, change=change, obj=stored)
        return stored

    def _remove(self, kind: _Kind, obj: Object) -> None:
        self._version += 1
        del kind.objects[obj["metadata"].get("namespace", ""), obj["metadata"]["name"]]
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        self._record(kind, change="DELETED", obj=last)

    def _record(self, kind: _Kind, *, change: str, obj: Object) -> None:
        event = (self._version, change, obj)
        kind.history.append(event)
        _send(kind, event)


def _send(kind: _Kind, event: Event | None) -> None:
    for queue in kind.watchers:
        queue.put_nowait(event)


def _end(kind: _Kind) -> None:
    _send(kind, None)


def _line(change: str, obj: Object) -> bytes:
    return json.dumps({"type": change, "object": obj}).encode() + b"\n"


def _refusal(status: int, *, reason: str = "") -> web.Response:
    return web.json_response(status_body(status, reason=reason, message=f"refused with {status}"), status=status)
