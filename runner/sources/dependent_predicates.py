"""Which changes of a dependent are worth a run of its owner: the filters between its informer and the work queue.

Pure functions on `Change`. A new object is no reason in itself: the run that made it knows it. Spec, metadata and
deletion are, and so is each field that `watchDependentStatus` lists. Status, resource version, generation and
managedFields alone are not: controllers and kubelets write them all day.
"""

from __future__ import annotations

from collections.abc import Iterable

from runner.kube.objects import Object, metadata
from runner.sources.dependent_transform import followed_values
from runner.sources.store import Change, ChangeKind

_BOOKKEEPING = ("resourceVersion", "generation", "managedFields")


def content_changed(change: Change) -> bool:
    """Tell whether the dependent is gone, or anything of it differs but status and bookkeeping."""
    if change.kind is ChangeKind.DELETED:
        return True
    return change.old is not None and _content(change.old) != _content(change.obj)


def fields_changed(change: Change, fields: Iterable[str]) -> bool:
    """Tell whether one of the followed *fields* has another value than before, or went with its object."""
    if change.old is None:
        return False
    before = followed_values(change.old)
    after = {} if change.kind is ChangeKind.DELETED else followed_values(change.obj)
    return any(before.get(field) != after.get(field) for field in fields)


def _content(obj: Object) -> Object:
    """Return *obj* without status and bookkeeping."""
    rest = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
    return {**rest, "metadata": {key: value for key, value in metadata(obj).items() if key not in _BOOKKEEPING}}
