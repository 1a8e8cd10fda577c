"""Which machines of a pool are still coming: launches that AWS refuses, and nodes that take no pods yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.autoscaling import AutoscalerView, evaluate
from ansible_collections.aws_operator.core.plugins.module_utils.packing import pack
from ansible_collections.aws_operator.core.plugins.module_utils.pool_facts import lodged
from ansible_collections.aws_operator.core.plugins.module_utils.pools import places_of, pool_of

from tests.unit.plugins.cluster_builders import (
    ago,
    leaving_node,
    make_facts,
    make_node,
    make_pod,
    make_pool,
    make_pool_object,
    running_pod,
)
from tests.unit.plugins.pool_world import make_instance_object, not_ready

QUOTA = "VcpuLimitExceeded"
CILIUM = {"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoSchedule"}
NETWORK = {"key": "node.kubernetes.io/network-unavailable", "effect": "NoExecute"}
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
DAEMON = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True}
SOFT = {"key": "cold", "effect": "PreferNoSchedule"}


def refused(name: str = "workers-1", *, reason: str = QUOTA, since: float = 60, request: str = "r") -> dict[str, Any]:
    """Return an EC2Instance that AWS refused to launch."""
    (condition,) = not_ready(reason, f"AWS answered {reason}: no (request id {request})")
    return make_instance_object(name, conditions=[{**condition, "lastTransitionTime": ago(since)}])


def launched(name: str) -> dict[str, Any]:
    """Return an EC2Instance whose machine runs and is no node yet."""
    return make_instance_object(name, instanceId=f"i-{name}", state="running")


@pytest.mark.parametrize(
    ("instances", "coming"),
    [
        ([], 2),
        ([refused("workers-1"), launched("workers-2")], 1),
        ([refused("workers-1"), refused("workers-2")], 0),
        ([refused("workers-1", reason="UnauthorizedOperation")], 1),
        ([refused("workers-1", reason="InvalidAMIIDNotFound")], 1),
        ([refused("workers-1", reason="InsufficientInstanceCapacity")], 2),
        ([refused("workers-1", reason="RequestLimitExceeded")], 2),
        ([refused("workers-1", reason="RequestLimitExceeded", since=901)], 1),
        ([refused("workers-1", reason="ReadTimeoutError")], 2),
        ([refused("workers-1", reason="IdempotentParameterMismatch")], 2),
        ([{**refused("workers-1"), "metadata": {**refused()["metadata"], "ownerReferences": []}}], 2),
    ],
)
def test_launches_that_are_refused_for_good_are_not_coming(instances: list[dict[str, Any]], coming: int) -> None:
    """A quota, a right or an image that is missing brings no machine; what passes by itself counts for a while."""
    assert pool_of(make_pool_object(targetNodes=2), make_facts(instances=instances)).coming == coming


def test_pool_whose_launches_are_refused_does_not_grow() -> None:
    """Pods aren't promised a refused machine, nor one more that would be refused alike; another pool takes them."""
    pool = pool_of(make_pool_object(targetNodes=1, memoryGiB=96), make_facts(instances=[refused()]))
    alone = pack([make_pod()], pools=[pool])
    assert alone.targets == {"workers": 1}
    assert (alone.verdicts[0].outcome, alone.verdicts[0].reason) == (
        "Waits",
        f"AWS refuses the launches of pool workers: workers-1: AWS answered {QUOTA}: no",
    )
    assert pack([make_pod()], pools=[pool, make_pool("other", cost=99)]).targets == {"workers": 1, "other": 1}


def test_refused_launches_are_a_condition() -> None:
    """Ready says which pool gets no machines, and AWS's words; an Event tells it once."""
    obj = {"metadata": {"name": "main"}, "spec": {"namespaces": ["prod"], "nodePools": ["workers"]}}
    facts = make_facts(instances=[refused("workers-1"), refused("workers-2")])
    found = evaluate(AutoscalerView(obj=obj, pools=[make_pool_object(targetNodes=2)], pods=[], facts=facts))
    ready = found.conditions[0]
    assert (ready["status"], ready["reason"]) == ("False", "LaunchRefused")
    assert ready["message"] == f"pool workers: workers-1 (and 1 more): AWS answered {QUOTA}: no"
    assert [item["reason"] for item in found.events] == ["LaunchRefused"]


