"""Which nodes nobody needs, and in which order a pool gives nodes up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.budgets import budget_of
from ansible_collections.aws_operator.core.plugins.module_utils.packing import pack
from ansible_collections.aws_operator.core.plugins.module_utils.places import place_of
from ansible_collections.aws_operator.core.plugins.module_utils.pools import places_of, pool_of
from ansible_collections.aws_operator.core.plugins.module_utils.shrinking import Shrinking, Thrift, cooling, shrink
from ansible_collections.aws_operator.core.plugins.module_utils.victims import Candidate, candidate_of, in_order

from tests.unit.plugins.cluster_builders import (
    HOSTNAME,
    NOW,
    ago,
    leaving_node,
    make_facts,
    make_node,
    make_pod,
    make_pool_object,
    running_pod,
)
from tests.unit.plugins.pool_world import make_instance_object, not_ready

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LONG = dict.fromkeys([f"n{index}" for index in range(1, 9)], ago(3600))
OWNED_BY = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True}


def judged(
    nodes: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    *,
    target: int | None = None,
    minimum: int = 0,
    pending: Sequence[Mapping[str, Any]] = (),
    since: Mapping[str, str] | None = None,
    thrift: Thrift | None = None,
    budgets: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Mapping[str, Any]] = (),
    instances: Sequence[Mapping[str, Any]] = (),
) -> Shrinking:
    """Return the decision for a pool of *nodes*, none of which was needed for an hour unless *since* says so."""
    objects = [make_pool_object(targetNodes=len(nodes) if target is None else target, minNodes=minimum), *others]
    facts = make_facts(*nodes, instances=instances)
    pools = [pool_of(obj, facts) for obj in objects]
    packing = pack(pending, pools=pools, places=places_of(facts, pods, pools=objects))
    found: Shrinking = shrink(
        packing,
        pools=pools,
        now=NOW,
        since=LONG if since is None else since,
        thrift=thrift,
        budgets=[budget_of(item) for item in budgets],
    )
    return found


def nodes_of(number: int) -> list[dict[str, Any]]:
    """Return nodes `n1`, `n2` and so on, of 16 GiB each."""
    return [make_node(f"n{index}") for index in range(1, number + 1)]


def test_empty_node_goes() -> None:
    """A node without pods lowers the target by one, and the decision names it."""
    found = judged(nodes_of(2), [running_pod("a", node="n1", memory="12Gi")])
    (decision,) = found.decisions
    assert (decision.before, decision.after, decision.why) == (2, 1, "not needed: n2")


def test_removals_are_judged_together() -> None:
    """Of three nodes 45 % full whose pods fit on two, one goes, not two (A1)."""
    pods = [running_pod(f"p{index}", node=f"n{index}", memory="7.2Gi") for index in (1, 2, 3)]
    found = judged(nodes_of(3), pods)
    assert found.targets == {"workers": 2}
    assert list(found.unneeded) == ["n1"]
    assert found.needed == {"n2": "90% of it is asked for, and the threshold is 50%"}


def test_removals_that_fit_only_one_by_one() -> None:
    """Two nodes whose pods would each fit on the third, but not both, are told apart (A1)."""
    pods = [
        running_pod("a", node="n1", memory="6Gi"),
        running_pod("b", node="n2", memory="7Gi"),
        running_pod("c", node="n3", memory="8Gi"),
    ]
    found = judged(nodes_of(3), pods, thrift=Thrift(utilization_threshold=0.99))
    assert found.targets == {"workers": 2}
    assert "n2" in found.needed


@pytest.mark.parametrize(("share", "target"), [("7Gi", 1), ("8Gi", 2), ("9Gi", 2)])
def test_utilization_threshold(share: str, target: int) -> None:
    """A node at or over the threshold is needed though its pods would fit elsewhere."""
    pods = [running_pod(name, node=node, memory=share) for name, node in (("a", "n1"), ("b", "n2"))]
    assert judged(nodes_of(2), pods).targets == {"workers": target}


@pytest.mark.parametrize(
    ("since", "target"),
    [({}, 2), ({"n2": ago(599)}, 2), ({"n2": ago(600)}, 1), ({"n1": ago(9999)}, 2)],
)
def test_node_goes_only_after_a_while(since: dict[str, str], target: int) -> None:
    """A node has to be unneeded for the whole time, and the clock is what was handed in."""
    found = judged(nodes_of(2), [running_pod("a", node="n1", memory="12Gi")], since=since)
    assert found.targets == {"workers": target}
    assert found.unneeded == {"n2": since.get("n2") or ago(0)}


def test_node_that_is_needed_again_starts_anew() -> None:
    """Since when a node isn't needed is forgotten as soon as it is."""
    pods = [running_pod(f"p{index}", node=f"n{index}", memory="12Gi") for index in (1, 2)]
    assert judged(nodes_of(2), pods).unneeded == {}


