"""Everything that the API server serves, and the metadata of all objects of a kind: what a scan at the start needs.

Aggregated discovery answers in two requests; a server that doesn't know it is asked group by group. Objects are read
as PartialObjectMetadata: names, owner references and annotations, and nothing of what they hold.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

import aiohttp

from runner.errors import Call, Gone, KubeError
from runner.kube.client import KubeClient, Query
from runner.kube.discovery import Mapped, Resource, served_in
from runner.kube.documents import read_json
from runner.kube.objects import GVK, Object, metadata, name_of
from runner.kube.rules import Rules, rules_in

_AGGREGATED = "APIGroupDiscoveryList"
_DISCOVERY = ",".join([
    *(f"application/json;g=apidiscovery.k8s.io;v={version};as={_AGGREGATED}" for version in ("v2", "v2beta1")),
    "application/json",
])
_METADATA = "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadataList,application/json"
_PAGE_SIZE = "500"
_ROOTS = ("/api", "/apis")


class Catalogue:
    """Reads what is served."""

    def __init__(self, *, client: KubeClient, timeout: float = 30.0) -> None:
        """Ask through *client*; one answer may take *timeout* seconds."""
        self._client = client
        self._timeout = timeout

    async def kinds(self, *, skipped: Callable[[str, str], None]) -> list[Mapped]:
        """Return every kind once per version, the versions of a group in the server's order.

        *skipped* is told the group and version, and why, of what can't be said, such as a broken aggregated API.

        Raises:
            KubeError: the API server doesn't answer at all.
        """
        found: list[Mapped] = []
        for root in _ROOTS:
            document = await self._get(root, accept=_DISCOVERY, call=Call(verb="discover", resource=root.strip("/")))
            if document.get("kind") == _AGGREGATED:
                found += _aggregated(document, skipped=skipped)
            else:
                found += await self._one_by_one(root, document, skipped=skipped)
        return found

    async def rules(self, namespace: str) -> Rules:
        """Return what may be done in *namespace*; empty: in all of them, of which any one tells more than enough."""
        return await rules_in(self._client, namespace or "default")

    async def metadata_pages(self, resource: Resource, *, namespace: str = "") -> AsyncGenerator[list[Object]]:
        """Yield all objects of a kind (of *namespace* where given) by pages: apiVersion, kind and metadata of each.

        Raises:
            KubeError: they can't be listed.
        """
        call = Call(verb="list", resource=resource.label(), namespace=namespace)
        path = resource.path(namespace=namespace)
        query: Query = (("limit", _PAGE_SIZE),)
        while True:
            try:
                page = await self._get(path, accept=_METADATA, call=call, query=query)
            except Gone:
                if len(query) < 2:
                    raise
                query = ()  # the continue token expired: once more, all in one answer
                continue
            yield [_only_metadata(item, gvk=resource.gvk) for item in page.get("items") or []]
            token = metadata(page).get("continue")
            if not token:
                return
            query = (("limit", _PAGE_SIZE), ("continue", str(token)))

    async def _one_by_one(
        self, root: str, document: Mapping[str, Any], *, skipped: Callable[[str, str], None]
    ) -> list[Mapped]:
        found: list[Mapped] = []
        for api_version in _api_versions(document):
            call = Call(verb="discover", resource=api_version)
            try:
                answer = await self._get(f"{root}/{api_version}", accept="application/json", call=call)
            except KubeError as error:
                skipped(api_version, str(error))
                continue
            group, _, version = api_version.rpartition("/")
            found += served_in(answer, group=group, version=version)
        return found

    async def _get(self, path: str, *, accept: str, call: Call, query: Query = ()) -> Mapping[str, Any]:
        timeout = aiohttp.ClientTimeout(total=self._timeout, sock_connect=self._client.connect_timeout)
        stream = self._client.stream("GET", path, call=call, query=query, headers={"Accept": accept}, timeout=timeout)
        async with stream as response:
            document = await read_json(response, call=call)
        return document if isinstance(document, dict) else {}


def _aggregated(document: Mapping[str, Any], *, skipped: Callable[[str, str], None]) -> Iterator[Mapped]:
    for group in document.get("items") or []:
        name = name_of(group)
        for version in group.get("versions") or []:
            if version.get("freshness") == "Stale":
                skipped(f"{name}/{version['version']}", "its server does not answer the API server")
                continue
            for entry in version.get("resources") or []:
                gvk = GVK(name, version["version"], (entry.get("responseKind") or {}).get("kind") or "")
                namespaced = entry.get("scope") == "Namespaced"
                resource = Resource(gvk=gvk, plural=entry["resource"], namespaced=namespaced)
                yield Mapped(resource=resource, verbs=frozenset(entry.get("verbs") or ()))


def _api_versions(document: Mapping[str, Any]) -> list[str]:
    """Return the paths below the root: versions of the core group, or `group/version`, preferred ones first."""
    found = [str(version) for version in document.get("versions") or []]
    for group in document.get("groups") or []:
        preferred = str((group.get("preferredVersion") or {}).get("groupVersion") or "")
        others = [str(version["groupVersion"]) for version in group.get("versions") or []]
        found += dict.fromkeys([*([preferred] if preferred else []), *others])
    return found


def _only_metadata(item: Mapping[str, Any], *, gvk: GVK) -> Object:
    """Return *item* without what a server sent that doesn't know this form; the kind is that of the list."""
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": dict(metadata(item))}
