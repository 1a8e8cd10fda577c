"""From a dependent to the objects whose runs made it: owner references, and the annotations where none are allowed.

Pure. The informers of `runner.sources.dependents` keep what names an owner of a watched kind (`names_owner`), and turn
its changes into the names of these owners (`owners_of`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.kube.objects import Object, annotations_of, metadata, namespace_of
from runner.watches.model import Watch

OWNER_ANNOTATION = "operator-sdk/primary-resource"
"""`namespace/name` of the owner."""
OWNER_TYPE_ANNOTATION = "operator-sdk/primary-resource-type"
"""`Kind.group` of the owner; for the core group `Kind`, or `Kind.` as older objects have it."""

Name = tuple[str, str]
"""Namespace (empty for cluster scope) and name."""


def names_owner(watch: Watch, obj: Object) -> bool:
    """Tell whether *obj* names an object of *watch*'s kind, in any version, as its owner."""
    return any(_references(watch, obj)) or _annotation(watch, obj) is not None


def owners_of(obj: Object, *, watch: Watch, namespaced: bool) -> set[Name]:
    """Return the owners of *watch*'s kind that *obj* names; *namespaced* tells where objects of that kind are.

    A reference to an owner in a namespace can only come from a dependent in that namespace; others are ignored, as the
    garbage collector does.
    """
    here = namespace_of(obj) if namespaced else ""
    found = {(here, name) for name in _references(watch, obj)}
    named = _annotation(watch, obj)
    if named is not None:
        namespace, _, name = named.rpartition("/") if "/" not in named else named.partition("/")
        found.add((namespace if namespaced else "", name))
    return {(namespace, name) for namespace, name in found if name and bool(namespace) == namespaced}


def _references(watch: Watch, obj: Object) -> Iterator[str]:
    """Return the names in the owner references to *watch*'s kind."""
    references = metadata(obj).get("ownerReferences")
    for reference in references if isinstance(references, list) else []:
        if isinstance(reference, Mapping) and _refers_to(watch, reference):
            yield str(reference.get("name") or "")


def _refers_to(watch: Watch, reference: Mapping[str, Any]) -> bool:
    group, _, _ = str(reference.get("apiVersion") or "").rpartition("/")
    return group == watch.gvk.group and reference.get("kind") == watch.gvk.kind


def _annotation(watch: Watch, obj: Object) -> str | None:
    """Return the owner that the annotations name, where it is of *watch*'s kind and the watch looks at annotations."""
    if not namespace_of(obj) and not watch.watch_cluster_scoped_resources:
        return None
    annotations = annotations_of(obj)
    kind = str(annotations.get(OWNER_TYPE_ANNOTATION, ""))
    return annotations.get(OWNER_ANNOTATION) if kind.removesuffix(".") == _kind(watch) else None


def _kind(watch: Watch) -> str:
    gvk = watch.gvk
    return f"{gvk.kind}.{gvk.group}" if gvk.group else gvk.kind