def test_second_node_waits_for_its_own_time() -> None:
    """Nodes go in order, and only as far as their time has come."""
    found = judged(nodes_of(3), [], since={"n1": ago(700), "n2": ago(10)})
    assert found.targets == {"workers": 2}
    assert judged(nodes_of(3), [], since={"n1": ago(10), "n2": ago(700)}).targets == {"workers": 3}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ownerReferences": []}, "prod/odd has no controller that would make it again"),
        ({"annotations": {SAFE: "false"}}, f"prod/odd is marked {SAFE}: false"),
        ({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}, "prod/odd has local storage (v)"),
        ({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}, "prod/odd has local storage (v)"),
        ({"spec": {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}}, ""),
        ({"ownerReferences": [], "annotations": {SAFE: "true"}}, ""),
        ({"ownerReferences": [OWNED_BY], "annotations": {SAFE: "false"}}, ""),
        ({"ownerReferences": [], "annotations": {"kubernetes.io/config.mirror": "x"}}, ""),
        ({"ownerReferences": [], "deletionTimestamp": ago(1)}, ""),
    ],
)
def test_pods_that_keep_their_node(change: dict[str, Any], reason: str) -> None:
    """A pod that nobody would make again, with local data or marked unsafe keeps its node; others don't."""
    nodes = [make_node("n1"), make_node("n2", pool_uid="another")]
    found = judged(nodes, [running_pod("odd", node="n1", memory="1Mi", **change)], target=1)
    assert found.needed.get("n1", "") == reason
    assert found.targets == {"workers": 1 if reason else 0}


def test_daemon_and_mirror_pods_do_not_load_a_node() -> None:
    """Pods that stay with their node neither count for the threshold nor have to fit elsewhere."""
    daemon = running_pod("d", node="n1", memory="12Gi", ownerReferences=[OWNED_BY])
    assert judged([make_node("n1")], [daemon]).targets == {"workers": 0}


def test_pod_that_fits_nowhere_else_keeps_its_node() -> None:
    """A pod whose node selector only its node satisfies isn't driven away."""
    nodes = [make_node("n1", labels={"disk": "ssd"}), make_node("n2")]
    pods = [
        running_pod("a", node="n1", memory="1Gi", spec={"nodeSelector": {"disk": "ssd"}}),
        running_pod("b", node="n2", memory="2Gi"),
    ]
    found = judged(nodes, pods)
    assert found.needed == {"n1": "prod/a fits nowhere else"}
    assert found.targets == {"workers": 2}


def test_room_of_an_unready_node_is_none() -> None:
    """Pods aren't moved in thought to a node that isn't Ready."""
    nodes = [make_node("n1"), make_node("n2", ready=False, pool_uid="another")]
    found = judged(nodes, [running_pod("a", node="n1")], target=1)
    assert found.needed == {"n1": "prod/a fits nowhere else"}


