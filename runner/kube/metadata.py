"""Reads an object's metadata alone, which spares the API server and us the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp

from runner.errors import Call, ServerError
from runner.kube.discovery import Resource
from runner.kube.documents import read_json

_ACCEPT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"
"""The second one is for aggregated APIs that don't know the first."""
_TIMEOUT = 30.0


class Streams(Protocol):
    """What this needs of `KubeClient`."""

    def stream(
        self, method: str, path: str, *, call: Call, timeout: aiohttp.ClientTimeout, headers: Mapping[str, str]
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Open one request."""
        ...


async def read_metadata(client: Streams, resource: Resource, *, namespace: str = "", name: str) -> Mapping[str, Any]:
    """Return the metadata of one object.

    Raises:
        NotFound: there is no such object.
        KubeError: it can't be read.
    """
    call = Call(verb="get", resource=resource.label(), namespace=namespace, name=name)
    path = resource.path(namespace=quote(namespace, safe=""), name=quote(name, safe=""))
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    async with client.stream("GET", path, call=call, timeout=timeout, headers={"Accept": _ACCEPT}) as response:
        found = await read_json(response, call=call)
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict):
        raise ServerError("the answer has no metadata", call=call, status=response.status)
    return metadata
