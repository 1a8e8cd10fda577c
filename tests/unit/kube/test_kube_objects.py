"""Questions about objects, including objects that miss what is asked for."""

from __future__ import annotations

import pytest

from runner.kube import objects
from runner.kube.objects import GVK, Object

FULL: Object = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "generation": 3,
        "resourceVersion": "7",
        "labels": {"l": "1"},
        "annotations": {"x": "y"},
        "finalizers": ["f/1", "f/2"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "status": {"conditions": [{"type": "Running"}, "garbage", None]},
}


def test_a_full_object_answers_all_questions() -> None:
    """Each question reads its field."""
    assert GVK.of(FULL) == GVK("example.com", "v1", "Thing")
    assert (objects.namespace_of(FULL), objects.name_of(FULL), objects.uid_of(FULL)) == ("ns", "a", "u")
    assert (objects.generation_of(FULL), objects.resource_version_of(FULL)) == (3, "7")
    assert objects.labels_of(FULL) == {"l": "1"}
    assert objects.annotations_of(FULL) == {"x": "y"}
    assert objects.finalizers_of(FULL) == ("f/1", "f/2")
    assert objects.is_deleting(FULL)
    assert objects.conditions_of(FULL) == [{"type": "Running"}]


@pytest.mark.parametrize(
    "bare", [{}, {"metadata": {}}, {"metadata": None}, {"metadata": {"labels": None, "finalizers": None}}]
)
def test_an_empty_object_answers_with_nothing(bare: Object) -> None:
    """Missing fields are empty values, never errors."""
    assert (objects.namespace_of(bare), objects.name_of(bare), objects.uid_of(bare)) == ("", "", "")
    assert (objects.generation_of(bare), objects.resource_version_of(bare)) == (0, "")
    assert (objects.labels_of(bare), objects.annotations_of(bare), objects.finalizers_of(bare)) == ({}, {}, ())
    assert not objects.is_deleting(bare)


@pytest.mark.parametrize("status", [None, "text", [], {"conditions": None}, {"conditions": "x"}, {"conditions": {}}])
def test_a_strange_status_has_no_conditions(status: object) -> None:
    """A status that users filled with something else counts as one without conditions."""
    assert objects.conditions_of({"status": status}) == []


def test_the_core_group_is_written_without_a_name() -> None:
    """The apiVersion `v1` is the core group, and the text form is the peer's."""
    pod = GVK.of({"apiVersion": "v1", "kind": "Pod"})
    assert (pod.group, pod.api_version, str(pod)) == ("", "v1", "/v1, Kind=Pod")
    assert str(GVK.of(FULL)) == "example.com/v1, Kind=Thing"
