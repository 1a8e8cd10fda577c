"""How many nodes the unschedulable pods need."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.packing import Limits, Packing, Verdict, pack
from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Pool, places_of, pool_of
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import amounts

from tests.unit.plugins.cluster_builders import (
    HOSTNAME,
    ago,
    leaving_node,
    make_facts,
    make_guest,
    make_node,
    make_place,
    make_pod,
    make_pool,
    make_pool_object,
    running_pod,
)

MISSING_VOLUME = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
MISSING_SECRET = {"volumes": [{"name": "key", "secret": {"secretName": "gone"}}]}


def pods(number: int, *, memory: str = "28Gi", **parts: Any) -> list[dict[str, Any]]:
    """Return pending pods `p0`, `p1` and so on."""
    return [make_pod(f"p{index}", memory=memory, **parts) for index in range(number)]


def verdict(packing: Packing, name: str) -> Verdict:
    """Return what was decided about one pod of `prod`."""
    return next(item for item in packing.verdicts if item.pod == f"prod/{name}")


@pytest.mark.parametrize(("number", "target"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2), (7, 3)])
def test_empty_pool_grows_to_what_the_pods_need(number: int, target: int) -> None:
    """Two pods of 28 GiB raise a pool of 96 GiB nodes from 0 to exactly 1, four to 2."""
    pool = pool_of(make_pool_object(memoryGiB=96), make_facts())
    assert pack(pods(number), pools=[pool]).targets == {"workers": target}


def test_pods_that_no_node_helps_raise_nothing_and_say_why() -> None:
    """A missing volume, a selector that nobody has and a bound pod that waits for a Secret raise nothing."""
    bound = make_pod("bound", spec={**MISSING_SECRET, "nodeName": "n1"}, status={"conditions": []})
    picky = make_pod("picky", spec={"nodeSelector": {"disk": "ssd"}})
    packing = pack([make_pod("volume", spec=MISSING_VOLUME), picky, bound], pools=[make_pool()])
    assert (packing.targets, list(packing.decisions), packing.unschedulable) == ({"workers": 0}, [], 0)
    assert {item.pod: item.reason for item in packing.verdicts} == {
        "prod/bound": "it's bound to the node n1 already and waits for something else than room",
        "prod/picky": "no pool satisfies its node selector disk=ssd",
        "prod/volume": "its volume claim data doesn't exist",
    }


def test_scheduler_s_message_is_never_read() -> None:
    """With zero nodes the scheduler speaks of no resource, and the pool grows all the same."""
    message = "no nodes available to schedule pods"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    assert pack([make_pod(status={"conditions": [condition]})], pools=[make_pool()]).targets == {"workers": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"deletionTimestamp": ago(1)}, "it's being deleted"),
        ({"spec": {"schedulingGates": [{"name": "quota"}]}}, "it's held back by its scheduling gates (quota)"),
        ({"status": {"conditions": []}}, "the scheduler hasn't found it unschedulable"),
        ({"status": {"phase": "Succeeded"}}, "it isn't pending, but Succeeded"),
        ({"status": {"nominatedNodeName": "n1"}}, "the scheduler makes room for it on the node n1"),
        ({"memory": "much"}, "what it asks for can't be read: 'much' is no quantity"),
    ],
)
def test_pods_that_do_not_count(change: dict[str, Any], reason: str) -> None:
    """A pod that doesn't wait for room is left out with the reason; one unreadable pod doesn't stop the others."""
    packing = pack([make_pod("odd", **change), make_pod("good")], pools=[make_pool()])
    assert packing.targets == {"workers": 1}
    assert verdict(packing, "odd").reason.startswith(reason)
    assert (verdict(packing, "odd").outcome, verdict(packing, "good").outcome) == ("LeftOut", "Grows")


def test_too_large_pod() -> None:
    """A pod that is greater than any node raises nothing and is told what a node has."""
    packing = pack(pods(1, memory="97Gi"), pools=[make_pool()])
    assert packing.targets == {"workers": 0}
    reason = "no pool has nodes that are big enough: it asks for 97Gi memory, a node has 96Gi memory"
    assert verdict(packing, "p0").reason == reason


def test_free_room_and_coming_nodes_are_used_first() -> None:
    """What is there is filled first, then what is on its way, and only the rest makes a pool grow."""
    pool = make_pool(memory="30Gi", target=2, coming=1)
    packing = pack(pods(3), pools=[pool], places=[make_place("n1", memory="30Gi")])
    assert packing.targets == {"workers": 3}
    assert sorted(item.outcome for item in packing.verdicts) == ["Coming", "Fits", "Grows"]


@pytest.mark.parametrize("periods", [1, 2, 5])
def test_one_pending_pod_launches_one_node_not_one_per_period(periods: int) -> None:
    """A node that starts counts as coming room, however often the pod is looked at meanwhile (A1)."""
    obj = make_pool_object(memoryGiB=96)
    for _ in range(periods):
        packing = pack(pods(1), pools=[pool_of(obj, make_facts())])
        obj["spec"]["targetNodes"] = packing.targets["workers"]
    assert obj["spec"]["targetNodes"] == 1


def test_node_removed_on_purpose_is_not_compensated() -> None:
    """A pool of 6 that drains one node to become 5 stays at 5 (A1)."""
    facts = make_facts(*(make_node(f"n{index}") for index in range(1, 6)), leaving_node("n6"))
    pool = pool_of(make_pool_object(targetNodes=5), facts)
    packing = pack([], pools=[pool], places=places_of(facts, [], pools=[make_pool_object()]))
    assert (pool.coming, packing.targets) == (0, {"workers": 5})


def test_room_of_a_node_on_its_way_out_is_not_free() -> None:
    """A pod isn't promised to a cordoned node, even one that tolerates everything (A1)."""
    facts = make_facts(make_node("n1", memory="96Gi", unschedulable=True))
    obj = make_pool_object(targetNodes=1, memoryGiB=96)
    tolerant = make_pod(spec={"tolerations": [{"operator": "Exists"}]})
    packing = pack([tolerant], pools=[pool_of(obj, facts)], places=places_of(facts, [], pools=[obj]))
    assert packing.targets == {"workers": 2}