def test_pods_that_repel_each_other_are_not_put_together() -> None:
    """Two pods with anti-affinity over the host name need their two nodes."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    pods = [running_pod(f"p{index}", node=f"n{index}", memory="1Gi", spec=spec) for index in (1, 2)]
    assert judged(nodes_of(2), pods).targets == {"workers": 2}


def test_room_for_pending_pods_is_not_given_up() -> None:
    """A node that the packing promised to a pending pod is needed."""
    assert judged([make_node("n1")], [], pending=[make_pod("new", memory="12Gi")]).targets == {"workers": 1}


def test_minimum_holds() -> None:
    """A pool doesn't shrink below minNodes."""
    assert judged(nodes_of(3), [], minimum=2).targets == {"workers": 2}


def test_nothing_shrinks_while_nodes_are_on_their_way() -> None:
    """A node that starts came for somebody, so its pool isn't lowered."""
    assert judged(nodes_of(2), [], target=3).targets == {"workers": 3}


def test_surplus_that_goes_already_is_not_lowered_twice() -> None:
    """While a pool has more nodes than its target, the target stays."""
    found = judged(nodes_of(3), [], target=2)
    assert (found.targets, list(found.decisions)) == ({"workers": 2}, [])


def test_pods_of_a_leaving_node_get_their_room_first() -> None:
    """Room that the pods of a draining node will take isn't given up (A1)."""
    pods = [running_pod("a", node="n3", memory="12Gi"), running_pod("b", node="n2", memory="12Gi")]
    assert judged([*nodes_of(2), leaving_node("n3")], pods, target=2).targets == {"workers": 2}
    assert judged([*nodes_of(2), leaving_node("n3")], pods[1:], target=2).targets == {"workers": 1}


def test_cordoned_node_is_not_taken_for_empty() -> None:
    """The pods of a node that a person cordoned count on it: NodePool would drain another one, and that is judged."""
    nodes = [make_node("n1", unschedulable=True), make_node("n2"), make_node("n3", labels={"disk": "ssd"})]
    pods = [
        running_pod("a", node="n1", memory="7Gi"),
        running_pod("b", node="n2", memory="4Gi"),
        running_pod("c", node="n3", memory="3Gi", spec={"nodeSelector": {"disk": "ssd"}}),
    ]
    found = judged(nodes, pods)
    assert found.needed == {"n3": "prod/c fits nowhere else"}
    assert (found.targets, list(found.unneeded)) == ({"workers": 3}, [])


def test_pods_of_a_cordoned_node_get_their_room_first() -> None:
    """Room that only the pods of a cordoned node would find isn't given up."""
    nodes = [make_node("n1", unschedulable=True), make_node("n2"), make_node("n3")]
    pods = [
        running_pod("a", node="n1", memory="10Gi"),
        running_pod("b", node="n2", memory="8Gi"),
        running_pod("c", node="n3", memory="4Gi"),
    ]
    found = judged(nodes, pods, thrift=Thrift(utilization_threshold=0.99))
    assert (found.targets, list(found.needed)) == ({"workers": 3}, ["n3"])
    assert judged(nodes[1:], pods[1:], thrift=Thrift(utilization_threshold=0.99)).targets == {"workers": 1}


def test_cordoned_node_is_as_full_as_its_pods_make_it() -> None:
    """The threshold counts what is on a cordoned node, though it would find room elsewhere."""
    nodes = [make_node("n1", unschedulable=True), make_node("n2", pool_uid="another")]
    found = judged(nodes, [running_pod("a", node="n1", memory="9Gi")], target=1)
    assert found.needed == {"n1": "56% of it is asked for, and the threshold is 50%"}


def test_cordoned_node_keeps_what_keeps_it() -> None:
    """A pod that nobody would make again keeps a cordoned or unready node, though its room would be elsewhere too."""
    for node in (make_node("n1", unschedulable=True), make_node("n1", ready=False)):
        nodes = [node, make_node("n2", pool_uid="another")]
        found = judged(nodes, [running_pod("a", node="n1", ownerReferences=[])], target=1)
        assert found.needed == {"n1": "prod/a has no controller that would make it again"}


