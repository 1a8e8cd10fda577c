"""What an informer knows: the objects of one kind, and what changed when the API server tells something new.

Pure and synchronous. `runner.sources.informer` feeds it lists and watch events; predicates judge the `Change`s.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runner.kube.objects import Object, name_of, namespace_of, resource_version_of, uid_of

Key = tuple[str, str]
"""Namespace (empty for cluster scope) and name."""

Transform = Callable[[Object], Object]
"""Cuts an object down to what is worth keeping; metadata's name, namespace, uid and resourceVersion must stay."""

Keeps = Callable[[Object], bool]
"""Tells whether an object, as the API server sent it, is worth keeping at all."""


class ChangeKind(enum.Enum):
    """What happened to an object, seen from the store."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference between what was known and what is true now."""

    kind: ChangeKind
    obj: Object
    """The object as of now; for DELETED its last known state."""
    old: Object | None = None
    """What the store held before; None for ADDED."""
    relisted: bool = False
    """Found by comparing a list with what was known: more than this may have happened in between."""


def key_of(obj: Object) -> Key:
    """Return the key under which *obj* is stored."""
    return namespace_of(obj), name_of(obj)


def keep_all(obj: Object) -> Object:
    """Return *obj* as it is: the transform of a source that needs whole objects."""
    return obj


def keeps_all(_obj: Object) -> bool:
    """Tell that every object is worth keeping."""
    return True


class Store:
    """Objects by namespace and name; the objects are shared, so readers must not change them."""

    def __init__(self, *, transform: Transform = keep_all, keeps: Keeps = keeps_all) -> None:
        """Start empty; keep the objects that *keeps* wants, as *transform* leaves them."""
        self._transform = transform
        self._keeps = keeps
        self._objects: dict[Key, Object] = {}

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        """Iterate over the objects as of now: changes meanwhile do not disturb."""
        return iter(list(self._objects.values()))

    def get(self, *, namespace: str, name: str) -> Object | None:
        """Return one object, or None."""
        return self._objects.get((namespace, name))

    def wants(self, obj: Object) -> bool:
        """Tell whether `put` would do something with *obj*; the others of a long list need not be held for it."""
        return key_of(obj) in self._objects or self._keeps(obj)

    def put(self, obj: Object) -> list[Change]:
        """Take the present state of one object; a replayed state is no change, another UID is another object.

        An object that is not worth keeping any more is told as MODIFIED, with that last state, and dropped.
        """
        if not self._keeps(obj):
            return self._let_go(obj)
        new = self._transform(obj)
        key = key_of(new)
        old = self._objects.get(key)
        if old is not None and resource_version_of(old) == resource_version_of(new) and uid_of(old) == uid_of(new):
            return []
        self._objects[key] = new
        if old is None:
            return [Change(kind=ChangeKind.ADDED, obj=new)]
        if uid_of(old) != uid_of(new):
            return [_deleted(old), Change(kind=ChangeKind.ADDED, obj=new)]
        return [Change(kind=ChangeKind.MODIFIED, obj=new, old=old)]

    def remove(self, obj: Object) -> list[Change]:
        """Take the deletion of one object, with its last state; an unknown one is no change."""
        old = self._objects.pop(key_of(obj), None)
        return [] if old is None else [Change(kind=ChangeKind.DELETED, obj=self._transform(obj), old=old)]

    def replace(self, objects: Sequence[Object]) -> list[Change]:
        """Take a complete list: whatever is not in it was deleted while nobody looked; deletions come first."""
        listed = {key_of(obj) for obj in objects}
        gone = [key for key in self._objects if key not in listed]
        changes = [_deleted(self._objects.pop(key)) for key in gone]
        for obj in objects:
            changes += self.put(obj)
        return [dataclasses.replace(change, relisted=True) for change in changes]

    def _let_go(self, obj: Object) -> list[Change]:
        old = self._objects.pop(key_of(obj), None)
        if old is None:
            return []
        if uid_of(old) != uid_of(obj):
            return [_deleted(old)]
        return [Change(kind=ChangeKind.MODIFIED, obj=self._transform(obj), old=old)]


def _deleted(old: Object) -> Change:
    return Change(kind=ChangeKind.DELETED, obj=old, old=old)