def test_limits_are_told() -> None:
    """A pool at its maximum and a step that is used up leave pods waiting, and say so."""
    packing = pack(pods(3, memory="60Gi"), pools=[make_pool(maximum=2, target=1)])
    assert packing.targets == {"workers": 2}
    assert verdict(packing, "p2").outcome == "Waits"
    assert verdict(packing, "p2").reason == "pool workers is at its maxNodes of 2"
    stepped = pack(pods(3, memory="60Gi"), pools=[make_pool()], limits=Limits(max_nodes_per_step=2))
    assert stepped.targets == {"workers": 2}
    assert "maxNodesPerStep" in verdict(stepped, "p2").reason


def test_pause_raises_nothing() -> None:
    """During a cooldown no node is added, and the pods are told what they wait for."""
    packing = pack(pods(1), pools=[make_pool()], limits=Limits(paused="cooling down until 12:05"))
    assert (packing.targets, verdict(packing, "p0").reason) == ({"workers": 0}, "cooling down until 12:05")


@pytest.mark.parametrize(
    ("spec", "target", "why"),
    [
        ({"targetNodes": 1, "minNodes": 3}, 3, "minNodes is 3"),
        ({"targetNodes": 5, "maxNodes": 2}, 2, "maxNodes is 2"),
    ],
)
def test_target_is_within_its_limits_after_an_edit(spec: dict[str, Any], target: int, why: str) -> None:
    """An edit of minNodes or maxNodes moves the target without any pod (A1)."""
    packing = pack([], pools=[pool_of(make_pool_object(**spec), make_facts())])
    assert packing.targets == {"workers": target}
    assert [(item.before, item.after, item.why) for item in packing.decisions] == [(spec["targetNodes"], target, why)]