@pytest.mark.parametrize(
    ("pod", "target"),
    [
        ({}, 2),
        ({"deletionTimestamp": ago(1)}, 2),
        ({"ownerReferences": [OWNED_BY]}, 1),
    ],
)
def test_second_drain_waits_for_the_first_one(pod: dict[str, Any], target: int) -> None:
    """While a pod has yet to leave a node that goes, no other one is given up, in no pool."""
    pods = [running_pod("a", node="n3", memory="1Gi", **pod), running_pod("b", node="n2", memory="12Gi")]
    assert judged([*nodes_of(2), leaving_node("n3")], pods, target=2).targets == {"workers": target}


def another_pool(**spec: Any) -> dict[str, Any]:
    """Return a pool of the nodes whose pool UID is `another`."""
    found = make_pool_object(**spec)
    return {**found, "metadata": {**found["metadata"], "name": "another", "uid": "another"}}


def test_surplus_of_another_pool_goes_first() -> None:
    """Where a pool is about to drain a node of its own, no other pool is lowered."""
    nodes = [make_node("n1"), make_node("n2"), *(make_node(f"m{index}", pool_uid="another") for index in (1, 2))]
    pods = [running_pod("m", node="m1"), running_pod("b", node="n2", memory="12Gi")]
    waits = judged(nodes, pods, target=2, others=[another_pool(targetNodes=1)])
    assert waits.targets == {"workers": 2, "another": 1}
    assert judged(nodes, pods, target=2, others=[another_pool(targetNodes=2)]).targets["workers"] == 1


def test_one_node_with_pods_goes_at_a_time() -> None:
    """Empty nodes go together; of those whose pods have to move one does, as these change what NodePool takes next."""
    pods = [running_pod(f"p{index}", node=f"n{index}", memory="1Gi") for index in (1, 2)]
    found = judged(nodes_of(4), pods)
    assert (found.targets, list(found.unneeded)) == ({"workers": 1}, ["n3", "n4", "n1"])
    assert found.decisions[0].why == "not needed: n3, n4, n1"
    assert judged(nodes_of(3), [*pods, running_pod("p3", node="n3", memory="2Gi")]).targets == {"workers": 2}
    tiny = [running_pod("tiny", node="n1", memory=""), running_pod("b", node="n3", memory="9Gi")]
    assert judged(nodes_of(3), tiny).decisions[0].why == "not needed: n1"
    nodes = [make_node("n1"), make_node("m1", pool_uid="another"), make_node("n9", pool_uid="x")]
    pods = [running_pod("a", node="n1"), running_pod("b", node="m1")]
    long = {"n1": ago(3600), "m1": ago(3600)}
    two = judged(nodes, pods, target=1, others=[another_pool(targetNodes=1)], since=long)
    assert sorted(two.unneeded) == ["m1", "n1"]
    assert sorted(two.targets.values()) == [0, 1]


def test_pending_pods_do_not_change_the_order() -> None:
    """NodePool goes by the pods that are on the nodes, not by those that are about to come."""
    pods = [running_pod("a", node="n2", memory="1Gi")]
    found = judged(nodes_of(3), pods, pending=[make_pod("new", memory="9Gi")])
    assert found.needed == {"n1": "56% of it is asked for, and the threshold is 50%"}
    assert found.targets == {"workers": 3}


