"""Which changes of primary objects are worth a run."""

from __future__ import annotations

from typing import Any

import pytest

from runner.kube.objects import GVK, Object
from runner.sources.predicates import primary_predicate
from runner.sources.store import Change, ChangeKind
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import Content, Finalizer, LabelRequirement, Watch
from runner.watches.pausing import PAUSED_ANNOTATION

FINALIZER = "example.com/cleanup"
DELETION: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def watch(**keys: Any) -> Watch:
    """Build a watch."""
    return Watch(gvk=GVK("example.com", "v1", "Thing"), content=Content(), **keys)


def selecting(value: str, **keys: Any) -> Watch:
    """Build a watch of objects whose label `t` is *value*."""
    return watch(selector=(LabelRequirement(key="t", operator="In", values=(value,)),), **keys)


def obj(*, generation: int | None = 1, spec: Object | None = None, status: Object | None = None, **meta: Any) -> Object:
    """Build an object; more keywords are metadata."""
    head = {"name": "a", "namespace": "ns", "resourceVersion": "1", **meta}
    if generation is not None:
        head["generation"] = generation
    return {
        "metadata": head,
        "spec": {"n": 1} if spec is None else spec,
        **({} if status is None else {"status": status}),
    }


def secret(**parts: Any) -> Object:
    """Build an object of a kind without generation; `meta` is metadata, the rest top-level."""
    meta = {"name": "a", "resourceVersion": "1", "managedFields": [{"manager": "x"}], **parts.pop("meta", {})}
    return {"metadata": meta, "data": {"k": "v"}, **parts}


def added(new: Object) -> Change:
    """Build the change of a new object."""
    return Change(kind=ChangeKind.ADDED, obj=new)


def updated(old: Object, new: Object) -> Change:
    """Build the change of an update."""
    return Change(kind=ChangeKind.MODIFIED, obj=new, old=old)


def passes(change: Change, *, served: Watch | None = None) -> bool:
    """Judge a change."""
    return primary_predicate(served or watch())(change)


def test_a_new_object_passes() -> None:
    """Every object that exists at the start or is created runs once."""
    assert passes(added(obj()))


def test_a_deleted_object_passes() -> None:
    """A deletion is told, so that timers are forgotten."""
    assert passes(Change(kind=ChangeKind.DELETED, obj=obj(), old=obj()))


def test_a_changed_spec_passes() -> None:
    """A new generation with another spec runs."""
    assert passes(updated(obj(), obj(generation=2, spec={"n": 2})))


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(obj(status={"x": 1}), id="status"),
        pytest.param(obj(labels={"l": "1"}), id="label"),
        pytest.param(obj(annotations={"a": "1"}), id="annotation"),
        pytest.param(obj(finalizers=["example.com/cleanup"]), id="finalizer"),
        pytest.param(obj(managedFields=[{"manager": "y"}], resourceVersion="2"), id="bookkeeping"),
    ],
)
def test_an_update_with_the_same_generation_does_not_pass(new: Object) -> None:
    """Status, labels, annotations and finalizers are no reason to run (case W2)."""
    assert not passes(updated(obj(), new))


def test_annotations_pass_where_the_watch_asks_for_them() -> None:
    """With watchAnnotationsChanges another annotation runs, another label does not."""
    served = watch(watch_annotations_changes=True)
    assert passes(updated(obj(), obj(annotations={"a": "1"})), served=served)
    assert passes(updated(obj(annotations={"a": "1"}), obj()), served=served)
    assert not passes(
        updated(obj(annotations={"a": "1"}), obj(annotations={"a": "1"}, labels={"l": "1"})), served=served
    )


def test_a_generation_that_counts_status_writes_does_not_pass() -> None:
    """Without status subresource a status write bumps the generation; it must not start a run (case ST4)."""
    assert not passes(updated(obj(), obj(generation=2, status={"conditions": []})))


def test_a_status_write_together_with_a_new_spec_passes() -> None:
    """A new spec runs even when the status came with it."""
    assert passes(updated(obj(), obj(generation=2, spec={"n": 2}, status={"conditions": []})))


def test_a_generation_that_went_on_and_came_back_passes() -> None:
    """Two changes in a gap that cancel each other still count as a new generation."""
    assert passes(updated(obj(), obj(generation=3)))


def test_a_deletion_timestamp_passes() -> None:
    """An object that begins to be deleted runs: its generation rises with the timestamp."""
    assert passes(updated(obj(), obj(generation=2, **DELETION)))


def test_a_deletion_timestamp_passes_without_a_generation() -> None:
    """A deletion is seen for kinds without a generation, too."""
    assert passes(updated(secret(), secret(meta=DELETION)))


