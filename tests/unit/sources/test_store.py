"""The store: what counts as a change."""

from __future__ import annotations

import dataclasses

from runner.kube.objects import Object
from runner.sources.store import Change, ChangeKind, Store


def obj(name: str, *, version: str = "1", uid: str = "") -> Object:
    """Build an object."""
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": version}}


def told(changes: list[Change]) -> list[str]:
    """Write changes as `ADDED name@version`."""
    return [
        f"{c.kind.value} {c.obj['metadata']['name']}@{c.obj['metadata']['resourceVersion']}" for c in changes
    ]  # fmt: skip


def test_a_new_object_is_added() -> None:
    """An unknown object is a change of kind ADDED without an old state."""
    changes = Store().put(obj("a"))
    assert changes == [Change(kind=ChangeKind.ADDED, obj=obj("a"))]


def test_a_replayed_state_is_no_change() -> None:
    """The same resource version again is no change."""
    store = Store()
    store.put(obj("a"))
    assert store.put(obj("a")) == []


def test_a_newer_state_is_modified_with_the_old_one() -> None:
    """Another resource version is MODIFIED and carries what was known before."""
    store = Store()
    store.put(obj("a"))
    assert store.put(obj("a", version="2")) == [
        Change(kind=ChangeKind.MODIFIED, obj=obj("a", version="2"), old=obj("a"))
    ]


def test_another_uid_is_another_object() -> None:
    """An object of the same name with another UID is told as DELETED, then ADDED."""
    store = Store()
    store.put(obj("a"))
    changes = store.put(obj("a", version="2", uid="other"))
    assert told(changes) == ["DELETED a@1", "ADDED a@2"]


def test_a_removed_object_is_deleted_with_its_last_state() -> None:
    """A deletion carries the last state that the server sent, and the stored one as the old state."""
    store = Store()
    store.put(obj("a"))
    assert store.remove(obj("a", version="5")) == [
        Change(kind=ChangeKind.DELETED, obj=obj("a", version="5"), old=obj("a"))
    ]
    assert len(store) == 0


def test_the_removal_of_an_unknown_object_is_no_change() -> None:
    """Nobody is told of the deletion of something that was never known."""
    assert Store().remove(obj("a")) == []


def test_a_complete_list_tells_exactly_the_differences() -> None:
    """Objects missing in the list are deleted first; unchanged ones are not mentioned."""
    store = Store()
    store.replace([obj("same"), obj("gone"), obj("changed"), obj("again")])
    changes = store.replace([
        obj("new"), obj("same"), obj("changed", version="2"), obj("again", version="3", uid="other"),
    ])  # fmt: skip
    assert told(changes) == ["DELETED gone@1", "ADDED new@1", "MODIFIED changed@2", "DELETED again@1", "ADDED again@3"]
    assert {entry["metadata"]["name"] for entry in store} == {"new", "same", "changed", "again"}


def test_what_a_list_brought_is_marked() -> None:
    """More may have happened in between than its changes tell; a watch tells each one."""
    store = Store()
    store.replace([obj("gone"), obj("changed"), obj("again")])
    listed = store.replace([obj("new"), obj("changed", version="2"), obj("again", version="3", uid="other")])
    assert [change.relisted for change in listed] == [True] * 5
    watched = [*store.put(obj("new", version="4")), *store.put(obj("b")), *store.remove(obj("b", version="6"))]
    assert [change.relisted for change in watched] == [False] * 3


def test_an_empty_list_deletes_everything() -> None:
    """When nothing is listed everything is gone."""
    store = Store()
    store.replace([obj("a"), obj("b")])
    assert told(store.replace([])) == ["DELETED a@1", "DELETED b@1"]


def test_equal_names_in_two_namespaces_are_two_objects() -> None:
    """The key holds the namespace."""
    store = Store()
    store.put(obj("a"))
    other = obj("a")
    other["metadata"]["namespace"] = "other"
    assert [change.kind for change in store.put(other)] == [ChangeKind.ADDED]
    assert store.get(namespace="other", name="a") == other


def test_the_transform_decides_what_is_kept() -> None:
    """Changes and store hold objects as the transform leaves them."""
    store = Store(transform=lambda full: {"metadata": full["metadata"]})
    (change,) = store.put({**obj("a"), "data": {"big": "x"}})
    assert "data" not in change.obj
    assert store.get(namespace="ns", name="a") == obj("a")


def ours(obj: Object) -> bool:
    """Tell whether an object has a label."""
    return bool(obj["metadata"].get("labels"))


def labelled(name: str, *, version: str = "1", uid: str = "") -> Object:
    """Build an object with a label."""
    labels = {"labels": {"ours": "yes"}}
    return {"metadata": {**obj(name, version=version, uid=uid)["metadata"], **labels}}


def test_what_is_not_worth_keeping_is_no_change() -> None:
    """Neither its states nor its end are told, and nothing of it is held."""
    store = Store(keeps=ours)
    assert not store.wants(obj("a"))
    assert store.replace([obj("a")]) == []
    assert store.put(obj("a", version="2")) == []
    assert store.remove(obj("a", version="3")) == []
    assert len(store) == 0


def test_what_is_not_worth_keeping_any_more_is_told_once_and_dropped() -> None:
    """The last change has both states, whether a watch or a list told it; then there is silence."""
    for method in ("put", "replace"):
        store = Store(keeps=ours)
        store.put(labelled("a"))
        assert store.wants(obj("a", version="2"))
        changes = store.put(obj("a", version="2")) if method == "put" else store.replace([obj("a", version="2")])
        modified = Change(kind=ChangeKind.MODIFIED, obj=obj("a", version="2"), old=labelled("a"))
        assert changes == [dataclasses.replace(modified, relisted=method == "replace")]
        assert len(store) == 0
        assert store.put(obj("a", version="3")) == []


def test_another_object_that_is_not_worth_keeping_ends_the_one_of_its_name() -> None:
    """The known one was deleted; the new one is not told."""
    store = Store(keeps=ours)
    store.put(labelled("a"))
    assert told(store.put(obj("a", version="2", uid="new"))) == ["DELETED a@1"]
    assert len(store) == 0


def test_what_becomes_worth_keeping_is_added() -> None:
    """An object that gets the label is new to who asked for labelled ones."""
    store = Store(keeps=ours)
    store.put(obj("a"))
    assert told(store.put(labelled("a", version="2"))) == ["ADDED a@2"]
