"""Differences of two objects, in the words of a person."""

from __future__ import annotations

from typing import Any

import pytest

from runner.kube.objects import Object
from runner.sources.field_diff import ABSENT, differences


def with_containers(*containers: Object) -> Object:
    """Return the part of a Deployment that has *containers*."""
    return {"spec": {"template": {"spec": {"containers": list(containers)}}}}


WEB = {"name": "webapp", "image": "web:1"}
POD = "spec.template.spec.containers"


@pytest.mark.parametrize(
    ("desired", "actual", "expected"),
    [
        ({"spec": {"replicas": 3}}, {"spec": {"replicas": 10}}, [("spec.replicas", 3, 10)]),
        ({"spec": {"replicas": 3}}, {"spec": {}}, [("spec.replicas", 3, ABSENT)]),
        ({"spec": {}}, {"spec": {"paused": True}}, [("spec.paused", ABSENT, True)]),
        ({"spec": {"a": 1}}, {"spec": {"a": True}}, [("spec.a", 1, True)]),
        ({"spec": {"a": None, "b": [], "c": {}}}, {"spec": {}}, []),
        (
            with_containers({"name": "first", "image": "x"}, WEB),
            with_containers({"name": "first", "image": "x"}, {**WEB, "image": "web:2"}),
            [(f"{POD}[name=webapp].image", "web:1", "web:2")],
        ),
        (
            with_containers(WEB),
            with_containers({"name": "side", "image": "s"}, WEB),
            [(f"{POD}[name=side]", ABSENT, {"name": "side", "image": "s"})],
        ),
        (
            with_containers(WEB, {"name": "side"}),
            with_containers({"name": "side"}, WEB),
            [(f"{POD}[order]", "name=webapp, name=side", "name=side, name=webapp")],
        ),
        (
            {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
            {"spec": {"ports": [{"port": 80}, {"port": 82}]}},
            [("spec.ports[1].port", 81, 82)],
        ),
        (
            {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]}},
            {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 82}]}},
            [("spec.ports[1].port", 81, 82)],
        ),
        ({"spec": {"args": ["a", "b"]}}, {"spec": {"args": ["a"]}}, [("spec.args[1]", "b", ABSENT)]),
        (
            {"metadata": {}},
            {"metadata": {"labels": {"app.kubernetes.io/name": "web"}}},
            [('metadata.labels["app.kubernetes.io/name"]', ABSENT, "web")],
        ),
        ({"metadata": {}}, {"metadata": {"finalizers": ["a/b"]}}, [("metadata.finalizers[0]", ABSENT, "a/b")]),
        (
            {"metadata": {"ownerReferences": [{"name": "web", "uid": "u"}]}},
            {"metadata": {}},
            [("metadata.ownerReferences", [{"name": "web", "uid": "u"}], ABSENT)],
        ),
        ({"data": {"a.conf": "x"}}, {"data": {"a.conf": "y"}}, [('data["a.conf"]', "x", "y")]),
    ],
)
def test_each_field_is_named_with_both_values(
    desired: Object, actual: Object, expected: list[tuple[str, Any, Any]]
) -> None:
    """Elements of a list go by their name where all have one, else by their place."""
    assert [(found.field, found.desired, found.actual) for found in differences(desired, actual)] == expected


def test_what_the_server_keeps_is_no_difference() -> None:
    """Status, resource version, generation, managed fields, timestamps and UID are nobody's wish."""
    old: Object = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "1", "generation": 1}, "status": {"a": 1}}
    kept = {"uid": "2", "resourceVersion": "2", "generation": 2, "managedFields": [{}], "creationTimestamp": "x"}
    new: Object = {"metadata": {"name": "a", **kept, "deletionTimestamp": "x", "selfLink": "y"}, "status": {"a": 2}}
    assert not differences(old, new)
