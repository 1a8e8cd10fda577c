"""Whether a pod's volume claims let it be placed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import (
    Volumes,
    volumes_of,
    why_not_here,
    why_volumes_hold,
)

from tests.unit.plugins.cluster_builders import make_guest, make_place

ZONE = "topology.kubernetes.io/zone"
CLAIMING = make_guest(spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})


def claim(*, phase: str = "Pending", storage_class: str = "lazy", volume: str = "", **meta: Any) -> dict[str, Any]:
    """Return the claim `data`."""
    spec = {"storageClassName": storage_class, **({"volumeName": volume} if volume else {})}
    metadata = {"name": "data", "namespace": "prod", **meta}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def storage_class(name: str, *, mode: str = "WaitForFirstConsumer", **parts: Any) -> dict[str, Any]:
    """Return a storage class."""
    return {"metadata": {"name": name}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": mode, **parts}


def volume(*, labels: dict[str, str] | None = None, zone: str = "") -> dict[str, Any]:
    """Return the volume `pv-1`."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}} if zone else None
    return {"metadata": {"name": "pv-1", "labels": labels or {}}, "spec": {"nodeAffinity": affinity}}


CLASSES = [
    storage_class("lazy"),
    storage_class("eager", mode="Immediate"),
    storage_class("manual", provisioner="kubernetes.io/no-provisioner"),
]


def known(*claims: dict[str, Any], volumes: tuple[dict[str, Any], ...] = ()) -> Volumes:
    """Return what is in the cluster."""
    found: Volumes = volumes_of(claims=claims, volumes=volumes, classes=CLASSES)
    return found


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ([], "its volume claim data doesn't exist"),
        ([claim()], ""),
        ([claim(storage_class="eager")], "its volume claim data isn't bound"),
        ([claim(storage_class="")], "its volume claim data isn't bound"),
        ([claim(storage_class="gone")], "its volume claim data isn't bound, and its storage class gone doesn't exist"),
        ([claim(storage_class="manual")], "its volume claim data waits for a volume that somebody has to make by hand"),
        ([claim(phase="Bound", volume="pv-1")], ""),
        ([claim(phase="Bound", volume="pv-2")], "the volume pv-2 of its claim data doesn't exist"),
        ([claim(phase="Lost", volume="pv-1")], "the volume of its claim data is lost"),
        ([claim(deletionTimestamp="2026-11-30T12:00:00Z")], "its volume claim data is being deleted"),
        ([claim(namespace="dev")], "its volume claim data doesn't exist"),
    ],
)
def test_claims_that_hold_a_pod(claims: list[dict[str, Any]], reason: str) -> None:
    """A claim that has to be there or bound before a node is chosen holds its pod; one bound later doesn't."""
    assert why_volumes_hold(CLAIMING, known(*claims, volumes=(volume(),))) == reason


@pytest.mark.parametrize(
    "item",
    [
        {"secret": {"secretName": "gone"}},
        {"configMap": {"name": "gone"}},
        {"emptyDir": {}},
        {"hostPath": {"path": "/"}},
    ],
)
def test_other_volumes_are_no_business_of_the_scheduler(item: dict[str, Any]) -> None:
    """A missing Secret or ConfigMap holds a pod only after it was placed."""
    assert why_volumes_hold(make_guest(spec={"volumes": [{"name": "v", **item}]}), known()) == ""


def test_ephemeral_volume_has_a_claim_named_after_pod_and_volume() -> None:
    """An ephemeral volume is looked up by the name that its claim gets."""
    guest = make_guest("web", spec={"volumes": [{"name": "scratch", "ephemeral": {}}]})
    assert why_volumes_hold(guest, known()) == "its volume claim web-scratch doesn't exist"


@pytest.mark.parametrize(
    ("there", "reachable"),
    [
        (volume(), True),
        (volume(zone="a"), True),
        (volume(zone="b"), False),
        (volume(labels={ZONE: "a"}), True),
        (volume(labels={ZONE: "b"}), False),
        (volume(labels={ZONE: "b__a"}), True),
        (volume(labels={"failure-domain.beta.kubernetes.io/zone": "b"}), False),
    ],
)
def test_bound_volume_is_used_where_it_is(there: dict[str, Any], reachable: bool) -> None:  # noqa: FBT001 - a column
    """A volume of one zone can't be used in another, by its node affinity or by the labels of older volumes."""
    cluster = known(claim(phase="Bound", volume="pv-1"), volumes=(there,))
    assert (why_not_here(CLAIMING, make_place(labels={ZONE: "a"}), known=cluster) == "") is reachable


@pytest.mark.parametrize(("zones", "reachable"), [(["a"], True), (["b"], False)])
def test_class_makes_volumes_in_its_topologies(zones: list[str], reachable: bool) -> None:  # noqa: FBT001 - a column
    """A claim that is bound later is bound only where its class makes volumes."""
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    cluster = volumes_of(claims=[claim()], classes=[storage_class("lazy", allowedTopologies=allowed)])
    assert (why_not_here(CLAIMING, make_place(labels={ZONE: "a"}), known=cluster) == "") is reachable
