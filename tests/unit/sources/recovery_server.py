"""A small API server for the search for dependents: aggregated or plain discovery, lists of metadata, and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from runner.kube.objects import Object

AGGREGATED = "APIGroupDiscoveryList"
ALL = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(kw_only=True)
class Kind:
    """One kind that is served."""

    group: str = ""
    version: str = "v1"
    kind: str
    plural: str
    namespaced: bool = True
    verbs: Sequence[str] = ALL
    pages: list[list[Object]] = field(default_factory=lambda: [[]])
    """Metadata of the objects."""
    status: int = 200
    """Of the answer to a list."""
    stale: bool = False
    """Its aggregated API doesn't answer."""
    expires: bool = False
    """The first continue token is too old."""

    @property
    def api_version(self) -> str:
        """Return group and version as in URLs."""
        return f"{self.group}/{self.version}" if self.group else self.version


class RecoveryServer:
    """Listens on a free port of 127.0.0.1; an async context manager."""

    def __init__(self, *kinds: Kind, aggregated: bool = True) -> None:
        """Serve *kinds*."""
        self.kinds = list(kinds)
        self.aggregated = aggregated
        self.down = 0
        """Answer everything with this status; 0: don't."""
        self.held: asyncio.Event | None = None
        """Lists are answered when it is set."""
        self.lists: list[tuple[str, dict[str, str]]] = []
        """Path and query of each list."""
        self.rules: list[Object] | None = None
        """What a review of rights tells; None: there are none."""
        self.rules_in: dict[str, list[Object]] = {}
        """Instead, for single namespaces."""
        self.incomplete = False
        self.reviewed: list[str] = []
        """The namespaces of the reviews."""
        self.requests = 0
        self._stack = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> RecoveryServer:
        """Listen."""
        await self._stack.setup()
        await web.TCPSite(self._stack, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._stack.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        await self._stack.cleanup()

    def listed(self, plural: str) -> int:
        """Return how many lists of *plural* there were."""
        return sum(path.rpartition("/")[2] == plural for path, _ in self.lists)

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", self._review)
        application.router.add_get("/{path:.*}", self._handle)
        return application

    async def _review(self, request: web.Request) -> web.Response:
        self.requests += 1
        namespace = (await request.json())["spec"]["namespace"]
        self.reviewed.append(namespace)
        rules = self.rules_in.get(namespace, self.rules)
        if rules is None:
            return _status(404)
        return web.json_response({"status": {"resourceRules": rules, "incomplete": self.incomplete}})

    async def _handle(self, request: web.Request) -> web.Response:
        self.requests += 1
        if self.down:
            return _status(self.down)
        parts = request.path.strip("/").split("/")
        if parts in (["api"], ["apis"]):
            kinds = [kind for kind in self.kinds if bool(kind.group) == (parts == ["apis"])]
            wants = AGGREGATED in request.headers["Accept"]
            return web.json_response((_aggregated if self.aggregated and wants else _groups)(kinds))
        api_version = "/".join(parts[1:3] if parts[0] == "apis" else parts[1:2])
        kinds = [kind for kind in self.kinds if kind.api_version == api_version]
        if len(parts) == (3 if parts[0] == "apis" else 2):
            return _status(503) if any(kind.stale for kind in kinds) else web.json_response(_plain(kinds))
        return await self._list(request, next(kind for kind in kinds if kind.plural == parts[-1]))

    async def _list(self, request: web.Request, kind: Kind) -> web.Response:
        self.lists.append((request.path, dict(request.query)))
        assert "PartialObjectMetadataList" in request.headers["Accept"]
        if self.held is not None:
            await self.held.wait()
        if kind.status != 200:
            return _status(kind.status)
        number = int(request.query.get("continue", "0"))
        if number and kind.expires:
            return _status(410)
        pages = kind.pages if "limit" in request.query else [[item for page in kind.pages for item in page]]
        following = {"continue": str(number + 1)} if number + 1 < len(pages) else {}
        items = [{"metadata": item, "spec": {"never": "kept"}} for item in pages[number]]
        return web.json_response({"metadata": {"resourceVersion": "1", **following}, "items": items})


def _status(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "message": f"answer {code}", "code": code}, status=code)


def _aggregated(kinds: Sequence[Kind]) -> Object:
    items = [
        {
            "metadata": {"name": kind.group},
            "versions": [
                {
                    "version": kind.version,
                    "freshness": "Stale" if kind.stale else "Current",
                    "resources": []
                    if kind.stale
                    else [
                        {
                            "resource": kind.plural,
                            "responseKind": {"kind": kind.kind},
                            "scope": "Namespaced" if kind.namespaced else "Cluster",
                            "verbs": list(kind.verbs),
                        }
                    ],
                }
            ],
        }
        for kind in kinds
    ]
    return {"kind": AGGREGATED, "items": items}


def _groups(kinds: Sequence[Kind]) -> Object:
    if not any(kind.group for kind in kinds):
        return {"kind": "APIVersions", "versions": sorted({kind.version for kind in kinds})}
    groups: list[dict[str, Any]] = [
        {
            "name": kind.group,
            "versions": [{"groupVersion": kind.api_version}],
            "preferredVersion": {"groupVersion": kind.api_version},
        }
        for kind in kinds
    ]
    return {"kind": "APIGroupList", "groups": groups}


def _plain(kinds: Sequence[Kind]) -> Object:
    resources = [
        {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced, "verbs": list(kind.verbs)}
        for kind in kinds
    ]
    return {"kind": "APIResourceList", "resources": resources}