def test_a_deletion_timestamp_passes_together_with_a_status_write() -> None:
    """A deletion that is seen in one step with a status write is not taken for a status write."""
    assert passes(updated(obj(), obj(generation=2, status={"x": 1}, **DELETION)))


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(secret(data={"k": "other"}), id="data"),
        pytest.param(secret(meta={"labels": {"l": "1"}}), id="label"),
        pytest.param(secret(meta={"annotations": {"a": "1"}}), id="annotation"),
        pytest.param(secret(type="Opaque"), id="type"),
        pytest.param(secret(meta={"finalizers": ["foreign/one"]}), id="foreign finalizer"),
        pytest.param(secret(status={"phase": "Active"}), id="status"),
        pytest.param(secret(status={"conditions": [{"type": "Ready"}]}), id="foreign condition"),
    ],
)
def test_each_change_of_content_passes_without_a_generation(new: Object) -> None:
    """A kind without generation runs once for each real change (case W1)."""
    assert passes(updated(secret(), new), served=watch(finalizer=Finalizer(name=FINALIZER)))


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(secret(meta={"resourceVersion": "2"}), id="resourceVersion"),
        pytest.param(secret(meta={"managedFields": [{"manager": "apply"}]}), id="managedFields"),
        pytest.param(secret(meta={"finalizers": [FINALIZER]}), id="own finalizer"),
        pytest.param(secret(status={"conditions": [{"type": "Running", "status": "True"}]}), id="own condition"),
    ],
)
def test_a_change_that_is_none_does_not_pass_without_a_generation(new: Object) -> None:
    """Bookkeeping and what the operator writes itself start no run of a kind without generation (case W1)."""
    assert not passes(updated(secret(), new), served=watch(finalizer=Finalizer(name=FINALIZER)))


def test_conditions_of_our_names_pass_where_status_is_not_managed() -> None:
    """With manageStatus false a condition that looks like ours was written by somebody else."""
    new = secret(status={"conditions": [{"type": "Running", "status": "True"}]})
    assert passes(updated(secret(), new), served=watch(manage_status=False))


def test_a_generation_that_appears_passes() -> None:
    """A kind that starts to count generations is judged by them."""
    assert passes(updated(secret(), secret(meta={"generation": 1})))


def test_objects_outside_the_selector_do_not_pass() -> None:
    """A created or changed object that does not match is left alone (case W2)."""
    served = selecting("a")
    assert not passes(added(obj(labels={"t": "b"})), served=served)
    outside = obj(labels={"t": "b"})
    assert not passes(updated(outside, obj(labels={"t": "b"}, generation=2, spec={"n": 2})), served=served)
    assert not passes(Change(kind=ChangeKind.DELETED, obj=outside, old=outside), served=served)


def test_a_label_that_comes_to_match_passes() -> None:
    """A label change into the selector runs at once, though the generation is the same (better than the peer)."""
    assert passes(updated(obj(labels={"t": "b"}), obj(labels={"t": "a"})), served=selecting("a"))
    assert passes(updated(obj(), obj(labels={"t": "a"})), served=selecting("a"))


def test_a_label_that_stops_to_match_does_not_pass() -> None:
    """A label change out of the selector ends the watch's interest, even together with a new spec."""
    old = obj(labels={"t": "a"})
    assert not passes(updated(old, obj(labels={"t": "b"}, generation=2, spec={"n": 2})), served=selecting("a"))


def test_a_deletion_outside_the_selector_passes_with_the_finalizer() -> None:
    """An object in deletion that carries the watch's finalizer is finalized whatever its labels are (case W2)."""
    served = selecting("a", finalizer=Finalizer(name=FINALIZER))
    held = obj(labels={"t": "b"}, finalizers=[FINALIZER])
    deleting = obj(labels={"t": "b"}, finalizers=[FINALIZER], generation=2, **DELETION)
    assert passes(updated(held, deleting), served=served)
    assert passes(added(deleting), served=served)
    assert not passes(added(held), served=served)
    assert not passes(added(obj(labels={"t": "b"}, finalizers=["foreign/one"], **DELETION)), served=served)


def test_a_deleted_object_that_matched_before_passes() -> None:
    """The deletion of an object that was served last time is told, though its last labels do not match."""
    change = Change(kind=ChangeKind.DELETED, obj=obj(labels={"t": "b"}), old=obj(labels={"t": "a"}))
    assert passes(change, served=selecting("a"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("1d", "1h", True),
        ("1d", None, True),
        ("1d", "2d", True),
        ("", None, True),
        ("1d", "1d", False),
        ("1h", "2h", False),
        ("1h", "1d", False),
        ("1h", None, False),
        (None, "1h", False),
    ],
)
def test_a_mended_period_passes(before: str | None, after: str | None, *, expected: bool) -> None:
    """A broken period annotation that is changed or removed runs the object; no other change of it does (case Q2)."""

    def annotated(value: str | None) -> Object:
        return obj(annotations={"note": "x"} if value is None else {"note": "x", PERIOD_ANNOTATION: value})

    assert passes(updated(annotated(before), annotated(after))) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "true", True),
        ("true", None, True),
        ("true", "false", True),
        ("true", "yes", False),
        (None, "false", False),
    ],
)
def test_the_begin_and_the_end_of_a_pause_pass(before: str | None, after: str | None, *, expected: bool) -> None:
    """A person's brake is told at once, though a change of annotations is no reason to run; another value isn't."""
    old, new = (obj(annotations={} if value is None else {PAUSED_ANNOTATION: value}) for value in (before, after))
    assert passes(updated(old, new)) is expected


def test_our_pause_is_no_change_of_a_kind_without_generation() -> None:
    """What the operator tells of a pause, and takes back, starts no run; another's condition of that name does."""
    ours, theirs = ({"type": "Paused", "status": "True", "reason": reason} for reason in ("AnnotationSet", "Budget"))
    plain = obj(generation=None)
    assert not passes(updated(plain, obj(generation=None, status={"conditions": [ours]})))
    assert passes(updated(plain, obj(generation=None, status={"conditions": [theirs]})))