def test_nodes_that_the_minimum_brings_are_room() -> None:
    """Pods that find room in the nodes that minNodes asks for raise nothing more."""
    pool = pool_of(make_pool_object(minNodes=2, memoryGiB=96), make_facts())
    assert pack(pods(4), pools=[pool]).targets == {"workers": 2}


def test_cheapest_fitting_pool_grows() -> None:
    """Of the pools that fit the cheapest grows, unless a person ranked another one first."""
    small, large = make_pool("small", memory="32Gi", cost=1), make_pool("large", memory="96Gi", cost=3)
    assert pack(pods(1), pools=[large, small]).targets == {"small": 1, "large": 0}
    assert pack(pods(1, memory="40Gi"), pools=[large, small]).targets == {"small": 0, "large": 1}
    ranked = [make_pool("small", cost=1, rank=1), make_pool("large", cost=3, rank=0)]
    assert pack(pods(1), pools=ranked).targets == {"small": 0, "large": 1}


def test_next_pool_grows_where_the_cheapest_cannot() -> None:
    """A pool at its maximum, or one that AWS has no machines for, is passed over."""
    full, other = make_pool("full", maximum=0, cost=1), make_pool("other", cost=2)
    assert pack(pods(1), pools=[full, other]).targets == {"full": 0, "other": 1}
    starved = make_pool("starved", cost=1, starved="InsufficientInstanceCapacity")
    assert pack(pods(1), pools=[starved, other]).targets == {"starved": 0, "other": 1}
    alone = pack(pods(1), pools=[starved])
    assert "gets no machines at the moment: InsufficientInstanceCapacity" in verdict(alone, "p0").reason


def test_pods_that_repel_each_other_get_a_node_each() -> None:
    """Required anti-affinity over the host name holds among pods that are packed onto new nodes."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert pack(pods(3, memory="1Gi", spec={"affinity": affinity}), pools=[make_pool()]).targets == {"workers": 3}


def test_host_port_is_taken_once_per_node() -> None:
    """Pods with one host port need a node each."""
    spec = {"containers": [{"ports": [{"hostPort": 80}]}]}
    assert pack(pods(2, spec=spec), pools=[make_pool()]).targets == {"workers": 2}


def test_higher_priority_is_served_first() -> None:
    """Where not all find room, the pod of the higher priority does, though it's smaller."""
    vip = make_pod("vip", memory="10Gi", spec={"priority": 100})
    packing = pack([*pods(1, memory="90Gi"), vip], pools=[make_pool(maximum=1)])
    assert (verdict(packing, "vip").outcome, verdict(packing, "p0").outcome) == ("Grows", "Waits")


def test_greatest_share_is_served_first() -> None:
    """What counts as great is the share of a node, so that many cores outweigh some memory."""
    wide = make_pod("wide", cpu="60", memory="1Gi")
    packing = pack([make_pod("deep", cpu="8", memory="40Gi"), wide], pools=[make_pool(maximum=1)])
    assert (verdict(packing, "wide").outcome, verdict(packing, "deep").outcome) == ("Grows", "Waits")


def test_decision_names_the_pods() -> None:
    """A decision says for which pods it was made, without listing hundreds."""
    (decision,) = pack(pods(5), pools=[make_pool()]).decisions
    assert (decision.before, decision.after) == (0, 2)
    assert decision.why == "room for 5 pods: prod/p0, prod/p1, prod/p2 and 2 more"


