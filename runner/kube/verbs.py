"""The verbs of `KubeClient` that stages take as a collaborator: each asks for what it needs, and for no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runner.kube.discovery import Resource
from runner.kube.objects import Object


class ObjectClient(Protocol):
    """Reads one object and changes it: what finalizers and statuses need."""

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Read one object; raise `NotFound`."""
        ...

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """PUT an object or its subresource; raise `Conflict` where its resourceVersion is not the newest."""
        ...

    async def patch(
        self,
        resource: Resource,
        *,
        name: str,
        body: Object | Sequence[Object],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Patch an object or its subresource."""
        ...
