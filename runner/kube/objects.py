"""Kubernetes objects as plain JSON values, and the few questions that every stage asks of them.

An `Object` is the dictionary that the API server sent. Nothing here writes; the queue and the stages carry a
`GVK` and names, never a copy of an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONG_TEXT = 1 << 16

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""


@dataclass(frozen=True, order=True)
class GVK:
    """Group, version and kind; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Return `group/version`, or `version` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """Return the form that the peer logs and labels metrics with: `group/version, Kind=Kind`."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> GVK:
        """Read the GVK from *obj*'s apiVersion and kind."""
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        return cls(group, version, str(obj.get("kind", "")))


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *obj*'s metadata, empty where there is none."""
    found = obj.get("metadata")
    return found if isinstance(found, Mapping) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return the object's name."""
    return str(metadata(obj).get("name", ""))


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return the object's namespace, empty for cluster scope."""
    return str(metadata(obj).get("namespace") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the object's UID."""
    return str(metadata(obj).get("uid", ""))


def generation_of(obj: Mapping[str, Any]) -> int:
    """Return metadata.generation, 0 for kinds that have none (Secret, ConfigMap)."""
    return int(metadata(obj).get("generation") or 0)


def resource_version_of(obj: Mapping[str, Any]) -> str:
    """Return metadata.resourceVersion."""
    return str(metadata(obj).get("resourceVersion", ""))


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels."""
    return metadata(obj).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations."""
    return metadata(obj).get("annotations") or {}


def finalizers_of(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the finalizers in their order."""
    return tuple(metadata(obj).get("finalizers") or ())


def is_deleting(obj: Mapping[str, Any]) -> bool:
    """Tell whether a deletion timestamp is set."""
    return bool(metadata(obj).get("deletionTimestamp"))


def conditions_of(obj: Mapping[str, Any]) -> list[Object]:
    """Return status.conditions, keeping only entries that are objects; anything else counts as none."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def is_small(document: object, *, limit: int = 1000) -> bool:
    """Tell whether *document* has at most *limit* parts: then no thread is worth its costs to read through it."""
    left, count = [document], 0
    while left and count <= limit:
        part = left.pop()
        count += 1
        if isinstance(part, dict):
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
        elif isinstance(part, str) and len(part) > _LONG_TEXT:
            return False
    return count <= limit
