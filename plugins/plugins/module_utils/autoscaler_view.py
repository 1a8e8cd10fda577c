"""What an evaluation of an Autoscaler stands on: the object, what was read, and which pools are its own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.budgets import Budget
from ansible_collections.aws_operator.core.plugins.module_utils.catalogue import Catalogue
from ansible_collections.aws_operator.core.plugins.module_utils.pod_volumes import Volumes
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Pod
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import Facts
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import matches_labels

Decision = Mapping[str, Any]
"""As the status has it: `time`, `pool`, `from`, `to`, `why`, `dryRun`."""


@dataclass(frozen=True, kw_only=True)
class AutoscalerView:
    """What is known at the start of an evaluation."""

    obj: Mapping[str, Any]
    pools: Sequence[Mapping[str, Any]]
    """The NodePools of the Autoscaler's namespace."""
    pods: Sequence[Pod]
    """All pods: those that wait and those that take room."""
    facts: Facts
    volumes: Volumes = field(default_factory=Volumes)
    budgets: Sequence[Budget] = ()
    catalogue: Catalogue = field(default_factory=Catalogue)
    rivals: Sequence[Mapping[str, Any]] = ()
    """The Autoscalers of the namespace; the object itself may be among them."""
    made: Sequence[Decision] = ()
    """What this run has written already, before it had to read again."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By pool: why the API server didn't take this evaluation's decision."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return the object's spec."""
        return self.obj.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the object's status as of the start of the evaluation."""
        return self.obj.get("status") or {}

    @property
    def is_dry(self) -> bool:
        """Return whether decisions are only told."""
        return bool(self.spec.get("dryRun"))

    def claimed(self) -> list[Mapping[str, Any]]:
        """Return the pools that the Autoscaler decides about: none that is being deleted, or an older one's."""
        taken = self.taken()
        return [
            pool
            for pool in self.pools
            if claims(self.spec, pool)
            and pool["metadata"]["name"] not in taken
            and not pool["metadata"].get("deletionTimestamp")
        ]

    def taken(self) -> dict[str, str]:
        """Return the pools of the spec that an older Autoscaler decides about, with its name.

        One with `dryRun` takes nothing, and nothing is taken from it: it writes to no pool.
        """
        if self.is_dry:
            return {}
        older = sorted(filter(self._goes_before, self.rivals), key=_age)
        return {
            str(pool["metadata"]["name"]): str(rival["metadata"]["name"])
            for pool in self.pools
            for rival in reversed(older)  # of several the oldest is told
            if claims(self.spec, pool) and claims(rival.get("spec") or {}, pool)
        }

    def pending(self) -> list[Pod]:
        """Return the pending pods of the named namespaces."""
        namespaces = set(self.spec.get("namespaces") or [])
        return [
            pod
            for pod in self.pods
            if pod["metadata"].get("namespace") in namespaces and (pod.get("status") or {}).get("phase") == "Pending"
        ]

    def _goes_before(self, rival: Mapping[str, Any]) -> bool:
        if (rival.get("spec") or {}).get("dryRun") or rival["metadata"].get("deletionTimestamp"):
            return False
        return _age(rival) < _age(self.obj)


def claims(spec: Mapping[str, Any], pool: Mapping[str, Any]) -> bool:
    """Return whether an Autoscaler's *spec* names or selects the pool."""
    named = pool["metadata"]["name"] in (spec.get("nodePools") or [])
    return named or matches_labels(spec.get("nodePoolSelector"), pool["metadata"].get("labels") or {})


def _age(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Return what Autoscalers of one namespace are ordered by, the oldest first."""
    return (str(obj["metadata"].get("creationTimestamp") or ""), str(obj["metadata"]["name"]))
