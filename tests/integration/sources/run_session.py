"""What a role's modules do in a run, without a role: requests through the operator's proxy with the run's secret."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from runner.assembly.run_access import RunAccess, owner_in
from runner.execution.executor import RunRequest
from runner.kube.client import MERGE_PATCH
from runner.kube.discovery import Resource
from runner.kube.objects import Object
from runner.proxy.kubeconfig import username_of


@dataclass(frozen=True, kw_only=True)
class RunSession:
    """A live run at the proxy."""

    session: aiohttp.ClientSession
    headers: dict[str, str]
    url: str

    async def call(self, method: str, path: str, *, body: Object | None = None, content_type: str = "") -> Object:
        """Send one request, and return the answer, which must be a success."""
        headers = {**self.headers, "Content-Type": content_type or "application/json"}
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, self.url + path, headers=headers, data=data) as answer:
            document: Object = await answer.json()
            assert answer.status < 300, document
            return document

    async def create(self, resource: Resource, *, namespace: str = "", body: Object) -> Object:
        """POST *body*."""
        gvk = resource.gvk
        full = {"apiVersion": gvk.api_version, "kind": gvk.kind, **body}
        return await self.call("POST", resource.path(namespace=namespace), body=full)

    async def patch(
        self, resource: Resource, *, namespace: str, name: str, body: Object, subresource: str = ""
    ) -> Object:
        """Merge *body* into an object."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self.call("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def delete(self, resource: Resource, *, namespace: str, name: str) -> Object:
        """DELETE an object."""
        return await self.call("DELETE", resource.path(namespace=namespace, name=name))


@contextlib.asynccontextmanager
async def run_session(access: RunAccess, request: RunRequest) -> AsyncIterator[RunSession]:
    """Speak for the run of *request* during the block."""
    owner = owner_in(request)
    with access.runs.open(owner=owner, run=request.ident) as secret:
        headers = {"Authorization": aiohttp.encode_basic_auth(username_of(owner), secret)}
        async with aiohttp.ClientSession() as session:
            yield RunSession(session=session, headers=headers, url=f"http://127.0.0.1:{access.port}")
