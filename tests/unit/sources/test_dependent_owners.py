"""Which owners a dependent names, by owner references and by annotations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.kube.objects import GVK, Object
from runner.sources.dependent_owners import names_owner, owners_of
from runner.watches.model import Content, Watch

PROBE = Watch(gvk=GVK("bugs.example.com", "v1", "Probe"), content=Content())
CORE = Watch(gvk=GVK("", "v1", "Secret"), content=Content())
NAME, TYPE = "operator-sdk/primary-resource", "operator-sdk/primary-resource-type"


def reference(*, version: str = "bugs.example.com/v1", kind: str = "Probe", name: str = "one") -> Object:
    """Return an owner reference."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "u"}


def dependent(*references: object, namespace: str = "ns", **annotations: str) -> Object:
    """Return a ConfigMap with owner references and annotations, of which *annotations* has `name` and `type`."""
    meta: Object = {"name": "dep", "ownerReferences": list(references)}
    if namespace:
        meta["namespace"] = namespace
    if annotations:
        meta["annotations"] = {{"name": NAME, "type": TYPE}[key]: value for key, value in annotations.items()}
    return {"metadata": meta}


@pytest.mark.parametrize(
    ("references", "owners"),
    [
        ([reference()], {("ns", "one")}),
        ([reference(version="bugs.example.com/v2")], {("ns", "one")}),
        ([reference(), reference(name="two")], {("ns", "one"), ("ns", "two")}),
        ([reference(version="v1")], set()),
        ([reference(version="other.example.com/v1")], set()),
        ([reference(kind="Other")], set()),
        ([reference(name="")], set()),
        (["odd", None], set()),
    ],
)
def test_owner_references_name_owners_of_the_kind_in_any_version(
    references: list[Any], owners: set[tuple[str, str]]
) -> None:
    """Group and kind decide, the namespace is the dependent's, and there may be several."""
    assert owners_of(dependent(*references), watch=PROBE, namespaced=True) == owners


@pytest.mark.parametrize("references", [None, {}, "x"])
def test_references_that_are_no_list_are_none(references: Any) -> None:
    """`ownerReferences: null`, which roles in the field send, is no owner."""
    obj = {"metadata": {"name": "dep", "namespace": "ns", "ownerReferences": references}}
    assert not names_owner(PROBE, obj)
    assert owners_of(obj, watch=PROBE, namespaced=True) == set()


@pytest.mark.parametrize("namespace", ["ns", ""])
def test_a_cluster_scoped_owner_is_in_no_namespace(namespace: str) -> None:
    """Its dependents may be in a namespace or not, and the key has none."""
    assert owners_of(dependent(reference(), namespace=namespace), watch=PROBE, namespaced=False) == {("", "one")}


def test_a_cluster_scoped_dependent_refers_to_no_owner_in_a_namespace() -> None:
    """Such a reference, which the garbage collector takes for broken, starts nothing."""
    assert owners_of(dependent(reference(), namespace=""), watch=PROBE, namespaced=True) == set()


@pytest.mark.parametrize(
    ("value", "owners"),
    [
        ("a/one", {("a", "one")}),
        ("a/one/two", {("a", "one/two")}),
        ("one", set()),
        ("/one", set()),
        ("a/", set()),
        ("", set()),
    ],
)
def test_the_annotation_is_split_at_the_first_slash(value: str, owners: set[tuple[str, str]]) -> None:
    """What lacks a namespace or a name names nobody."""
    obj = dependent(name=value, type="Probe.bugs.example.com", namespace="b")
    assert owners_of(obj, watch=PROBE, namespaced=True) == owners


@pytest.mark.parametrize("value", ["one", "/one"])
def test_the_annotation_of_a_cluster_scoped_owner_has_no_namespace(value: str) -> None:
    """With a slash and without one it names the same."""
    obj = dependent(name=value, type="Probe.bugs.example.com")
    assert owners_of(obj, watch=PROBE, namespaced=False) == {("", "one")}


@pytest.mark.parametrize(
    ("watch", "kind", "named"),
    [
        (PROBE, "Probe.bugs.example.com", True),
        (PROBE, "Probe", False),
        (PROBE, "Probe.other.example.com", False),
        (CORE, "Secret", True),
        (CORE, "Secret.", True),
        (CORE, "Secret.v1", False),
        (CORE, "", False),
    ],
)
def test_the_type_annotation_tells_the_kind(watch: Watch, kind: str, *, named: bool) -> None:
    """`Kind.group`, for the core group `Kind`, and `Kind.` as an old watch of the peer restored it."""
    obj = dependent(name="a/one", type=kind)
    assert names_owner(watch, obj) is named
    assert owners_of(obj, watch=watch, namespaced=True) == ({("a", "one")} if named else set())


def test_annotations_of_cluster_scoped_dependents_count_only_if_asked_for() -> None:
    """It is `watchClusterScopedResources` that asks."""
    obj = dependent(name="a/one", type="Probe.bugs.example.com", namespace="")
    asking = replace(PROBE, watch_cluster_scoped_resources=True)
    assert not names_owner(PROBE, obj)
    assert owners_of(obj, watch=PROBE, namespaced=True) == set()
    assert names_owner(asking, obj)
    assert owners_of(obj, watch=asking, namespaced=True) == {("a", "one")}


def test_a_reference_and_an_annotation_may_name_two_owners() -> None:
    """Both are owners."""
    obj = dependent(reference(), name="a/two", type="Probe.bugs.example.com")
    assert owners_of(obj, watch=PROBE, namespaced=True) == {("ns", "one"), ("a", "two")}
