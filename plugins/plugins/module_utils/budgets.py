"""Which pods their PodDisruptionBudgets let be evicted now, as the API server answers an eviction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest
from ansible_collections.aws_operator.core.plugins.module_utils.selectors import matches_labels


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One PodDisruptionBudget."""

    namespace: str
    name: str
    selector: Mapping[str, Any] | None
    allowed: int
    """How many more healthy pods may go; none while its controller hasn't seen its spec."""
    is_met: bool
    """Whether as many pods are healthy as have to be."""
    protects_unhealthy: bool
    """Whether a pod that isn't Ready is held too where the budget isn't met (`IfHealthyBudget`)."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def selects(self, guest: Guest) -> bool:
        """Return whether it's about the pod; an empty selector takes all pods of the namespace, none takes none."""
        return bool(guest.namespace == self.namespace and matches_labels(self.selector, guest.labels))

    def counts(self, guest: Guest) -> bool:
        """Return whether the pod's eviction is one of those allowed: a pod that isn't Ready may go without."""
        return guest.is_healthy or (self.protects_unhealthy and not self.is_met)


def budget_of(obj: Mapping[str, Any]) -> Budget:
    """Read a PodDisruptionBudget."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    is_current = int(status.get("observedGeneration") or 0) >= int(meta.get("generation") or 0)
    healthy, desired = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    return Budget(
        namespace=meta.get("namespace") or "default",
        name=meta["name"],
        selector=spec.get("selector"),
        allowed=int(status.get("disruptionsAllowed") or 0) if is_current else 0,
        is_met=is_current and healthy >= desired > 0,
        protects_unhealthy=spec.get("unhealthyPodEvictionPolicy", "IfHealthyBudget") != "AlwaysAllow",
    )


class Budgets:
    """What the budgets allow, less what was taken of it in thought."""

    def __init__(self, budgets: Sequence[Budget] = ()) -> None:
        """Begin with what their statuses say."""
        self._budgets = list(budgets)
        self._left = {budget.key: budget.allowed for budget in budgets}

    def why_held(self, guests: Iterable[Guest]) -> str:
        """Return why a drain of these pods would get stuck, empty where it wouldn't.

        One that is allowed is enough: a drain asks again for the next one when the first one's successor is Ready.
        """
        for guest in filter(_is_evicted, guests):
            mine = [budget for budget in self._budgets if budget.selects(guest)]
            if len(mine) > 1:
                names = ", ".join(sorted(budget.name for budget in mine))
                return f"{guest.key} can't be evicted while several PodDisruptionBudgets select it ({names})"
            for budget in mine:
                if budget.counts(guest) and self._left[budget.key] < 1:
                    return f"{guest.key} can't be evicted: its PodDisruptionBudget {budget.name} allows no disruption"
        return ""

    def take(self, guests: Iterable[Guest]) -> None:
        """Count the pods of a node that goes."""
        for guest in filter(_is_evicted, guests):
            for budget in self._budgets:
                if budget.selects(guest) and budget.counts(guest):
                    self._left[budget.key] -= 1


def _is_evicted(guest: Guest) -> bool:
    """Return whether a budget is asked at all: a pod that hasn't started yet goes without."""
    return guest.moves and not guest.is_pending
