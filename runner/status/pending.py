"""Transitions that could not be written: kept until the queue brings their object again, so that no role runs twice."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from runner.status.transition import Transition


@dataclass(frozen=True, kw_only=True)
class _Entry:
    uid: str
    transition: Transition


class PendingStatus:
    """The last computed transition of each object whose status write did not get through.

    Held in memory: after a restart each object is reconciled anyway.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._entries: dict[Hashable, _Entry] = {}

    def __len__(self) -> int:
        """Return how many objects wait for their status."""
        return len(self._entries)

    def keep(self, key: Hashable, *, uid: str, transition: Transition) -> None:
        """Keep *transition* for the object *uid* that is known by *key* (a `Request`), in place of an older one."""
        self._entries[key] = _Entry(uid=uid, transition=transition)

    def of(self, key: Hashable, *, uid: str) -> Transition | None:
        """Return what waits for the object *uid*; what waits under *key* for another object is dropped."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.uid != uid:
            self.drop(key)
            return None
        return entry.transition

    def drop(self, key: Hashable) -> None:
        """Forget what waits under *key*: it was written, or the object is gone."""
        self._entries.pop(key, None)
