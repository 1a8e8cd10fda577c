"""One run per UID over all queues: the table above them.

Two watches may see one object (two versions of a kind, or a kind that is served in two groups), each with a queue of
its own. A worker that has read its object claims the UID here. Where another watch has it, the key is parked: it costs
no worker and asks nobody, and it comes back, ahead of its queue, when that other reconcile ends. From then on the UID
is kept for it, so that a watch whose keys return at once cannot overtake it for ever.

The UID is known only after the object was read: a key is a name, and a name may have got another object meanwhile.
Everything happens on one event loop, and no method waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from runner.workqueue.request import Request


class ParkingQueue(Protocol):
    """What the table needs of a queue."""

    def park(self, request: Request) -> None:
        """Keep *request*, which is being processed, out of the lines until `unpark`."""
        ...

    def unpark(self, request: Request) -> None:
        """Put *request* in front of the lines."""
        ...


Key = tuple[str, Request]
"""The name of a claim's owner (`Claims`) and its request: whose turn it is."""


@dataclass(kw_only=True)
class _Place:
    """One UID: who has it, and who waits for it in which order."""

    holder: Key | None = None
    called: Key | None = None
    """Who was called back and has not come yet: nobody overtakes it."""
    waiting: dict[Key, None] = field(default_factory=dict)


class Exclusion:
    """The table; each watch speaks to it through its own `Claims`."""

    def __init__(self) -> None:
        """Start with nothing claimed."""
        self._places: dict[str, _Place] = {}
        self._uids: dict[Key, str] = {}
        """Where each key has a part: it holds, waits or was called."""
        self._queues: dict[str, ParkingQueue] = {}

    def for_queue(self, queue: ParkingQueue, *, name: str) -> Claims:
        """Return the view of the watch called *name* (its GVK: no two watches share one) with its *queue*.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._queues:
            raise ValueError(f"two watches are called {name}")
        self._queues[name] = queue
        return Claims(table=self, name=name)

    @property
    def claimed(self) -> int:
        """Return how many UIDs are being reconciled."""
        return sum(place.holder is not None for place in self._places.values())

    @property
    def parked(self) -> int:
        """Return how many keys wait for another watch."""
        return sum(len(place.waiting) for place in self._places.values())

    def claim(self, key: Key, uid: str) -> bool:
        """Take *uid* for *key*; False where another has it or was called for it, and then *key* is parked."""
        self._give_up(key, except_for=uid)
        place = self._places.setdefault(uid, _Place())
        others = {place.holder, place.called} - {key, None}
        self._uids[key] = uid
        if others:
            place.waiting[key] = None
            self._queue_of(key).park(key[1])
            return False
        place.holder, place.called = key, None
        return True

    def end(self, key: Key) -> None:
        """End the reconcile of *key*: whoever waits longest is called; a parked key goes on waiting."""
        uid = self._uids.get(key)
        if uid is not None and key not in self._places[uid].waiting:
            self._leave(key, uid)

    def _give_up(self, key: Key, *, except_for: str) -> None:
        """Forget what *key* was called for when its name got another object meanwhile."""
        uid = self._uids.get(key)
        if uid is not None and uid != except_for:
            self._leave(key, uid)

    def _leave(self, key: Key, uid: str) -> None:
        del self._uids[key]
        place = self._places[uid]
        place.holder = None if place.holder == key else place.holder
        place.called = None if place.called == key else place.called
        if place.holder is None and place.called is None:
            self._call_next(uid, place)

    def _call_next(self, uid: str, place: _Place) -> None:
        if not place.waiting:
            del self._places[uid]
            return
        place.called = next(iter(place.waiting))
        del place.waiting[place.called]
        self._queue_of(place.called).unpark(place.called[1])

    def _queue_of(self, key: Key) -> ParkingQueue:
        return self._queues[key[0]]


class Claims:
    """What the reconciles of one watch see of the table."""

    def __init__(self, *, table: Exclusion, name: str) -> None:
        """Claim in *table* for the watch *name*."""
        self._table = table
        self._name = name

    def claim(self, request: Request, *, uid: str) -> bool:
        """Take *uid* for the reconcile of *request*.

        Returns:
            False: another watch reconciles it. The key is parked in its queue; the reconcile ends without a decision.
        """
        return self._table.claim((self._name, request), uid)

    def end(self, request: Request) -> None:
        """End the reconcile of *request*, however it ended and whether or not it claimed anything."""
        self._table.end((self._name, request))
