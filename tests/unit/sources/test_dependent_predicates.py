"""Which changes of a dependent count."""

from __future__ import annotations

from typing import Any

import pytest

from runner.kube.objects import GVK, Object
from runner.sources.dependent_predicates import content_changed, fields_changed
from runner.sources.dependent_transform import DependentTransform
from runner.sources.store import Change, ChangeKind, Store

DEPLOYMENT = GVK("apps", "v1", "Deployment")
READY = "status.conditions[type=Ready].status"


def deployment(*, meta: Object | None = None, **parts: Any) -> Object:
    """Return a Deployment with *parts* beside its metadata."""
    metadata = {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1, **(meta or {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1}, **parts}


def modified(new: Object, *, old: Object | None = None, fields: tuple[str, ...] = ()) -> Change:
    """Return the change from *old* to *new* as an informer of dependents tells it."""
    store = Store(transform=DependentTransform(DEPLOYMENT, fields=fields))
    store.put(old or deployment())
    new["metadata"]["resourceVersion"] = "2"
    (change,) = store.put(new)
    return change


@pytest.mark.parametrize(
    "new",
    [
        deployment(),
        deployment(status={"replicas": 1}),
        deployment(meta={"generation": 2}),
        deployment(meta={"managedFields": [{"manager": "kubelet"}]}),
    ],
    ids=["resourceVersion", "status", "generation", "managedFields"],
)
def test_what_controllers_write_all_day_does_not_count(new: Object) -> None:
    """A change of nothing but resourceVersion, status, generation or managedFields is none."""
    assert not content_changed(modified(new))


@pytest.mark.parametrize(
    "new",
    [
        deployment(spec={"replicas": 2}),
        deployment(data={"k": "v"}),
        deployment(meta={"labels": {"a": "b"}}),
        deployment(meta={"annotations": {"a": "b"}}),
        deployment(meta={"ownerReferences": []}),
        deployment(meta={"finalizers": ["example.com/f"]}),
        deployment(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ],
    ids=["spec", "data", "labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp"],
)
def test_content_and_metadata_count(new: Object) -> None:
    """Everything else is a change, the begin of a deletion too."""
    assert content_changed(modified(new))


def test_a_new_object_does_not_count_and_a_deleted_one_does() -> None:
    """Whoever made it knows it; that it is gone nobody knows."""
    store = Store(transform=DependentTransform(DEPLOYMENT))
    (added,) = store.put(deployment())
    (deleted,) = store.remove(deployment())
    assert (added.kind, deleted.kind) == (ChangeKind.ADDED, ChangeKind.DELETED)
    assert not content_changed(added)
    assert content_changed(deleted)


def test_a_followed_field_counts_and_other_status_does_not() -> None:
    """Only the value at a listed path is looked at, by the watch that lists it."""
    fields = ("status.availableReplicas", READY)
    old = deployment(status={"availableReplicas": 1, "conditions": [{"type": "Ready", "status": "False"}]})
    noise = deployment(
        status={
            "availableReplicas": 1,
            "observedGeneration": 5,
            "conditions": [{"type": "New"}, {"type": "Ready", "status": "False", "lastProbeTime": "x"}],
        }
    )
    news = deployment(status={"availableReplicas": 1, "conditions": [{"type": "Ready", "status": "True"}]})
    quiet, told = (modified(new, old=old, fields=fields) for new in (noise, news))
    assert not fields_changed(quiet, fields)
    assert fields_changed(told, fields)
    assert not fields_changed(told, fields[:1])
    assert not fields_changed(told, ())
    assert not content_changed(told)


def test_a_followed_field_that_goes_with_its_object_counts() -> None:
    """Of an object that had no value nobody misses one."""
    store = Store(transform=DependentTransform(DEPLOYMENT, fields=["status.phase"]))
    (added,) = store.put(deployment(status={"phase": "Bound"}))
    (deleted,) = store.remove(deployment(status={"phase": "Bound"}))
    assert not fields_changed(added, ["status.phase"])
    assert fields_changed(deleted, ["status.phase"])
    store.put(deployment())
    (without,) = store.remove(deployment())
    assert not fields_changed(without, ["status.phase"])
