"""The ledger of what runs wrote themselves: a change that is in it starts no further run of the same owner.

The proxy tells of each write before it is sent and when it is answered (`runner.proxy.record`), the watches of
dependents ask who made a change. The watch often tells of a change before the answer is here, so that while a write is
under way the question waits. Everything happens on the event loop; what is remembered is bounded, and what fell out
costs one run more.
"""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from runner.kube.discovery import Resource
from runner.kube.objects import GVK, name_of, namespace_of, resource_version_of, uid_of
from runner.proxy.exchange import Caller, Owner
from runner.sources.store import Change, ChangeKind

_REMEMBERED = 5000
"""Writes, deletions and objects whose newest own write is known, each."""
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, kw_only=True)
class OwnerKey:
    """An owner as a dependent names it: without a version, as that may be another one than the watch's."""

    group: str
    kind: str
    namespace: str = ""
    """Empty for a cluster-scoped owner."""
    name: str

    @classmethod
    def of(cls, owner: Owner) -> OwnerKey:
        """Return the key of *owner*."""
        return cls(group=owner.gvk.group, kind=owner.gvk.kind, namespace=owner.namespace, name=owner.name)


Then = Callable[[frozenset[OwnerKey]], None]
"""Gets the owners whose own run made the change."""


@dataclass(frozen=True)
class _Place:
    """Where an object is; the name is empty for all those whose creation is under way."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(kw_only=True)
class _InFlight:
    """How many writes at one place are under way, and who waits for their end."""

    writes: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list)


class _Recent(Generic[_K, _V]):
    """A dictionary that forgets what was written longest ago."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[_K, _V] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        return self._entries.get(key)

    def put(self, key: _K, value: _V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


class OwnWrites:
    """Remembers the writes of runs: `runner.proxy.dependents.OwnWrites` for the proxy, `settle` for the watches."""

    def __init__(self, *, lives: Callable[[Caller], bool], remembered: int = _REMEMBERED) -> None:
        """Start empty; *lives* tells whether a run still goes on, *remembered* is the bound of each memory."""
        self._lives = lives
        self._in_flight: dict[_Place, _InFlight] = {}
        self._written: _Recent[tuple[str, str], frozenset[OwnerKey]] = _Recent(remembered)
        self._deleted: _Recent[str, tuple[Caller, ...]] = _Recent(remembered)
        self._newest: _Recent[str, int] = _Recent(remembered)

    def __len__(self) -> int:
        """Return how many entries are remembered, of all sorts."""
        return len(self._in_flight) + len(self._written) + len(self._deleted) + len(self._newest)

    @contextlib.contextmanager
    def writing(
        self, resource: Resource, *, namespace: str, name: str, verb: str, caller: Caller
    ) -> Iterator[WriteUnderWay]:
        """Note a write by *caller*'s run: under way from here until it is answered, at the latest until the end."""
        place = _Place(resource.gvk.group, resource.gvk.kind, namespace, name)
        write = WriteUnderWay(note=lambda obj: self._note(obj, verb=verb, caller=caller), end=lambda: self._end(place))
        self._in_flight.setdefault(place, _InFlight()).writes += 1
        try:
            yield write
        finally:
            write.ended()

    def settle(self, *, gvk: GVK, change: Change, then: Then) -> None:
        """Call *then* with the owners whose own run made *change*: now, or as soon as no write of it is under way."""
        pending = self._pending(gvk, change)
        if pending is None:
            then(self._writers(change))
        else:
            pending.waiting.append(lambda: self.settle(gvk=gvk, change=change, then=then))

    def newest(self, uid: str) -> int:
        """Return the newest resource version of the object *uid* that a run's own write was answered with; 0: none."""
        return self._newest.get(uid) or 0

    def _pending(self, gvk: GVK, change: Change) -> _InFlight | None:
        namespace, name = namespace_of(change.obj), name_of(change.obj)
        # whose creation is under way has no name yet, and may be any new object of the kind
        names = (name, "") if change.kind is ChangeKind.ADDED else (name,)
        found = (self._in_flight.get(_Place(gvk.group, gvk.kind, namespace, each)) for each in names)
        return next(filter(None, found), None)

    def _writers(self, change: Change) -> frozenset[OwnerKey]:
        uid = uid_of(change.obj)
        if change.kind is not ChangeKind.DELETED:
            return self._written.get((uid, resource_version_of(change.obj))) or frozenset()
        # what goes after the end of the run that deleted it starts a run, as it does on the peer
        callers = self._deleted.get(uid) or ()
        return frozenset(OwnerKey.of(caller.owner) for caller in callers if self._lives(caller))

    def _note(self, answer: Mapping[str, Any], *, verb: str, caller: Caller) -> None:
        """Take the answer to a write: the object as it is now, or a Status that names what was deleted."""
        uid, version = uid_of(answer), resource_version_of(answer)
        if uid and version:
            written = self._written.get((uid, version)) or frozenset()
            self._written.put((uid, version), written | {OwnerKey.of(caller.owner)})
            self._newest.put(uid, max(self.newest(uid), number_of(version)))
        if verb == "delete" and (uid := uid or _uid_in_details(answer)):
            callers = self._deleted.get(uid) or ()
            self._deleted.put(uid, (*(other for other in callers if self._lives(other) and other != caller), caller))

    def _end(self, place: _Place) -> None:
        flight = self._in_flight[place]
        flight.writes -= 1
        if flight.writes:
            return
        del self._in_flight[place]
        for settle in flight.waiting:
            settle()


class WriteUnderWay:
    """One write between its start and its answer."""

    def __init__(self, *, note: Callable[[Mapping[str, Any]], None], end: Callable[[], None]) -> None:
        """Hand the answer of a write that went well to *note*, and call *end* when it is over, once."""
        self._note = note
        self._end = end
        self._over = False

    def answered(self, *, status: int, body: bytes) -> None:
        """Take the answer; one that is an error or no JSON object leaves nothing."""
        answer = _object_in(body) if 200 <= status < 300 and not self._over else None
        if answer is not None:
            self._note(answer)
        self.ended()

    def ended(self) -> None:
        """Take the end, answered or not."""
        if not self._over:
            self._over = True
            self._end()


def number_of(version: str) -> int:
    """Return the resource version as a number that grows with time; 0 where a server counts in another way."""
    return int(version) if version.isascii() and version.isdigit() else 0


def _object_in(body: bytes) -> Mapping[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:  # protobuf, for example: it costs a run more
        return None
    return document if isinstance(document, dict) else None


def _uid_in_details(status: Mapping[str, Any]) -> str:
    details = status.get("details")
    return str(details.get("uid") or "") if isinstance(details, Mapping) else ""
