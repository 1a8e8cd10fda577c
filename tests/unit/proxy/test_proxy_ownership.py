"""How an object says whose it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.proxy.exchange import Owner
from runner.proxy.ownership import Marks, carried, wanted

OWNER = Owner(gvk=GVK("bugs.example.com", "v1", "Probe"), namespace="ns1", name="p", uid="u1")
REFERENCE = {"apiVersion": "bugs.example.com/v1", "kind": "Probe", "name": "p", "uid": "u1"}
ANNOTATIONS = {"operator-sdk/primary-resource": "ns1/p", "operator-sdk/primary-resource-type": "Probe.bugs.example.com"}
CONFIG_MAPS = Resource(gvk=GVK("", "v1", "ConfigMap"), plural="configmaps")
CLUSTER_ROLES = Resource(
    gvk=GVK("rbac.authorization.k8s.io", "v1", "ClusterRole"), plural="clusterroles", namespaced=False
)


def test_a_dependent_beside_its_owner_gets_a_reference() -> None:
    """In the owner's namespace the garbage collector honours a reference: four fields, no blockOwnerDeletion."""
    assert wanted(OWNER, resource=CONFIG_MAPS, namespace="ns1") == Marks(reference=REFERENCE)


@pytest.mark.parametrize(
    ("resource", "namespace"), [(CONFIG_MAPS, "ns2"), (CLUSTER_ROLES, ""), (CLUSTER_ROLES, "ns1"), (CONFIG_MAPS, "")]
)
def test_a_dependent_elsewhere_gets_annotations(resource: Resource, namespace: str) -> None:
    """In another namespace, or of cluster scope, a reference would get it deleted."""
    assert wanted(OWNER, resource=resource, namespace=namespace) == Marks(annotations=ANNOTATIONS)


@pytest.mark.parametrize(("resource", "namespace"), [(CONFIG_MAPS, "ns2"), (CLUSTER_ROLES, "")])
def test_a_cluster_scoped_owner_is_referred_to_from_everywhere(resource: Resource, namespace: str) -> None:
    """A cluster-scoped owner may own whatever there is."""
    owner = replace(OWNER, namespace="")
    assert wanted(owner, resource=resource, namespace=namespace) == Marks(reference=REFERENCE)


def test_the_type_of_a_core_owner_is_its_kind() -> None:
    """An owner of the core group has no dot in the type annotation."""
    owner = replace(OWNER, gvk=GVK("", "v1", "ConfigMap"))
    marks = wanted(owner, resource=CLUSTER_ROLES, namespace="")
    assert marks.annotations["operator-sdk/primary-resource-type"] == "ConfigMap"


CONTROLLER = {**REFERENCE, "controller": True}


@pytest.mark.parametrize(
    ("metadata", "marks"),
    [
        ({"ownerReferences": [{"uid": "other"}, CONTROLLER]}, Marks(reference=CONTROLLER)),
        ({"annotations": {**ANNOTATIONS, "a": "b"}}, Marks(annotations=ANNOTATIONS)),
        (
            {"ownerReferences": [REFERENCE], "annotations": ANNOTATIONS},
            Marks(reference=REFERENCE, annotations=ANNOTATIONS),
        ),
        ({}, Marks()),
        ({"ownerReferences": None, "annotations": None}, Marks()),
        ({"ownerReferences": ["odd"], "annotations": "odd"}, Marks()),
        ({"ownerReferences": [{**REFERENCE, "uid": "an earlier one's"}]}, Marks()),
        ({"annotations": {**ANNOTATIONS, "operator-sdk/primary-resource": "ns1/q"}}, Marks()),
        ({"annotations": {"operator-sdk/primary-resource": "ns1/p"}}, Marks()),
    ],
)
def test_an_objects_own_marks_are_read_as_they_are(metadata: dict[str, Any], marks: Marks) -> None:
    """A reference counts by its UID and is kept with all its fields; annotations count when both name the owner."""
    assert carried(metadata, owner=OWNER) == marks
    assert bool(carried(metadata, owner=OWNER)) == (marks != Marks())
