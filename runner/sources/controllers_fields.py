"""Which fields of a dependent controllers keep or fill in: to call that drift would send a person on a wrong track.

Pure. Such a change starts a run like any other, it just isn't told as the deed of somebody.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.kube.objects import GVK
from runner.sources.field_diff import ABSENT, Difference, Path

_FOR_USERS = "app.kubernetes.io"
"""The one domain of Kubernetes' own whose labels people write."""
_FILLED_IN: Mapping[tuple[str, str], frozenset[Path]] = {
    ("", "Pod"): frozenset({("spec", "nodeName")}),
    ("", "PersistentVolumeClaim"): frozenset({("spec", "volumeName"), ("spec", "storageClassName")}),
    ("", "PersistentVolume"): frozenset({("spec", "claimRef")}),
    ("", "ServiceAccount"): frozenset({("secrets",), ("imagePullSecrets",)}),
}
"""By group and kind: what is empty when the object is made, and filled in later."""


def is_controllers(difference: Difference, *, gvk: GVK) -> bool:
    """Tell whether *difference* is the work of a controller in a dependent of the kind *gvk*."""
    path = difference.path
    if path[:2] in {("metadata", "labels"), ("metadata", "annotations")}:
        return len(path) > 2 and _is_kubernetes(path[2])
    if path[:2] == ("metadata", "finalizers"):
        return True
    return difference.desired is ABSENT and path in _FILLED_IN.get((gvk.group, gvk.kind), frozenset())


def _is_kubernetes(key: str) -> bool:
    """Tell whether *key* is Kubernetes' own, as in `deployment.kubernetes.io/revision`."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and domain != _FOR_USERS and f".{domain}".endswith((".kubernetes.io", ".k8s.io"))