def test_pods_of_closed_nodes_still_repel() -> None:
    """A pod on a node that goes still counts for affinities, though the node takes nobody."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    closed = make_place("n1", labels={"zone": "a"}, guests=[make_guest("old")], is_open=False)
    packing = pack([make_pod(spec={"affinity": affinity})], pools=[make_pool(labels={"zone": "a"})], places=[closed])
    assert verdict(packing, "web").reason == "no pool satisfies its pod anti-affinity"


def some_cluster(draw: random.Random) -> tuple[list[dict[str, Any]], list[Pool], list[Place]]:
    """Return pods, pools and nodes of any sizes."""
    wanted = [
        make_pod(
            f"p{index}",
            memory=f"{draw.randint(1, 40)}Gi",
            cpu=f"{draw.randint(1, 6000)}m",
            spec={"priority": draw.choice([0, 0, 5]), "nodeSelector": draw.choice([{}, {}, {"disk": "ssd"}])},
        )
        for index in range(draw.randint(0, 40))
    ]
    pools = [
        make_pool(
            f"pool{index}",
            memory=f"{draw.randint(8, 64)}Gi",
            target=draw.randint(0, 4),
            minimum=draw.randint(0, 2),
            maximum=draw.randint(2, 6),
            coming=draw.randint(0, 2),
            cost=draw.randint(1, 3),
            labels=draw.choice([{}, {"disk": "ssd"}]),
        )
        for index in range(draw.randint(0, 3))
    ]
    guests = [make_guest(f"g{index}", memory=f"{draw.randint(1, 8)}Gi") for index in range(draw.randint(0, 3))]
    places = [make_place(f"n{index}", memory="32Gi", guests=guests) for index in range(draw.randint(0, 4))]
    return wanted, pools, places


@pytest.mark.parametrize("seed", range(60))
def test_packing_never_overfills_a_node_or_a_pool(seed: int) -> None:
    """Whatever the cluster looks like: no node is overfull, no pool beyond its maximum or step, every pod answered."""
    draw = random.Random(seed)  # noqa: S311 - test data
    wanted, pools, places = some_cluster(draw)
    step = draw.randint(0, 3)
    packing = pack(wanted, pools=pools, places=places, limits=Limits(max_nodes_per_step=step))
    for place in packing.places:
        assert min(place.free.values()) >= 0, place.name
        assert place.free == {
            name: value - sum(guest.requests.get(name, 0) for guest in place.guests)
            for name, value in place.offers.items()
        }
    added = 0
    for pool in pools:
        assert pool.minimum <= packing.targets[pool.name] <= max(pool.maximum, pool.minimum)
        assert packing.targets[pool.name] >= pool.allowed_target
        added += packing.targets[pool.name] - pool.allowed_target
    assert not step or added <= step
    assert sorted(item.pod for item in packing.verdicts) == sorted(f"prod/{pod['metadata']['name']}" for pod in wanted)
    assert all(item.reason for item in packing.verdicts if item.outcome in {"Waits", "LeftOut"})


@pytest.mark.parametrize("seed", range(10))
def test_packing_depends_on_nothing_but_its_input(seed: int) -> None:
    """The order in which pods, pools and nodes are listed changes nothing, and what is handed in isn't changed."""
    draw = random.Random(seed)  # noqa: S311 - test data
    wanted, pools, places = some_cluster(draw)
    before = [dict(place.free) for place in places]
    first = pack(wanted, pools=pools, places=places)
    for listed in (wanted, pools, places):
        draw.shuffle(listed)
    again = pack(wanted, pools=pools, places=places)
    assert (first.targets, first.verdicts) == (again.targets, again.verdicts)
    assert sorted(map(str, before)) == sorted(str(place.free) for place in places)


@pytest.mark.parametrize(
    ("nodes", "target", "coming"),
    [
        ([], 2, 2),
        ([make_node("n1")], 2, 1),
        ([make_node("n1"), make_node("n2", ready=False, since=60)], 2, 1),
        ([make_node("n1"), make_node("n2", ready=False, since=901)], 2, 0),
        ([make_node("n1"), make_node("n2", unschedulable=True)], 2, 0),
        ([make_node("n1"), make_node("n2"), make_node("n3")], 2, 0),
        ([make_node("n1"), leaving_node("n2")], 1, 0),
        ([make_node("n1"), leaving_node("n2")], 2, 1),
        ([make_node("n1", pool_uid="another")], 2, 2),
    ],
)
def test_coming_nodes(nodes: list[dict[str, Any]], target: int, coming: int) -> None:
    """On their way are nodes that aren't there yet or start; long unready and cordoned ones bring no room (A1)."""
    assert pool_of(make_pool_object(targetNodes=target), make_facts(*nodes)).coming == coming


