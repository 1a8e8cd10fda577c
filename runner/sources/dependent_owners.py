"""From a dependent to the objects whose runs made it: owner references, and the annotations where none are allowed.

Pure. The informers of `runner.sources.dependents` keep what names an owner of a watched kind (`names_owner`), and turn
its changes into the names of these owners (`claims_of`). References have the owner's UID too: an object that was made
anew under the name of an earlier one isn't the owner of what that one's runs made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.kube.objects import GVK, Object, annotations_of, metadata, namespace_of
from runner.proxy.ownership import PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, type_of
from runner.watches.model import Watch
from runner.workqueue.request import Request

Name = tuple[str, str]
"""Namespace (empty for cluster scope) and name."""
_ANNOTATIONS = f"annotations {PRIMARY_RESOURCE} and {PRIMARY_RESOURCE_TYPE}"


def names_owner(watch: Watch, obj: Object) -> bool:
    """Tell whether *obj* names an object of *watch*'s kind, in any version, as its owner."""
    return any(name for name, _ in _references(watch, obj)) or _annotation(watch, obj) is not None


def owners_of(obj: Object, *, watch: Watch, namespaced: bool) -> set[Name]:
    """Return the owners of *watch*'s kind that *obj* names; *namespaced* tells where objects of that kind are."""
    return set(claims_of(obj, watch=watch, namespaced=namespaced))


def claims_of(obj: Object, *, watch: Watch, namespaced: bool) -> dict[Name, set[str]]:
    """Return these owners, each with the UIDs by which *obj* names it; an empty one: any object of that name.

    A reference to an owner in a namespace can only come from a dependent in that namespace; others are ignored, as the
    garbage collector does.
    """
    here = namespace_of(obj) if namespaced else ""
    claims = [((here, name), uid) for name, uid in _references(watch, obj)]
    named = _annotation(watch, obj)
    if named is not None:
        namespace, _, name = named.rpartition("/") if "/" not in named else named.partition("/")
        claims.append(((namespace if namespaced else "", name), ""))
    found: dict[Name, set[str]] = {}
    for owner, uid in claims:
        if owner[1] and bool(owner[0]) == namespaced:
            found.setdefault(owner, set()).add(uid)
    return found


def mark_of(obj: Object, *, owner: Request) -> str:
    """Return by what *obj* names *owner*, for a person; empty where it doesn't."""
    references = metadata(obj).get("ownerReferences")
    for reference in references if isinstance(references, list) else []:
        if isinstance(reference, Mapping) and _refers_to(owner.gvk, reference) and reference.get("name") == owner.name:
            return "owner reference"
    found = annotations_of(obj)
    named = found.get(PRIMARY_RESOURCE) == f"{owner.namespace}/{owner.name}"
    return _ANNOTATIONS if named and found.get(PRIMARY_RESOURCE_TYPE) == type_of(owner.gvk) else ""


def _references(watch: Watch, obj: Object) -> Iterator[tuple[str, str]]:
    """Give name and UID of the owner references to *watch*'s kind."""
    references = metadata(obj).get("ownerReferences")
    for reference in references if isinstance(references, list) else []:
        if isinstance(reference, Mapping) and _refers_to(watch.gvk, reference):
            yield str(reference.get("name") or ""), str(reference.get("uid") or "")


def _refers_to(gvk: GVK, reference: Mapping[str, Any]) -> bool:
    group, _, _ = str(reference.get("apiVersion") or "").rpartition("/")
    return group == gvk.group and reference.get("kind") == gvk.kind


def _annotation(watch: Watch, obj: Object) -> str | None:
    """Return the owner that the annotations name, where it is of *watch*'s kind and the watch looks at annotations."""
    if not namespace_of(obj) and not watch.watch_cluster_scoped_resources:
        return None
    annotations = annotations_of(obj)
    kind = str(annotations.get(PRIMARY_RESOURCE_TYPE, "")).removesuffix(".")  # older objects of the core group: `Kind.`
    return annotations.get(PRIMARY_RESOURCE) if kind == type_of(watch.gvk) else None
