"""One evaluation of an Autoscaler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaling import (
    AutoscalerView,
    Evaluation,
    evaluate,
)

from tests.unit.plugins.cluster_builders import ago, make_facts, make_node, make_pod, make_pool_object, running_pod


def make_autoscaler(*, status: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return an Autoscaler of the pool `workers` for pods of `prod`."""
    return {
        "metadata": {"name": "main", "namespace": "team", "uid": "u", "generation": 4},
        "spec": {"namespaces": ["prod"], "nodePools": ["workers"], **spec},
        "status": dict(status or {}),
    }


def evaluated(
    pods: Sequence[Mapping[str, Any]] = (),
    *,
    autoscaler: Mapping[str, Any] | None = None,
    pools: Sequence[Mapping[str, Any]] | None = None,
    nodes: Sequence[Mapping[str, Any]] = (),
) -> Evaluation:
    """Return the evaluation of a pool of 96 GiB nodes."""
    objects = [make_pool_object(memoryGiB=96)] if pools is None else pools
    view = AutoscalerView(obj=autoscaler or make_autoscaler(), pools=objects, pods=pods, facts=make_facts(*nodes))
    found: Evaluation = evaluate(view)
    return found


def test_two_pods_raise_the_pool_and_the_status_says_why() -> None:
    """Two pods of 28 GiB raise the target from 0 to 1, and decision, times and counts are in the status."""
    found = evaluated([make_pod(f"p{index}", memory="28Gi") for index in range(2)])
    decision = {"time": ago(0), "pool": "workers", "from": 0, "to": 1, "why": "room for 2 pods: prod/p0, prod/p1"}
    assert list(found.targets) == [decision]
    assert found.status["decisions"] == [decision]
    assert found.status["lastDecision"] == "workers 0 -> 1"
    assert (found.status["pendingPods"], found.status["unschedulablePods"]) == (2, 2)
    assert (found.status["lastEvaluationTime"], found.status["lastScaleUpTime"]) == (ago(0), ago(0))
    assert "lastScaleDownTime" not in found.status
    assert found.events == [
        {
            "type": "Normal",
            "reason": "ScaledUp",
            "message": "scaled pool workers from 0 to 1: room for 2 pods: prod/p0, prod/p1",
        }
    ]
    assert found.conditions[0]["message"] == "it decides about workers"


def test_pods_left_out_are_told() -> None:
    """The status names the pods that nothing was done for, with the reason."""
    found = evaluated([make_pod("picky", spec={"nodeSelector": {"disk": "ssd"}})])
    assert list(found.targets) == []
    assert found.status["leftOutPods"] == [
        {"pod": "prod/picky", "reason": "no pool satisfies its node selector disk=ssd"}
    ]
    assert (found.status["pendingPods"], found.status["unschedulablePods"]) == (1, 0)


def test_pods_left_out_are_in_the_condition() -> None:
    """Who looks at conditions only sees the first pod that nothing was done for, why, and how many more."""
    picky = [make_pod(f"picky{index}", spec={"nodeSelector": {"disk": "ssd"}}) for index in range(3)]
    one = "it decides about workers; it does nothing for prod/picky0 (no pool satisfies its node selector disk=ssd)"
    assert evaluated(picky[:1]).conditions[0]["message"] == one
    assert evaluated(picky).conditions[0]["message"] == f"{one}, and for 2 more (status.leftOutPods)"


def test_pods_of_other_namespaces_raise_nothing() -> None:
    """Only pending pods of the named namespaces count."""
    found = evaluated([make_pod(namespace="dev")])
    assert (list(found.targets), found.status["pendingPods"]) == ([], 0)


def test_dry_run_writes_only_the_status() -> None:
    """With dryRun the decision is told and marked, nothing is to be written, and no cooldown starts."""
    found = evaluated([make_pod()], autoscaler=make_autoscaler(dryRun=True))
    assert list(found.targets) == []
    assert found.status["decisions"][0]["dryRun"] is True
    assert "lastScaleUpTime" not in found.status
    assert found.conditions[0]["message"].startswith("it decides about workers; with dryRun off it would scale workers")


def test_same_dry_decision_is_told_once() -> None:
    """What dryRun would do is no news at the next evaluation: no further decision, Event or change."""
    first = evaluated([make_pod()], autoscaler=make_autoscaler(dryRun=True))
    kept = {**first.status, "conditions": list(first.conditions)}
    again = evaluated([make_pod()], autoscaler=make_autoscaler(dryRun=True, status=kept))
    assert ("decisions" in again.status, again.events, again.changed) == (False, [], False)
    more = [make_pod(f"p{index}", memory="60Gi") for index in range(2)]
    assert evaluated(more, autoscaler=make_autoscaler(dryRun=True, status=kept)).status["decisions"][-1]["to"] == 2


