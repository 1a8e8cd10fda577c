"""Which changes of a primary object are worth a run: the filters between the informer and the work queue.

Pure functions on `Change`. The rules are the peer's (generation, annotations, selector, kinds without a generation),
with five things done better: a no-op update of a kind without generation is no reason to run, what the operator
itself wrote (its finalizer, its conditions) never is, an object whose labels change so that the selector takes it in
runs at once, and so does one whose broken period annotation is mended, or whose pause begins or ends.
"""

from __future__ import annotations

from collections.abc import Callable

from runner.kube.objects import Object, annotations_of, generation_of, is_deleting, labels_of, metadata
from runner.sources.store import Change, ChangeKind
from runner.status.conditions import is_ours
from runner.watches.durations import PERIOD_ANNOTATION, parse_duration
from runner.watches.matching import matches, serves
from runner.watches.model import Watch
from runner.watches.pausing import is_paused

Predicate = Callable[[Change], bool]
"""Tells whether a change passes."""

_BOOKKEEPING = ("resourceVersion", "managedFields", "generation")


def primary_predicate(watch: Watch) -> Predicate:
    """Return the filter for the primary objects of *watch*."""

    def passes(change: Change) -> bool:
        if change.kind is ChangeKind.DELETED:
            return was_served(watch, change)
        if not serves(watch, change.obj):
            return False
        return change.old is None or _update_passes(watch, change)

    return passes


def _update_passes(watch: Watch, change: Change) -> bool:
    return (
        came_into_selection(watch, change)
        or deletion_started(change)
        or spec_changed(watch, change)
        or (watch.watch_annotations_changes and annotations_changed(change))
        or period_mended(change)
        or pause_changed(change)
    )


def was_served(watch: Watch, change: Change) -> bool:
    """Tell whether the deleted object was one that the watch may have timers for."""
    return serves(watch, change.obj) or (change.old is not None and serves(watch, change.old))


def came_into_selection(watch: Watch, change: Change) -> bool:
    """Tell whether the object's labels did not match the selector before, and do now."""
    old = change.old or {}
    return not matches(watch.selector, labels=labels_of(old)) and matches(watch.selector, labels=labels_of(change.obj))


def deletion_started(change: Change) -> bool:
    """Tell whether the deletion timestamp appeared; kinds without a generation show a deletion in no other way."""
    return is_deleting(change.obj) and not is_deleting(change.old or {})


def annotations_changed(change: Change) -> bool:
    """Tell whether the annotations differ."""
    return dict(annotations_of(change.old or {})) != dict(annotations_of(change.obj))


def period_mended(change: Change) -> bool:
    """Tell whether a broken period annotation, for which the object is not run at all, was changed or removed."""
    before = annotations_of(change.old or {}).get(PERIOD_ANNOTATION)
    if before is None or before == annotations_of(change.obj).get(PERIOD_ANNOTATION):
        return False
    try:
        parse_duration(before)
    except ValueError:
        return True
    return False


def pause_changed(change: Change) -> bool:
    """Tell whether a person stopped the runs of the object, or lets them go on."""
    return is_paused(change.old or {}) != is_paused(change.obj)


def spec_changed(watch: Watch, change: Change) -> bool:
    """Tell whether what the user asks for changed.

    With a generation: it differs, and not only because of the status (a CRD without status subresource counts status
    writes too). Without one: anything differs that is neither bookkeeping nor written by the operator itself.
    """
    old, new = change.old or {}, change.obj
    before, after = generation_of(old), generation_of(new)
    if before == after == 0:
        return _content(old, watch=watch) != _content(new, watch=watch)
    return before != after and (_wish(old) != _wish(new) or old.get("status") == new.get("status"))


def _wish(obj: Object) -> Object:
    """Return everything but metadata and status."""
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def _content(obj: Object, *, watch: Watch) -> Object:
    """Return *obj* without bookkeeping and without what the operator itself writes."""
    meta = {key: value for key, value in metadata(obj).items() if key not in _BOOKKEEPING}
    if watch.finalizer is not None:
        own = watch.finalizer.name
        meta["finalizers"] = [name for name in meta.get("finalizers") or [] if name != own]
    return {**_wish(obj), "metadata": _filled(meta), "status": _foreign_status(obj.get("status"), watch=watch)}


def _foreign_status(status: object, *, watch: Watch) -> object:
    if not watch.manage_status or not isinstance(status, dict):
        return status
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return _filled(status) or None
    foreign = [entry for entry in conditions if not is_ours(entry)]
    return _filled({**status, "conditions": foreign}) or None


def _filled(mapping: Object) -> Object:
    """Return *mapping* without its empty values: an absent list and an empty one are the same."""
    return {key: value for key, value in mapping.items() if value not in (None, [], {})}
