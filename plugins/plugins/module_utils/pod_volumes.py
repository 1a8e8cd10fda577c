"""Whether a pod's volumes let it be placed on a node, as the scheduler's volume plugins judge. Pure.

Only claims matter: a Secret or ConfigMap that is missing holds a pod after it was placed. Not judged: how many volumes
a node can attach, access modes, the capacity that a storage driver has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.places import REGION, ZONE, Place
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import matches_node

_STATIC = "kubernetes.io/no-provisioner"
_OLDER = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}


@dataclass(frozen=True, kw_only=True)
class Volumes:
    """The claims of the pods' namespaces, and the cluster's volumes and storage classes."""

    claims: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """By namespace and name."""
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def volumes_of(*, claims: Iterable[Any] = (), volumes: Iterable[Any] = (), classes: Iterable[Any] = ()) -> Volumes:
    """Index the API's objects."""
    return Volumes(
        claims={(item["metadata"].get("namespace") or "default", item["metadata"]["name"]): item for item in claims},
        volumes={item["metadata"]["name"]: item for item in volumes},
        classes={item["metadata"]["name"]: item for item in classes},
    )


def why_volumes_hold(guest: Guest, known: Volumes) -> str:
    """Return why no node at all can take the pod, empty where none of its volumes stands in the way."""
    for name in claim_names(guest):
        reason = _why_claim_holds(known.claims.get((guest.namespace, name)), name=name, known=known)
        if reason:
            return reason
    return ""


def why_not_here(guest: Guest, place: Place, *, known: Volumes) -> str:
    """Return which volume can't be used on this node, empty for none."""
    for name in claim_names(guest):
        claim = known.claims.get((guest.namespace, name)) or {}
        spec = claim.get("spec") or {}
        if spec.get("volumeName"):
            reachable = _reaches(known.volumes.get(spec["volumeName"]) or {}, place)
        else:
            reachable = _provisioned_here(known.classes.get(spec.get("storageClassName") or "") or {}, place)
        if not reachable:
            return name
    return ""


def claim_names(guest: Guest) -> list[str]:
    """Return the claims that the pod mounts; an ephemeral volume's claim is named after pod and volume."""
    names = []
    for volume in guest.spec.get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            names.append(str(volume["persistentVolumeClaim"].get("claimName") or ""))
        elif volume.get("ephemeral") is not None:
            names.append(f"{guest.name}-{volume.get('name')}")
    return names


def _why_claim_holds(claim: Mapping[str, Any] | None, *, name: str, known: Volumes) -> str:
    if claim is None:
        return f"its volume claim {name} doesn't exist"
    meta, spec, phase = claim["metadata"], claim.get("spec") or {}, (claim.get("status") or {}).get("phase")
    if meta.get("deletionTimestamp"):
        return f"its volume claim {name} is being deleted"
    if phase == "Lost":
        return f"the volume of its claim {name} is lost"
    if spec.get("volumeName"):
        there = spec["volumeName"] in known.volumes
        return "" if there else f"the volume {spec['volumeName']} of its claim {name} doesn't exist"
    return _why_unbound_holds(name, class_name=spec.get("storageClassName") or "", known=known)


def _why_unbound_holds(name: str, *, class_name: str, known: Volumes) -> str:
    """Return why an unbound claim has to be bound first; one that waits for its first pod is bound where that goes."""
    storage_class = known.classes.get(class_name)
    if storage_class is None:
        missing = f", and its storage class {class_name} doesn't exist" if class_name else ""
        return f"its volume claim {name} isn't bound{missing}"
    if storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
        return f"its volume claim {name} isn't bound"
    if storage_class.get("provisioner") == _STATIC:
        return f"its volume claim {name} waits for a volume that somebody has to make by hand"
    return ""


def _reaches(volume: Mapping[str, Any], place: Place) -> bool:
    """Return whether a bound volume can be used on the node: by its node affinity, and by labels of older volumes."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    if required and not matches_node(required, place.labels, name=place.known_name):
        return False
    labels = (volume.get("metadata") or {}).get("labels") or {}
    for key in (ZONE, REGION, *_OLDER):
        present = place.labels.get(_OLDER.get(key, key))
        if key in labels and present not in labels[key].split("__"):
            return False
    return True


def _provisioned_here(storage_class: Mapping[str, Any], place: Place) -> bool:
    """Return whether the class makes volumes where the node is; no topologies means everywhere."""
    topologies = storage_class.get("allowedTopologies") or []
    return not topologies or any(
        all(place.labels.get(item["key"]) in item["values"] for item in term.get("matchLabelExpressions") or [])
        for term in topologies
    )