def test_last_ten_decisions_are_kept() -> None:
    """Old decisions go as new ones come, and an evaluation without any leaves them alone."""
    old = [{"pool": "workers", "time": ago(index)} for index in range(10)]
    found = evaluated([make_pod()], autoscaler=make_autoscaler(status={"decisions": old}))
    assert len(found.status["decisions"]) == 10
    assert found.status["decisions"][-1]["to"] == 1
    assert "decisions" not in evaluated(autoscaler=make_autoscaler(status={"decisions": old})).status


def test_cooldown_after_a_scale_up() -> None:
    """Within the cooldown no node is added, and the pods are told how long they wait."""
    autoscaler = make_autoscaler(scaleUp={"cooldown": "5m"}, status={"lastScaleUpTime": ago(60)})
    found = evaluated([make_pod()], autoscaler=autoscaler)
    assert list(found.targets) == []
    assert found.status["leftOutPods"][0]["reason"] == f"cooling down after the last scale-up until {ago(-240)}"


def test_step_limit() -> None:
    """No more nodes than maxNodesPerStep are added at once."""
    autoscaler = make_autoscaler(scaleUp={"maxNodesPerStep": 2})
    found = evaluated([make_pod(f"p{index}", memory="60Gi") for index in range(5)], autoscaler=autoscaler)
    assert found.targets[0]["to"] == 2


def idle(**down: Any) -> dict[str, Any]:
    """Return an Autoscaler that has known for an hour that n1 isn't needed."""
    status = {"unneededNodes": [{"node": "n1", "since": ago(3600)}], **down.pop("status", {})}
    return make_autoscaler(scaleDown=down, status=status)


@pytest.mark.parametrize(
    ("autoscaler", "target"),
    [
        (idle(), 0),
        (idle(unneededFor="2h"), 1),
        (idle(enabled=False), 1),
        (idle(cooldown="10m", status={"lastScaleUpTime": ago(60)}), 1),
        (idle(cooldown="10m", status={"lastScaleDownTime": ago(60)}), 1),
        (idle(cooldown="10m", status={"lastScaleDownTime": ago(600)}), 0),
    ],
)
def test_scale_down_settings(autoscaler: dict[str, Any], target: int) -> None:
    """An idle node goes after unneededFor, unless shrinking is off or cooling down after any change."""
    found = evaluated(autoscaler=autoscaler, pools=[make_pool_object(targetNodes=1)], nodes=[make_node("n1")])
    assert [item["to"] for item in found.targets] == ([] if target == 1 else [0])
    assert ("lastScaleDownTime" in found.status) is (target == 0)


def test_threshold_is_a_percentage() -> None:
    """A node that is 30 % full is needed with a threshold of 25 and not with 50."""
    nodes = [make_node("n1"), make_node("n2", pool_uid="another")]
    pods = [running_pod("a", node="n1", memory="4.8Gi")]
    pools = [make_pool_object(targetNodes=1)]
    low = evaluated(pods, autoscaler=idle(utilizationThreshold=25), pools=pools, nodes=nodes)
    assert list(low.targets) == []
    high = evaluated(pods, autoscaler=idle(utilizationThreshold=50), pools=pools, nodes=nodes)
    assert [item["to"] for item in high.targets] == [0]


def test_clock_of_unneeded_nodes_is_kept_in_the_status() -> None:
    """Since when a node isn't needed is written, so that a restart keeps it (A1)."""
    found = evaluated(autoscaler=make_autoscaler(), pools=[make_pool_object(targetNodes=1)], nodes=[make_node("n1")])
    assert found.status["unneededNodes"] == [{"node": "n1", "since": ago(0)}]


def test_missing_pool_is_a_condition() -> None:
    """A name that no NodePool has is told, and the other pools are served all the same."""
    found = evaluated([make_pod()], autoscaler=make_autoscaler(nodePools=["workers", "gpu"]))
    assert [item["pool"] for item in found.targets] == ["workers"]
    assert found.conditions[0]["reason"] == "NodePoolNotFound"
    assert found.conditions[0]["message"] == "there is no NodePool gpu in this namespace"


def test_pools_by_selector() -> None:
    """Pools are named or selected by their labels, and none at all is a condition."""
    pool = make_pool_object(memoryGiB=96)
    pool["metadata"]["labels"] = {"tier": "general"}
    chosen = make_autoscaler(nodePools=[], nodePoolSelector={"matchLabels": {"tier": "general"}})
    assert [item["to"] for item in evaluated([make_pod()], autoscaler=chosen, pools=[pool]).targets] == [1]
    other = make_autoscaler(nodePools=[], nodePoolSelector={"matchLabels": {"tier": "gpu"}})
    assert evaluated([make_pod()], autoscaler=other, pools=[pool]).conditions[0]["reason"] == "NoNodePools"