def test_budget_that_allows_nothing_keeps_a_node() -> None:
    """A node whose pod can't be evicted is no candidate; one eviction that is allowed is taken by one node."""
    pods = [running_pod(f"p{index}", node=f"n{index}", memory="1Gi", labels={"app": "db"}) for index in (1, 2)]
    status = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 2}
    for pod in pods:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    why = "can't be evicted: its PodDisruptionBudget db allows no disruption"
    for allowed, needed in ((0, {"n1": f"prod/p1 {why}"}), (1, {"n2": f"prod/p2 {why}"})):
        budget = {
            "metadata": {"name": "db", "namespace": "prod", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {**status, "disruptionsAllowed": allowed},
        }
        found = judged(nodes_of(3), [*pods, running_pod("c", node="n3", memory="4Gi")], budgets=[budget])
        assert (found.needed, found.targets) == (needed, {"workers": 3 - allowed})


def test_pool_with_refused_launches_does_not_shrink() -> None:
    """NodePool would take the machine that AWS refuses before the idle node, so that nothing is said of this one."""
    refused = make_instance_object(conditions=not_ready("VcpuLimitExceeded"))
    found = judged(nodes_of(2), [running_pod("a", node="n1")], target=3, instances=[refused])
    assert (found.targets, list(found.unneeded)) == ({"workers": 3}, ["n2"])


@pytest.mark.parametrize("thrift", [Thrift(enabled=False), Thrift(paused="cooling down")])
def test_shrinking_that_is_off_or_paused(thrift: Thrift) -> None:
    """Switched off or in a cooldown nothing is lowered."""
    assert judged(nodes_of(2), [], thrift=thrift).targets == {"workers": 2}


def test_pause_does_not_stop_the_clock() -> None:
    """During a cooldown it's still remembered since when nodes aren't needed."""
    assert judged([make_node("n1")], [], thrift=Thrift(paused="cooling down"), since={}).unneeded == {"n1": ago(0)}


def test_node_that_a_person_keeps() -> None:
    """The annotation of the cluster autoscaler on a node is honoured."""
    node = make_node("n1")
    node["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/scale-down-disabled"] = "true"
    found = judged([node], [])
    assert found.targets == {"workers": 1}
    assert "scale-down-disabled" in found.needed["n1"]


def test_growing_cluster_does_not_shrink() -> None:
    """In an evaluation that adds a node none is taken away."""
    found = judged([make_node("n1", memory="4Gi")], [], pending=[make_pod("new", memory="15Gi")])
    assert found.targets == {"workers": 2}
    assert list(found.unneeded) == ["n1"]


@pytest.mark.parametrize(
    ("last", "left"),
    [(None, ""), (ago(600), ""), (ago(570), f"cooling down after the last scale-up until {ago(-30)}")],
)
def test_cooldown(last: str | None, left: str) -> None:
    """A cooldown is told with what is left of it, and no change at all needs none."""
    assert cooling(what="scale-up", last=last, seconds=600, now=NOW) == left


def test_victims_are_the_newest_unready_then_the_least_loaded() -> None:
    """Unready ones go first, the newest ahead; then the least loaded; those with a reason to stay are last."""
    candidates = [
        Candidate(name="idle", load=0.1, created=ago(500)),
        Candidate(name="busy", load=0.9, created=ago(100)),
        Candidate(name="empty", load=0.0, created=ago(5)),
        Candidate(name="kept", load=0.0, created=ago(100), keeps="local storage"),
        Candidate(name="old-unready", is_ready=False, created=ago(900), load=0.0),
        Candidate(name="new-unready", is_ready=False, created=ago(10), load=0.5),
        Candidate(name="idle-too", load=0.1, created=ago(100)),
        Candidate(name="unknown", is_ready=False),
    ]
    expected = ["new-unready", "old-unready", "unknown", "empty", "idle-too", "idle", "busy", "kept"]
    assert [item.name for item in in_order(candidates)] == expected
    assert [item.name for item in in_order(reversed(candidates))] == expected


def test_load_is_the_greater_share_of_cores_and_memory() -> None:
    """What counts as load is the scarcer of cores and memory, of pods that would have to move."""
    pods = [
        running_pod("a", node="n1", memory="4Gi", cpu="6"),
        running_pod("d", node="n1", memory="8Gi", ownerReferences=[OWNED_BY]),
    ]
    found = candidate_of(place_of(make_node("n1"), pods=pods))
    assert (found.load, found.keeps) == (0.75, "")
    bare = candidate_of(place_of(make_node("n1"), pods=[running_pod("b", node="n1", ownerReferences=[])]))
    assert bare.keeps == "prod/b has no controller that would make it again"
