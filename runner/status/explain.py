"""Sentences for the Failure condition: what a person must know to help where the API server said no.

`is_ours` and `name_taken` are the decision on AlreadyExists (adopt ours, else name the owner). No stage creates owned
objects yet, so nothing but their tests calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.errors import Forbidden, KubeError, Unauthorized
from runner.kube.objects import annotations_of, labels_of, metadata, name_of, namespace_of

UID_TAG = "ansible-operator.io/uid"
"""The label or annotation that says which object something was made for, where no owner reference can."""


def explain(error: KubeError) -> str:
    """Return *error* as a sentence that names the call and, where a person can help, the remedy."""
    if isinstance(error, Forbidden):
        return (
            f"Not allowed to {error.call}: grant the verb {error.call.verb} on {error.call.resource} "
            f"to the operator's service account ({error.message})"
        )
    if isinstance(error, Unauthorized):
        return f"The API server does not accept the operator's credentials, not even read anew: {error}"
    return str(error)


def is_ours(existing: Mapping[str, Any], *, uid: str) -> bool:
    """Tell whether an object that is there already may be adopted: its owner, or its UID tag, is the object *uid*."""
    tags = (labels_of(existing).get(UID_TAG), annotations_of(existing).get(UID_TAG))
    return bool(uid) and (uid in tags or any(owner.get("uid") == uid for owner in _owners(existing)))


def name_taken(existing: Mapping[str, Any]) -> str:
    """Return the Failure message for AlreadyExists where the object of that name is not ours: it names the owner."""
    where = f" in namespace {namespace_of(existing)}" if namespace_of(existing) else ""
    owners = [f"{owner.get('kind')} {owner.get('name')} (UID {owner.get('uid')})" for owner in _owners(existing)]
    tag = labels_of(existing).get(UID_TAG) or annotations_of(existing).get(UID_TAG)
    owners += [f"the object with UID {tag}"] if tag else []
    holder = f"belongs to {' and '.join(owners)}" if owners else "has no owner"
    return (
        f"{existing.get('kind')} {name_of(existing)}{where} exists already and {holder}: it is left alone; "
        "delete it, or choose another name"
    )


def _owners(existing: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(metadata(existing).get("ownerReferences") or ())