def test_pool_that_is_deleted_is_not_written() -> None:
    """A pool on its way out isn't grown."""
    pool = make_pool_object()
    pool["metadata"]["deletionTimestamp"] = ago(1)
    assert list(evaluated([make_pod()], pools=[pool]).targets) == []


def test_one_decision_per_pool() -> None:
    """A pool over its maximum whose nodes aren't needed either is written once."""
    nodes = [make_node(f"n{index}") for index in (1, 2)]
    pools = [make_pool_object(targetNodes=3, maxNodes=2)]
    found = evaluated(autoscaler=idle(), pools=pools, nodes=nodes)
    assert [(item["from"], item["to"], item["why"]) for item in found.targets] == [
        (3, 1, "maxNodes is 2; not needed: n1")
    ]


def test_condition_keeps_its_time() -> None:
    """The condition's time moves only with its status."""
    first = evaluated()
    again = evaluated(
        autoscaler=make_autoscaler(status={"conditions": [{**first.conditions[0], "lastTransitionTime": ago(900)}]})
    )
    assert again.conditions[0]["lastTransitionTime"] == ago(900)


def view_of(
    *, pods: Sequence[Mapping[str, Any]] = (), pools: Sequence[Mapping[str, Any]], **parts: Any
) -> AutoscalerView:
    """Return what an evaluation stands on."""
    return AutoscalerView(
        obj=parts.pop("obj", None) or make_autoscaler(), pools=pools, pods=pods, facts=make_facts(), **parts
    )


def test_refused_write_is_no_decision() -> None:
    """What the API server didn't take starts no cooldown and isn't told as done, but in the condition."""
    pools = [make_pool_object(memoryGiB=96)]
    found = evaluate(view_of(pods=[make_pod()], pools=pools, refused={"workers": "somebody changed it"}))
    assert ("decisions" in found.status, "lastScaleUpTime" in found.status, list(found.made)) == (False, False, [])
    assert (found.conditions[0]["reason"], found.conditions[0]["message"]) == (
        "ScaleRefused",
        "pool workers: somebody changed it",
    )


def test_second_round_of_a_run_counts_what_the_first_one_wrote() -> None:
    """What was written before a pool had to be read again stays told, and counts for maxNodesPerStep."""
    made = [{"time": ago(0), "pool": "spot", "from": 0, "to": 2, "why": "room"}]
    pods = [make_pod(f"p{index}", memory="60Gi") for index in range(3)]
    pools = [make_pool_object(memoryGiB=96)]
    most = {most: evaluate(view_of(pods=pods, pools=pools, obj=limited(most), made=made)) for most in (2, 3)}
    assert [item["pool"] for item in most[2].status["decisions"]] == ["spot"]
    assert [(item["pool"], item["to"]) for item in most[3].status["decisions"]] == [("spot", 2), ("workers", 1)]
    assert most[2].status["lastScaleUpTime"] == ago(0)
    assert {item["reason"] for item in most[2].status["leftOutPods"]} == {
        "this evaluation already adds 2 nodes (maxNodesPerStep); the next one goes on"
    }


def limited(most: int) -> dict[str, Any]:
    """Return an Autoscaler that adds so many nodes at once."""
    return make_autoscaler(scaleUp={"maxNodesPerStep": most})


def named(name: str, *, created: float, **spec: Any) -> dict[str, Any]:
    """Return an Autoscaler of the pool `workers` that was created so many seconds ago."""
    found = make_autoscaler(**spec)
    return {**found, "metadata": {**found["metadata"], "name": name, "creationTimestamp": ago(created)}}


@pytest.mark.parametrize(
    ("rival", "target"),
    [
        (named("old", created=100), None),
        (named("a-twin", created=10), None),
        (named("z-twin", created=10), 1),
        (named("young", created=1), 1),
        (named("old", created=100, dryRun=True), 1),
        (named("old", created=100, nodePools=["others"]), 1),
        (named("old", created=100, nodePools=None, nodePoolSelector={}), None),
    ],
)
def test_of_two_autoscalers_the_older_one_has_the_pool(rival: dict[str, Any], target: int | None) -> None:
    """The younger one leaves the pool alone and says whose it is; one with dryRun takes nothing."""
    mine = named("main", created=10)
    pools = [make_pool_object(memoryGiB=96)]
    found = evaluate(view_of(pods=[make_pod()], pools=pools, obj=mine, rivals=[rival, mine]))
    assert [item["to"] for item in found.targets] == ([] if target is None else [target])
    assert (found.conditions[0]["reason"] == "NodePoolClaimed") is (target is None)
