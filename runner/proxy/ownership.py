"""How an object says whose it is: `Marks`, an owner reference or the two annotations. Pure.

A reference where the garbage collector honours it; annotations where it would delete the object instead, as the owner
is in another namespace, or the object is cluster-scoped and its owner isn't.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.proxy.exchange import Owner

PRIMARY_RESOURCE = "operator-sdk/primary-resource"
"""`namespace/name` of the owner."""
PRIMARY_RESOURCE_TYPE = "operator-sdk/primary-resource-type"
"""`Kind.group` of the owner, as `type_of` writes it."""
_EVENTS = {("", "Event"), ("events.k8s.io", "Event")}


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What an object must carry: a reference, annotations, or (only when read from an object) both."""

    reference: Mapping[str, Any] | None = None
    """Added unless there is one with its `uid`."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Always overwritten."""

    def __bool__(self) -> bool:
        """Tell whether there is anything to carry."""
        return self.reference is not None or bool(self.annotations)


def may_be_dependent(gvk: GVK) -> bool:
    """Tell whether objects of *gvk* get an owner and are watched: all but Events, which expire by themselves."""
    return (gvk.group, gvk.kind) not in _EVENTS


def wanted(owner: Owner, *, resource: Resource, namespace: str) -> Marks:
    """Return the marks of a new object of *resource* in *namespace* (empty: cluster scope)."""
    where = namespace if resource.namespaced else ""
    if not owner.namespace or owner.namespace == where:
        return Marks(reference=reference_to(owner))
    return Marks(annotations=annotations_of(owner))


def carried(metadata: Mapping[str, Any], *, owner: Owner) -> Marks:
    """Return the marks of *owner* that an object with this *metadata* carries, as they are."""
    references = metadata.get("ownerReferences")
    entries = references if isinstance(references, list) else []
    mine = (entry for entry in entries if isinstance(entry, dict) and entry.get("uid") == owner.uid)
    ours, found = annotations_of(owner), metadata.get("annotations")
    annotated = isinstance(found, dict) and ours.items() <= found.items()
    return Marks(reference=next(mine, None), annotations=ours if annotated else {})


def reference_to(owner: Owner) -> Mapping[str, str]:
    """Return the owner reference; without `blockOwnerDeletion`, which would need a right on the owner's finalizers."""
    return {"apiVersion": owner.gvk.api_version, "kind": owner.gvk.kind, "name": owner.name, "uid": owner.uid}


def annotations_of(owner: Owner) -> Mapping[str, str]:
    """Return the annotations."""
    return {PRIMARY_RESOURCE: f"{owner.namespace}/{owner.name}", PRIMARY_RESOURCE_TYPE: type_of(owner.gvk)}


def type_of(gvk: GVK) -> str:
    """Return `Kind.group`, for the core group `Kind`."""
    return f"{gvk.kind}.{gvk.group}" if gvk.group else gvk.kind
