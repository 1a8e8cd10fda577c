"""What a kind that is one thing in AWS knows of its object at the start of a run. Pure.

`plan`, `volume_plan` and `bucket_plan` add what AWS shows; `updates` compares with the status that is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import Owner


@dataclass(frozen=True, kw_only=True)
class Owned:
    """An object, and when it is looked at."""

    obj: Mapping[str, Any]
    now: datetime
    cluster_id: str = "default"
    grace: float = 60.0
    """Seconds for which AWS may hide what it has just created, or was known before."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return the object's spec."""
        return self.obj.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the object's status as of the start of the run."""
        return self.obj.get("status") or {}

    @property
    def generation(self) -> int:
        """Return the generation of the spec."""
        return int(self.obj["metadata"].get("generation") or 0)

    @property
    def owner(self) -> Owner:
        """Return whose the cloud resource is."""
        meta = self.obj["metadata"]
        return Owner(
            cluster_id=self.cluster_id, uid=meta["uid"], namespace=meta.get("namespace") or "", name=meta["name"]
        )

    @property
    def was_right(self) -> bool:
        """Return whether the last run left this very spec fulfilled, so that any difference came from outside."""
        conditions = self.status.get("conditions") or []
        ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
        return bool(ready and self.status.get("observedGeneration") == self.generation)
