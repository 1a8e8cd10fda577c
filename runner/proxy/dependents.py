"""What the proxy tells of the objects that runs make: implemented by `runner.sources`, wired by `runner.assembly`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from runner.kube.discovery import Resource
from runner.proxy.exchange import Caller, Owner


class Dependents(Protocol):
    """Watches what runs made."""

    async def ensure(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """See to it that objects of *resource* in *namespace* (empty: cluster scope) are watched for *owner*.

        Called before the first of them is created, and returns when the watch is open, so that nothing is missed; a
        kind that must not be listed or is not to be watched costs no wait. Never raises an error of ours.
        """
        ...

    def follow(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Begin what `ensure` waits for: for objects that are there already."""
        ...


class Writing(Protocol):
    """One write of a run that is on its way to the API server."""

    def answered(self, *, status: int, body: bytes) -> None:
        """Take the API server's answer, whole."""
        ...


class OwnWrites(Protocol):
    """Remembers what runs wrote themselves, so that it starts no run of the same owner."""

    def writing(
        self, resource: Resource, *, namespace: str, name: str, verb: str, caller: Caller
    ) -> AbstractContextManager[Writing]:
        """Note a write by *caller*'s run; entered before it is sent, left when it is answered or failed.

        *name* is empty where the server makes it (`generateName`).
        """
        ...
