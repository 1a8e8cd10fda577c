"""Putting our finalizer on an object and taking it off, without touching anybody else's.

Both are merge patches of `metadata.finalizers` that carry the resource version they were computed from: the API
server refuses them with a Conflict when anything changed, and the list is computed again from a live read. Where the
right to `patch` is missing, a PUT of the object as it was read does the same: `update` is all that the peer needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.errors import Conflict, Forbidden, NotFound
from runner.kube.discovery import Resource
from runner.kube.objects import Object, finalizers_of, is_deleting, name_of, namespace_of, resource_version_of, uid_of
from runner.kube.verbs import ObjectClient

_ATTEMPTS = 8


@dataclass(frozen=True, kw_only=True)
class Finalizers:
    """One finalizer's name on the objects of one resource."""

    client: ObjectClient
    resource: Resource
    name: str

    def on(self, obj: Object) -> bool:
        """Tell whether *obj* carries our finalizer."""
        return self.name in finalizers_of(obj)

    async def add(self, obj: Object) -> Object | None:
        """Add ours at the end and return the newest object; None where it is gone or going (nothing is added then)."""
        return await self._change(obj, present=True)

    async def remove(self, obj: Object) -> Object | None:
        """Remove ours, keep the order of the rest, and return the newest object; None where it is gone."""
        return await self._change(obj, present=False)

    async def _change(self, obj: Object, *, present: bool) -> Object | None:
        """Write until no Conflict comes back; the last Conflict is raised."""
        current, uid = obj, uid_of(obj)
        for attempt in range(_ATTEMPTS):
            if uid_of(current) != uid or (present and is_deleting(current)):
                return None
            if self.on(current) == present:
                return current
            try:
                return await self._write(current, present=present)
            except NotFound:
                return None
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            try:
                current = await self.client.get(self.resource, namespace=namespace_of(obj), name=name_of(obj))
            except NotFound:
                return None
        return None

    async def _write(self, current: Object, *, present: bool) -> Object:
        others = [entry for entry in finalizers_of(current) if entry != self.name]
        wanted = [*others, self.name] if present else others
        body = {"metadata": {"finalizers": wanted, "resourceVersion": resource_version_of(current)}}
        try:
            return await self.client.patch(
                self.resource, namespace=namespace_of(current), name=name_of(current), body=body
            )
        except Forbidden as refusal:
            whole = {**current, "metadata": {**current["metadata"], "finalizers": wanted}}
            try:
                return await self.client.replace(self.resource, body=whole)
            except Forbidden:
                raise refusal from None  # one right is enough, and the usual one is asked for
