"""Which pods their disruption budgets let go, and the nodes that stay for those that they don't."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.budgets import Budgets, budget_of
from ansible_collections.aws_operator.core.plugins.module_utils.pods import Guest, guest_of

from tests.unit.plugins.cluster_builders import UNSCHEDULABLE, ago, running_pod

WEB = {"matchLabels": {"app": "web"}}
READY = {"type": "Ready", "status": "True"}
DAEMON = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True}


def budget(name: str = "web", *, allowed: int = 0, namespace: str = "prod", **parts: Any) -> dict[str, Any]:
    """Return a budget of the pods `app=web`, as its controller saw it; *parts* are of its spec or status."""
    selector = parts.pop("selector", WEB)
    policy = {"unhealthyPodEvictionPolicy": parts.pop("policy")} if "policy" in parts else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "generation": 2},
        "spec": {"selector": selector, **policy},
        "status": {
            "observedGeneration": 2,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 2,
            **parts,
        },
    }


def guest(name: str = "a", *, ready: bool = True, phase: str = "Running", **parts: Any) -> Guest:
    """Return a pod on a node."""
    pod = running_pod(name, node="n1", **parts)
    pod["status"] = {"phase": phase, "conditions": [READY] if ready else []}
    found: Guest = guest_of(pod)
    return found


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ([], ""),
        ([budget()], "prod/a can't be evicted: its PodDisruptionBudget web allows no disruption"),
        ([budget(allowed=1)], ""),
        ([budget(allowed=9, observedGeneration=1)], "prod/a can't be evicted: its PodDisruptionBudget web allows no"),
        ([{**budget(), "status": {}}], "prod/a can't be evicted: its PodDisruptionBudget web allows no disruption"),
        ([budget(namespace="dev")], ""),
        ([budget(selector={"matchLabels": {"app": "db"}})], ""),
        ([budget(selector=None)], ""),
        ([budget(selector={})], "prod/a can't be evicted: its PodDisruptionBudget web allows no disruption"),
        (
            [budget(allowed=5), budget("more", allowed=5)],
            "prod/a can't be evicted while several PodDisruptionBudgets select it (more, web)",
        ),
    ],
)
def test_what_holds_a_healthy_pod(budgets: list[dict[str, Any]], reason: str) -> None:
    """A budget that allows nothing, that its controller hasn't seen yet, or a second one holds the pods it selects."""
    held = Budgets([budget_of(item) for item in budgets]).why_held([guest()])
    assert held.startswith(reason)
    assert bool(held) is bool(reason)


@pytest.mark.parametrize(
    ("pod", "parts", "held"),
    [
        (guest(ready=False), {}, True),
        (guest(ready=False), {"policy": "IfHealthyBudget"}, True),
        (guest(ready=False), {"policy": "AlwaysAllow"}, False),
        (guest(ready=True), {"policy": "AlwaysAllow"}, True),
        (guest(ready=False), {"currentHealthy": 2}, False),
        (guest(ready=False), {"currentHealthy": 0, "desiredHealthy": 0}, True),
        (guest(ready=False, phase="Pending"), {}, False),
        (guest(ownerReferences=[DAEMON]), {}, False),
        (guest(deletionTimestamp=ago(1)), {}, False),
    ],
)
def test_pods_that_need_no_permission(pod: Guest, parts: dict[str, Any], *, held: bool) -> None:
    """A pod that isn't Ready goes where the budget is met or says so; one that doesn't run or isn't evicted, always."""
    assert bool(Budgets([budget_of(budget(**parts))]).why_held([pod])) is held


def test_what_was_taken_is_gone() -> None:
    """The pods of a node that goes use the budget up, so that the next node stays; within one node one is enough."""
    budgets = Budgets([budget_of(budget(allowed=2))])
    assert budgets.why_held([guest("a"), guest("b"), guest("c")]) == ""
    budgets.take([guest("a"), guest("sick", ready=False), guest("d", ownerReferences=[DAEMON])])
    assert "allows no disruption" in budgets.why_held([guest("b")])
    budgets = Budgets([budget_of(budget(allowed=2, policy="AlwaysAllow"))])
    budgets.take([guest("a"), guest("sick", ready=False), guest("d", ownerReferences=[DAEMON])])
    assert budgets.why_held([guest("b")]) == ""


def test_waiting_pod_asks_no_budget() -> None:
    """A pod that was put on the node in thought only isn't evicted."""
    waiting = guest_of({**running_pod("w", node=""), "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}})
    assert Budgets([budget_of(budget())]).why_held([waiting]) == ""