@pytest.mark.parametrize(
    ("node", "coming", "is_open"),
    [
        (make_node(taints=[CILIUM], since=60), 1, False),
        (make_node(taints=[NETWORK], since=60), 1, False),
        (make_node(taints=[CILIUM], since=901), 0, True),
        (make_node(taints=[BATCH], since=60), 0, True),
        (make_node(taints=[BATCH, CILIUM], since=60), 1, False),
        (make_node(taints=[SOFT], since=60), 0, True),
        (make_node(taints=[CILIUM], since=60, unschedulable=True), 0, False),
        (make_node(since=60), 0, True),
        (leaving_node("n1"), 1, False),
    ],
)
def test_nodes_with_a_start_up_taint_are_coming(node: Mapping[str, Any], coming: int, *, is_open: bool) -> None:
    """A young Ready node with a taint that its pool doesn't ask for is coming, not room as well; an old one isn't."""
    obj, facts = make_pool_object(targetNodes=1, taints=[BATCH]), make_facts(node)
    assert pool_of(obj, facts).coming == coming
    (place,) = places_of(facts, [], pools=[obj])
    assert place.is_open is is_open


def test_start_up_taint_raises_no_pool() -> None:
    """A pod that waits for the one node to lose its start-up taint brings no second node."""
    obj, facts = make_pool_object(targetNodes=1, memoryGiB=96), make_facts(make_node(taints=[CILIUM], since=60))
    packing = pack([make_pod()], pools=[pool_of(obj, facts)], places=places_of(facts, [], pools=[obj]))
    assert (packing.targets, packing.verdicts[0].outcome) == ({"workers": 1}, "Coming")


def test_start_up_taint_that_every_settled_node_has_is_none() -> None:
    """A young node with a taint that its pool's older nodes kept takes the pods that tolerate it now."""
    obj = make_pool_object(targetNodes=2)
    of_type = {"node.kubernetes.io/instance-type": "m5.large"}
    old, young = (
        make_node(name, taints=[GPU], since=since, labels=of_type) for name, since in (("n1", 901), ("n2", 60))
    )
    facts = make_facts(old, young)
    assert pool_of(obj, facts).coming == 0
    assert [place.is_open for place in places_of(facts, [], pools=[obj])] == [True, True]


@pytest.mark.parametrize(
    ("taints", "toleration", "target"),
    [
        ([GPU], {"key": "nvidia.com/gpu", "operator": "Exists"}, 2),
        ([GPU, CILIUM], {"key": "nvidia.com/gpu", "operator": "Exists"}, 1),
        ([CILIUM], {"operator": "Exists"}, 1),
        ([NETWORK], {"key": NETWORK["key"], "operator": "Exists"}, 1),
    ],
)
def test_node_that_its_pods_fill_is_not_an_empty_one_that_comes(
    taints: list[dict[str, str]], toleration: dict[str, str], target: int
) -> None:
    """A pool's first node, full of pods that tolerate its taint by name, brings a second one without waiting."""
    spec = {"tolerations": [toleration]}
    pods = [running_pod("a", node="n1", memory="15Gi", spec=spec), make_pod("b", memory="15Gi", spec=spec)]
    node = make_node(taints=taints, since=60)
    obj = {"metadata": {"name": "main"}, "spec": {"namespaces": ["prod"], "nodePools": ["workers"]}}
    pool = make_pool_object(targetNodes=1, memoryGiB=16)
    found = evaluate(AutoscalerView(obj=obj, pools=[pool], pods=pods, facts=make_facts(node)))
    assert [item["to"] for item in found.targets] == ([target] if target > 1 else [])


def test_lodged_counts_only_pods_that_would_move() -> None:
    """A DaemonSet's pod, one that ends and one on no node say nothing; Kubernetes' own taints are never a name."""
    given = [{"key": "a"}, {"key": "node.kubernetes.io/not-ready"}, {"operator": "Exists"}]
    moving = running_pod("m", node="n1", spec={"tolerations": given})
    daemon = running_pod("d", node="n2", spec={"tolerations": given}, ownerReferences=[DAEMON])
    going = running_pod("g", node="n3", spec={"tolerations": given}, deletionTimestamp=ago(1))
    assert lodged([moving, daemon, going, make_pod(spec={"tolerations": given})]) == {"n1": frozenset({"a"})}


def test_new_request_id_changes_no_status() -> None:
    """AWS's number of an answer, new at each try, is left out of what a pool says, of refusals and of missing room."""
    first, second = (
        pool_of(make_pool_object(targetNodes=1), make_facts(instances=[refused(request=request)]))
        for request in ("r1", "r2")
    )
    assert first == second
    sealed = refused(reason="UnauthorizedOperation")
    (told,) = sealed["status"]["conditions"]
    told["message"] = "You are not authorized. Encoded authorization failure message: x7-Hq_2 (request id r1)"
    pool = pool_of(make_pool_object(targetNodes=1), make_facts(instances=[sealed]))
    assert pack([make_pod()], pools=[pool]).verdicts[0].reason == (
        "AWS refuses the launches of pool workers: workers-1: You are not authorized"
    )
    condition = {"type": "CapacityUnavailable", "status": "True", "message": "no m5.large (request id r1)"}
    assert pool_of(make_pool_object(status={"conditions": [condition]}), make_facts()).starved == "no m5.large"
