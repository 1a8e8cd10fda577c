"""What is kept of a dependent."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from runner.kube.objects import GVK, Object
from runner.proxy.ownership import PRIMARY_RESOURCE
from runner.sources.dependent_transform import DependentTransform
from runner.testing.cluster import CONFIG_MAPS, SECRETS

CANARY = "Q0FOQVJZ"
COPIES = ["kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original", "note"]
"""Annotations in which tools, or people, repeat an object's values."""
STATUS = {"autoscaling.alpha.kubernetes.io/conditions": "[1]", "autoscaling.alpha.kubernetes.io/current-metrics": "[2]"}
SPEC = {"autoscaling.alpha.kubernetes.io/metrics": "[3]", "autoscaling.alpha.kubernetes.io/behavior": "{}"}


def body(**parts: Any) -> Object:
    """Return an object with *parts*."""
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}
    return {"metadata": metadata, **parts}


def test_everything_but_status_and_managed_fields_is_kept() -> None:
    """The object that came stays as it was."""
    obj = body(data={"k": "v"}, immutable=True, status={"phase": "x"})
    obj["metadata"]["managedFields"] = [{"manager": "m"}]
    before = copy.deepcopy(obj)
    assert DependentTransform(CONFIG_MAPS.gvk)(obj) == body(data={"k": "v"}, immutable=True)
    assert obj == before


def test_of_the_status_only_followed_fields_are_kept() -> None:
    """Their keys are the paths as watches.yaml has them, so that the object stays JSON."""
    obj = body(status={"phase": "Bound", "rest": "x" * 1000, "list": [{"n": "a", "v": 1}]})
    kept = DependentTransform(GVK("", "v1", "Pod"), fields=["status.phase", "status.list[n=a].v"])(obj)
    assert kept["status"] == {"status.phase": "Bound", "status.list[n=a].v": 1}
    assert json.loads(json.dumps(kept)) == kept


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_no_value_of_a_secret_is_kept(version: str) -> None:
    """Neither data nor what tools repeat of it in annotations can be read; keys, and annotations of ours, can."""
    obj = body(data={"password": CANARY, "other": "eA=="}, stringData={"word": CANARY}, type="Opaque")
    copies = dict.fromkeys(COPIES, json.dumps({"data": {"password": CANARY}}))
    obj["metadata"]["annotations"] = {**copies, PRIMARY_RESOURCE: "a/one"}
    before = copy.deepcopy(obj)
    kept = DependentTransform(GVK("", version, "Secret"))(obj)
    assert CANARY not in json.dumps(kept)
    assert set(kept["data"]) == {"password", "other"}
    assert kept["type"] == "Opaque"
    assert set(kept["metadata"]["annotations"]) == {*COPIES, PRIMARY_RESOURCE}
    assert kept["metadata"]["annotations"][PRIMARY_RESOURCE] == "a/one"
    assert kept["metadata"]["labels"] == {"a": "b"}
    assert obj == before


@pytest.mark.parametrize("annotations", [SPEC, {}], ids=["some", "none"])
def test_status_that_stands_in_annotations_is_not_kept(annotations: dict[str, str]) -> None:
    """An autoscaler of the version v1 has its conditions there, and a part of its spec, which is kept."""
    before, after = body(spec={"maxReplicas": 3}), body(spec={"maxReplicas": 3})
    if annotations:
        before["metadata"]["annotations"] = annotations
    after["metadata"]["annotations"] = {**annotations, **STATUS}
    transform = DependentTransform(GVK("autoscaling", "v1", "HorizontalPodAutoscaler"))
    assert transform(after) == transform(before) == before
    assert DependentTransform(CONFIG_MAPS.gvk)(after) == after


def test_equal_values_of_a_secret_stay_equal_and_others_differ() -> None:
    """So that a change is seen without knowing what changed."""
    transform = DependentTransform(SECRETS.gvk)
    first, same, other = (transform(body(data={"k": value}))["data"]["k"] for value in (CANARY, CANARY, "eA=="))
    assert first == same != other


def test_a_followed_value_of_a_secret_is_kept_as_a_hash() -> None:
    """`watchDependentStatus` may name `data.password`: a change is seen, the value is not; what isn't there is None."""
    transform = DependentTransform(SECRETS.gvk, fields=["data.password", "data.missing"])
    first, same, other = (transform(body(data={"password": value})) for value in (CANARY, CANARY, "eA=="))
    assert CANARY not in json.dumps(first)
    assert first["status"] == same["status"] != other["status"]
    assert first["status"]["data.missing"] is None


def test_a_secret_without_data_is_kept_as_it_is() -> None:
    """`data: null` is no mapping."""
    assert DependentTransform(SECRETS.gvk)(body(data=None)) == body(data=None)


def test_other_kinds_of_that_name_hide_nothing() -> None:
    """A custom resource that is called Secret in a group of its own has no field whose meaning we know."""
    obj = body(data={"k": "v"})
    assert DependentTransform(GVK("vault.example.com", "v1", "Secret"))(obj) == obj
