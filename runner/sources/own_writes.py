"""The ledger of what runs wrote themselves: a change that is in it starts no further run of the same owner.

The proxy tells of each write before it is sent and when it is answered (`runner.proxy.record`), the watches of
dependents ask who made a change. The watch often tells of a change before the answer is here, so that while a write is
under way the question waits, half a minute at most. Everything happens on the event loop; what is remembered is
bounded, and what fell out costs one run more.
"""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from runner.clock import Clock
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, name_of, namespace_of, resource_version_of, uid_of
from runner.proxy.exchange import Caller, Owner
from runner.sources.predicates import deletion_started
from runner.sources.store import Change, ChangeKind

_REMEMBERED = 5000
"""Writes, deletions and objects whose newest own write is known, each."""
_MANY = "deletecollection"
_PATIENCE = 30.0
"""Seconds that a question waits for a write under way; one that hangs must not hide what others do."""
_ALL = "*"
"""In the place of a name: where all objects of a collection are being deleted."""
_LOOK = 5.0
"""Seconds between two looks at the questions that wait."""
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


Then = Callable[[frozenset[OwnerKey] | None], None]
"""Gets the owners whose own run made the change; None: nobody can tell yet whether one did."""


@dataclass(frozen=True)
class _Place:
    """Where an object is; the name is empty where it is being created, `_ALL` where many are being deleted."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, kw_only=True)
class _Question:
    """Who made a change of an object of the kind *gvk*."""

    gvk: GVK
    change: Change
    then: Then
    until: float
    """When it is answered with what is known then."""


@dataclass(kw_only=True)
class _InFlight:
    """How many writes at one place are under way, and what waits for their end."""

    writes: int = 0
    waiting: list[_Question] = field(default_factory=list)


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
    """Remembers the writes of runs: `runner.proxy.dependents.OwnWrites` for the proxy, `settle` for the watches.

    `run` is the body of the task that answers what waited too long.
    """

    def __init__(self, *, lives: Callable[[Caller], bool], clock: Clock, remembered: int = _REMEMBERED) -> None:
        """Start empty; *lives* tells whether a run still goes on, *remembered* is the bound of each memory."""
        self._lives = lives
        self._clock = clock
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
        place = _Place(resource.gvk.group, resource.gvk.kind, namespace, _ALL if verb == _MANY else name)
        write = WriteUnderWay(note=lambda obj: self._note(obj, verb=verb, caller=caller), end=lambda: self._end(place))
        self._in_flight.setdefault(place, _InFlight()).writes += 1
        try:
            yield write
        finally:
            write.ended()

    def settle(self, *, gvk: GVK, change: Change, then: Then) -> None:
        """Call *then* with the owners whose own run made *change*: now, or as soon as no write of it is under way.

        After half a minute it is called with what is known then: None, where that is nothing.
        """
        self._ask(_Question(gvk=gvk, change=change, then=then, until=self._clock.monotonic() + _PATIENCE))

    async def run(self) -> None:
        """Answer what waited too long, until cancelled."""
        while True:
            await self._clock.sleep(_LOOK)
            self._answer_late()

    def newest(self, uid: str) -> int:
        """Return the newest resource version of the object *uid* that a run's own write was answered with; 0: none."""
        return self._newest.get(uid) or 0

    def _ask(self, question: _Question) -> None:
        pending = self._pending(question.gvk, question.change)
        if pending is None:
            question.then(self._writers(question.change))
        else:
            pending.waiting.append(question)

    def _answer_late(self) -> None:
        now = self._clock.monotonic()
        for flight in list(self._in_flight.values()):
            late = [question for question in flight.waiting if question.until <= now]
            flight.waiting = [question for question in flight.waiting if question.until > now]
            for question in late:
                question.then(self._writers(question.change) or None)

    def _pending(self, gvk: GVK, change: Change) -> _InFlight | None:
        namespace, name = namespace_of(change.obj), name_of(change.obj)
        names = [name]
        if change.kind is ChangeKind.ADDED:
            names.append("")  # whose creation is under way has no name yet, and may be any new object of the kind
        elif change.kind is ChangeKind.DELETED or deletion_started(change):
            names.append(_ALL)
        found = (self._in_flight.get(_Place(gvk.group, gvk.kind, namespace, each)) for each in names)
        return next(filter(None, found), None)

    def _writers(self, change: Change) -> frozenset[OwnerKey]:
        uid = uid_of(change.obj)
        callers = self._deleted.get(uid) or ()
        if change.kind is ChangeKind.DELETED:
            # what goes after the end of the run that deleted it starts a run, as it does on the peer
            return frozenset(OwnerKey.of(caller.owner) for caller in callers if self._lives(caller))
        written = self._written.get((uid, resource_version_of(change.obj))) or frozenset()
        if deletion_started(change):  # in a version that no answer tells where many were deleted at once
            written |= {OwnerKey.of(caller.owner) for caller in callers}
        return written

    def _note(self, answer: Mapping[str, Any], *, verb: str, caller: Caller) -> None:
        """Take the answer to a write: the object as it is now, or a Status or a list that names what was deleted."""
        if verb == _MANY:  # whose versions may be those of before, which somebody else wrote
            for uid in _uids_in_items(answer):
                self._note_deletion(uid, caller=caller)
            return
        uid, version = uid_of(answer), resource_version_of(answer)
        if uid and version:
            written = self._written.get((uid, version)) or frozenset()
            self._written.put((uid, version), written | {OwnerKey.of(caller.owner)})
            self._newest.put(uid, max(self.newest(uid), number_of(version)))
        if verb == "delete" and (uid := uid or _uid_in_details(answer)):
            self._note_deletion(uid, caller=caller)

    def _note_deletion(self, uid: str, *, caller: Caller) -> None:
        callers = self._deleted.get(uid) or ()
        self._deleted.put(uid, (*(other for other in callers if self._lives(other) and other != caller), caller))

    def _end(self, place: _Place) -> None:
        flight = self._in_flight[place]
        flight.writes -= 1
        if flight.writes:
            return
        del self._in_flight[place]
        for question in flight.waiting:
            self._ask(question)


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


def _uids_in_items(answer: Mapping[str, Any]) -> list[str]:
    items = answer.get("items")
    found = [uid_of(item) for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return [uid for uid in found if uid]


def _uid_in_details(status: Mapping[str, Any]) -> str:
    details = status.get("details")
    return str(details.get("uid") or "") if isinstance(details, Mapping) else ""
