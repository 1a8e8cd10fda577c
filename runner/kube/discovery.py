"""Which URL belongs to a kind: `Resource` and its look-up through API discovery. `mapping` has the other direction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from runner.errors import Call, NotFound
from runner.kube.objects import GVK, Object


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One kind as the API server serves it."""

    gvk: GVK
    plural: str
    namespaced: bool = True
    subresources: frozenset[str] = field(default_factory=frozenset)
    """Names such as `status` and `scale`."""

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object or of its subresource.

        An empty *namespace* of a namespaced kind is the collection over all namespaces.
        """
        root = f"/apis/{self.gvk.api_version}" if self.gvk.group else f"/api/{self.gvk.version}"
        middle = ["namespaces", namespace] if self.namespaced and namespace else []
        return "/".join(part for part in [root, *middle, self.plural, name, subresource] if part)

    def label(self, subresource: str = "") -> str:
        """Return the name that RBAC rules and messages use: `plural.group/subresource`."""
        group = f".{self.gvk.group}" if self.gvk.group else ""
        tail = f"/{subresource}" if subresource else ""
        return f"{self.plural}{group}{tail}"


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A resource, and what can be done with it."""

    resource: Resource
    verbs: frozenset[str]
    """As discovery tells them: get, list, watch, create, ..."""


def served_in(document: Mapping[str, Any], *, group: str, version: str) -> Iterator[Mapped]:
    """Give what an APIResourceList, the discovery *document* of one group and version, serves."""
    entries = [entry for entry in document.get("resources") or () if entry.get("name") and entry.get("kind")]
    for entry in entries:
        name = entry["name"]
        if "/" in name:
            continue
        prefix = f"{name}/"
        subresources = {other["name"].removeprefix(prefix) for other in entries if other["name"].startswith(prefix)}
        resource = Resource(
            gvk=GVK(group, version, entry["kind"]),
            plural=name,
            namespaced=bool(entry.get("namespaced")),
            subresources=frozenset(subresources),
        )
        yield Mapped(resource=resource, verbs=frozenset(entry.get("verbs") or ()))


class Requests(Protocol):
    """The one verb of the client that discovery needs."""

    async def request(self, method: str, path: str, *, call: Call) -> Object:
        """Send one request."""
        ...


class Discovery:
    """Finds resources by kind and remembers those that it found (a missing kind is asked for again each time)."""

    def __init__(self, *, client: Requests) -> None:
        """Ask through *client*."""
        self._client = client
        self._known: dict[GVK, Resource] = {}

    async def resource(self, gvk: GVK) -> Resource:
        """Return the resource of *gvk*; raise `NotFound` where the API server does not serve that kind."""
        if gvk not in self._known:
            self._known[gvk] = await self._find(gvk)
        return self._known[gvk]

    def forget(self, gvk: GVK) -> None:
        """Ask again next time: a CRD was removed, or created anew with other subresources."""
        with contextlib.suppress(KeyError):
            del self._known[gvk]

    async def again(self, gvk: GVK) -> Resource:
        """Return the resource of *gvk* as it is served now, and remember that one."""
        self.forget(gvk)
        return await self.resource(gvk)

    async def _find(self, gvk: GVK) -> Resource:
        root = f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.version}"
        call = Call(verb="discover", resource=str(gvk))
        document = await self._client.request("GET", root, call=call)
        for served in served_in(document, group=gvk.group, version=gvk.version):
            if served.resource.gvk == gvk:
                return served.resource
        raise NotFound(f"the API server serves {gvk.api_version}, but no kind {gvk.kind} in it", call=call, status=404)