def test_pool_without_capacity_has_only_launched_nodes_on_their_way() -> None:
    """While AWS gives no machines, only those that run already are expected to join."""
    condition = {"type": "CapacityUnavailable", "status": "True", "message": "no m5.large"}
    obj = make_pool_object(targetNodes=5, status={"currentNodes": 2, "conditions": [condition]})
    pool = pool_of(obj, make_facts(make_node("n1")))
    assert (pool.coming, pool.starved) == (1, "no m5.large")


def test_offer_of_a_new_node_is_guessed_with_a_reserve() -> None:
    """Without any node of its type a pool offers what the spec or the type says, less a reserve and DaemonSets."""
    agent = {"spec": {"template": make_pod("agent", memory="1Gi")}}
    elsewhere = {"spec": {"template": make_pod("gpu-agent", memory="1Gi", spec={"nodeSelector": {"gpu": "yes"}})}}
    capacities = {"m5.large": {"cpu": "2", "memory": "8Gi"}}
    facts = make_facts(capacities=capacities, daemon_sets=[agent, elsewhere])
    assert pool_of(make_pool_object(), facts).offers["memory"] == 7 * 2**30
    assert pool_of(make_pool_object(memoryGiB=16, cpu=3), facts).offers["cpu"] == 3000
    kept = pool_of(make_pool_object(memoryGiB=100), make_facts(reserve=make_reserve()))
    assert kept.offers["memory"] == 95 * 2**30 - 100 * 2**20


def make_reserve() -> Any:
    """Return the reserve that is kept where nobody says otherwise."""
    return type(make_facts().reserve)()


def test_offer_of_a_new_node_is_learnt_from_those_that_are_there() -> None:
    """Nodes of the pool's instance types tell best what a new one offers; nodes of a former type don't."""
    type_label = "node.kubernetes.io/instance-type"
    present = make_node("n1", memory="90Gi", labels={type_label: "m5.large"})
    former = make_node("n2", memory="4Gi", labels={type_label: "t3.micro"})
    pool = pool_of(make_pool_object(memoryGiB=96), make_facts(present, former))
    assert pool.offers == amounts({"cpu": "8", "memory": "90Gi", "pods": "110"})


def test_labels_of_a_new_node_are_those_that_are_sure() -> None:
    """Type and zone are known where the pool has one of each, and open where it has several."""
    facts = make_facts(zones={"workers": ["eu-central-1a"]})
    one = pool_of(make_pool_object(labels={"disk": "ssd"}), facts).template("new")
    assert one.labels["disk"] == "ssd"
    assert one.labels["topology.kubernetes.io/zone"] == "eu-central-1a"
    assert one.labels["topology.kubernetes.io/region"] == "eu-central-1"
    assert one.labels["node.kubernetes.io/instance-type"] == "m5.large"
    many = pool_of(make_pool_object(instanceTypes=["m5.xlarge"]), make_facts()).template("new")
    assert "node.kubernetes.io/instance-type" not in many.labels
    assert "topology.kubernetes.io/zone" in many.vague


def test_pods_of_a_node_are_counted_on_it() -> None:
    """Nodes come with their pods and their pool, and only Ready ones that stay are open."""
    nodes = [make_node("n1"), make_node("n2", ready=False), make_node("n3", pool_uid="another")]
    facts = make_facts(*nodes)
    places = places_of(facts, [running_pod("a", node="n1")], pools=[make_pool_object()])
    assert [(place.name, place.pool, place.is_open, len(place.guests)) for place in places] == [
        ("n1", "workers", True, 1),
        ("n2", "workers", False, 0),
        ("n3", "", True, 0),
    ]
