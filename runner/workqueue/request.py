"""The key that the queue carries: which object, never what happened to it."""

from __future__ import annotations

from dataclasses import dataclass

from runner.kube.objects import GVK


@dataclass(frozen=True, order=True)
class Request:
    """One object to reconcile; the object itself is read when its turn comes."""

    gvk: GVK
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `Kind namespace/name`, the way messages name an object."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.gvk.kind} {where}"
