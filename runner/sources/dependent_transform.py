"""What is kept of a dependent: everything but managedFields and status, and no secret in clear.

Its informer keeps objects as `DependentTransform` leaves them, so that a change can be told field by field. Of the
status only the followed fields stay (`watchDependentStatus`), with their paths as keys: `followed_values` reads them.
The values of a Secret, followed ones and those of its annotations too, are replaced by keyed hashes, which differ when
the values do and tell nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping, Set
from typing import Any

from runner.kube.objects import GVK, Object, annotations_of, metadata
from runner.proxy.ownership import PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE
from runner.watches.fields import parse_field, value_at

SECRET = GVK("", "v1", "Secret")
_CLEAR = {PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE}
"""Of a Secret's annotations, in any of which a tool may repeat the whole object, as `kubectl apply` does."""
_STATUS_ANNOTATIONS = {
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
    }
}
"""By group and kind: what an old version of the kind has there because its status has no place for it."""
_KEY = secrets.token_bytes(32)
"""Made anew by each process: a hash from its memory cannot be compared with hashes of guessed values."""
_SECRET_PARTS = ("data", "stringData")


class DependentTransform:
    """Cuts objects of one kind down; `runner.sources.store.Transform`."""

    def __init__(self, gvk: GVK, *, fields: Iterable[str] = ()) -> None:
        """Keep the values of *fields* of objects of *gvk*."""
        self._hides = (gvk.group, gvk.kind) == (SECRET.group, SECRET.kind)
        self._status_annotations = _STATUS_ANNOTATIONS.get((gvk.group, gvk.kind), set())
        self._fields = {field: parse_field(field) for field in fields}

    def __call__(self, obj: Object) -> Object:
        """Return what is kept of *obj*, which stays as it is."""
        kept = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
        kept["metadata"] = {key: value for key, value in metadata(obj).items() if key != "managedFields"}
        if self._status_annotations:
            _drop_annotations(kept, keys=self._status_annotations)
        if self._hides:
            _hide(kept)
        if self._fields:
            kept["status"] = {field: self._followed(value_at(obj, path)) for field, path in self._fields.items()}
        return kept

    def _followed(self, value: Any) -> Any:
        return _hashed(value) if self._hides and value is not None else value


def followed_values(kept: Object) -> Mapping[str, Any]:
    """Return the values of the followed fields in an object that a transform left."""
    return kept.get("status") or {}


def _hide(secret: Object) -> None:
    for part in _SECRET_PARTS:
        values = secret.get(part)
        if isinstance(values, Mapping):
            secret[part] = {key: _hashed(value) for key, value in values.items()}
    if annotations := annotations_of(secret):
        hashed = {key: value if key in _CLEAR else _hashed(value) for key, value in annotations.items()}
        secret["metadata"] = {**metadata(secret), "annotations": hashed}


def _drop_annotations(obj: Object, *, keys: Set[str]) -> None:
    rest = {key: value for key, value in annotations_of(obj).items() if key not in keys}
    others = {key: value for key, value in metadata(obj).items() if key != "annotations"}
    obj["metadata"] = {**others, **({"annotations": rest} if rest else {})}


def _hashed(value: object) -> str:
    return hmac.new(_KEY, json.dumps(value).encode(), hashlib.sha256).hexdigest()
