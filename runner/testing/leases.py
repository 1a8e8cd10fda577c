"""Leases in memory, with faults at exact moments: `runner.kube.lease.LeaseClient` for tests of leader election.

`LeaseContract` (below) runs against this one and against the real API server, so that it cannot drift away unseen.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from runner.errors import AlreadyExists, Call, Conflict, ConnectionFailed, KubeError, NotFound
from runner.kube.discovery import Resource
from runner.kube.lease import LeaseClient
from runner.kube.lease_record import LEASES
from runner.kube.objects import Object, name_of, namespace_of, resource_version_of, uid_of


class FakeLeases:
    """The Leases of one cluster; each elector gets a `connection` of its own."""

    def __init__(self) -> None:
        """Start without any."""
        self.stored: dict[tuple[str, str], Object] = {}
        self._version = 0

    def connection(self) -> FakeLeaseClient:
        """Return a client that has its own faults."""
        return FakeLeaseClient(self)

    def put(self, lease: Object) -> Object:
        """Store *lease* whatever was there, as another client would; return it with its new version."""
        self._version += 1
        key = (namespace_of(lease), name_of(lease))
        uid = uid_of(self.stored.get(key, {})) or f"uid-{self._version}"
        meta = {**lease["metadata"], "resourceVersion": str(self._version), "uid": uid}
        self.stored[key] = {**copy.deepcopy(lease), "metadata": meta}
        return copy.deepcopy(self.stored[key])

    def remove(self, *, namespace: str, name: str) -> None:
        """Delete a Lease."""
        del self.stored[namespace, name]


class FakeLeaseClient:
    """What one process sees of `FakeLeases`; set a fault, and the following calls have it."""

    def __init__(self, leases: FakeLeases) -> None:
        """Work without faults."""
        self._leases = leases
        self.calls: list[str] = []
        """The verbs, in their order."""
        self.refusal: KubeError | None = None
        """Raised by each call."""
        self.hangs = False
        """No call gets an answer, nor reaches the server."""
        self.loses_answers = False
        """Writes are done, and their answers are lost."""

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Read a Lease."""
        call = Call(verb="get", resource=resource.label(), namespace=namespace, name=name)
        await self._reach(call)
        return copy.deepcopy(self._found(call))

    async def create(self, resource: Resource, *, body: Object, namespace: str = "") -> Object:
        """Create a Lease."""
        call = Call(verb="create", resource=resource.label(), namespace=namespace, name=name_of(body))
        await self._reach(call)
        if (namespace, name_of(body)) in self._leases.stored:
            raise AlreadyExists("it is there already", call=call, status=409)
        return self._answer(self._leases.put(body), call=call)

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """Put a Lease, if its version is the newest."""
        call = Call(
            verb="update", resource=resource.label(subresource), namespace=namespace_of(body), name=name_of(body)
        )
        await self._reach(call)
        found = self._found(call)
        if (resource_version_of(body), uid_of(body)) != (resource_version_of(found), uid_of(found)):
            raise Conflict("it was changed", call=call, status=409)
        return self._answer(self._leases.put(body), call=call)

    async def _reach(self, call: Call) -> None:
        self.calls.append(call.verb)
        await asyncio.sleep(0)  # others get their turn, as on a network
        if self.hangs:
            await asyncio.Event().wait()
        if self.refusal is not None:
            raise self.refusal

    def _found(self, call: Call) -> Object:
        found = self._leases.stored.get((call.namespace, call.name))
        if found is None:
            raise NotFound("it is not there", call=call, status=404)
        return found

    def _answer(self, lease: Object, *, call: Call) -> Object:
        if self.loses_answers:
            raise ConnectionFailed("the connection was reset", call=call)
        return lease


@dataclass(frozen=True, kw_only=True)
class LeaseSite:
    """Where the contract runs."""

    client: LeaseClient
    namespace: str
    remove: Callable[[str], Awaitable[None]]
    """Deletes the Lease of that name."""

    async def create(self, name: str = "lock", **spec: object) -> Object:
        """Create a Lease."""
        head = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": LEASES.gvk.api_version, "kind": LEASES.gvk.kind, "metadata": head, "spec": spec}
        return await self.client.create(LEASES, namespace=self.namespace, body=body)

    async def get(self, name: str = "lock") -> Object:
        """Read a Lease."""
        return await self.client.get(LEASES, namespace=self.namespace, name=name)


class LeaseContract:
    """What an election relies on; a subclass gives the fixture `site`."""

    async def test_a_lease_that_is_not_there_is_not_found(self, site: LeaseSite) -> None:
        """Reading a Lease that nobody made is NotFound."""
        with pytest.raises(NotFound):
            await site.get()

    async def test_what_was_created_is_read(self, site: LeaseSite) -> None:
        """A created Lease comes back with a version and a UID, and is read just so."""
        made = await site.create(holderIdentity="a", leaseDurationSeconds=15)
        assert resource_version_of(made)
        assert uid_of(made)
        assert await site.get() == made

    async def test_of_two_creators_one_is_refused(self, site: LeaseSite) -> None:
        """A name that is taken is AlreadyExists."""
        await site.create()
        with pytest.raises(AlreadyExists):
            await site.create()

    async def test_only_the_newest_version_can_be_replaced(self, site: LeaseSite) -> None:
        """A write moves the version, and one with an older version is a Conflict that changes nothing."""
        made = await site.create(holderIdentity="a")
        first = await site.client.replace(LEASES, body={**made, "spec": {"holderIdentity": "b"}})
        assert resource_version_of(first) != resource_version_of(made)
        with pytest.raises(Conflict):
            await site.client.replace(LEASES, body={**made, "spec": {"holderIdentity": "c"}})
        assert await site.get() == first

    async def test_a_lease_without_holder_may_be_written(self, site: LeaseSite) -> None:
        """An empty holder is stored, or left out: nobody holds it."""
        made = await site.create(holderIdentity="a", leaseDurationSeconds=15)
        body = {**made, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
        await site.client.replace(LEASES, body=body)
        assert not (await site.get())["spec"].get("holderIdentity")

    async def test_a_lease_that_went_cannot_be_replaced(self, site: LeaseSite) -> None:
        """A write onto a Lease that was deleted, or made anew since, is NotFound or a Conflict."""
        made = await site.create(holderIdentity="a")
        await site.remove("lock")
        with pytest.raises((NotFound, Conflict)):
            await site.client.replace(LEASES, body=made)
        await site.create(holderIdentity="b")
        with pytest.raises(Conflict):
            await site.client.replace(LEASES, body=made)
        assert (await site.get())["spec"]["holderIdentity"] == "b"
