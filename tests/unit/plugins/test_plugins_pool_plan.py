"""What to do for a NodePool, played through in a little world."""

from __future__ import annotations

import random

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import make_pool_plan

from tests.unit.plugins.cluster_builders import ago, make_pool_object
from tests.unit.plugins.pool_world import World, calls, grown, kinds, make_instance_object, not_ready

ICE = "InsufficientInstanceCapacity"
DAEMON = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True}


@pytest.mark.parametrize("number", [1, 3])
def test_pool_grows_to_its_target_and_rests(number: int) -> None:
    """A pool launches what it lacks, is active until all are Ready, and then does nothing more."""
    world = World.of(targetNodes=number)
    assert kinds(world) == ["Create"] * number
    assert world.pool["status"]["scaleOperation"] == "active"
    world.settle(runs=6)
    status = world.pool["status"]
    assert (status["scaleOperation"], status["currentNodes"], status["readyNodes"]) == ("inactive", number, number)
    assert world.condition("Ready")["status"] == "True"
    assert kinds(world) == []
    assert len(world.instances) == number


def test_machine_is_an_owned_ec2instance() -> None:
    """What is created is an EC2Instance that the pool owns, with the pool's fields and the bootstrap's user data."""
    world = World.of(targetNodes=1, imageId="ami-1", diskSizeGiB=50, subnetIds=["subnet-1"], tags={"a": "b"})
    (action,) = make_pool_plan(world.view()).actions
    assert action.name == "workers-1"
    (owner,) = action.body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("NodePool", True)
    assert action.body["spec"] == {
        "imageId": "ami-1",
        "instanceType": "m5.large",
        "subnetId": "subnet-1",
        "storage": [{"deviceName": "/dev/xvda", "sizeGiB": 50}],
        "tags": {"a": "b"},
    }


def test_instances_of_others_are_passed_over() -> None:
    """An EC2Instance that the pool doesn't own is no member, whatever its labels and name say."""
    world = World.of(targetNodes=0)
    world.instances["workers-9"] = make_instance_object("workers-9", metadata={"ownerReferences": []}, instanceId="i-9")
    assert kinds(world) == []


def test_names_are_never_used_twice() -> None:
    """A new machine gets a number above all that were there, those that are gone included."""
    world = grown(2)
    world.pool["spec"]["targetNodes"] = 0
    world.settle()
    world.pool["spec"]["targetNodes"] = 1
    world.run()
    assert list(world.instances) == ["workers-3"]


def test_limits_hold_over_the_target() -> None:
    """The limits minNodes and maxNodes hold whatever the target says, and the target isn't touched (A1)."""
    world = World.of(targetNodes=9, maxNodes=2)
    world.settle(runs=6)
    assert (len(world.instances), world.pool["spec"]["targetNodes"]) == (2, 9)
    least = World.of(targetNodes=0, minNodes=1)
    assert kinds(least) == ["Create"]


def test_scale_down_cordons_evicts_and_terminates_in_this_order() -> None:
    """A node is cordoned, then drained, then terminated, one step at a time, and the pool rests after (N3)."""
    world = grown(2)
    world.put_pod("busy", node="node-workers-1", memory="8Gi")
    world.put_pod("light", node="node-workers-2")
    world.pool["spec"]["targetNodes"] = 1
    steps = []
    for _ in range(8):
        steps += kinds(world)
        world.tick()
    assert steps == ["Cordon", "Evict", "Delete", "DeleteNode"]
    assert list(world.instances) == ["workers-1"]
    assert world.pool["status"]["scaleOperation"] == "inactive"


def test_daemon_and_mirror_pods_are_not_evicted() -> None:
    """Pods of DaemonSets, mirror pods and ended ones are skipped (N3)."""
    world = grown(1)
    world.put_pod("agent", node="node-workers-1", ownerReferences=[DAEMON])
    world.put_pod("static", node="node-workers-1", annotations={"kubernetes.io/config.mirror": "x"})
    world.put_pod("done", node="node-workers-1")
    world.pods["done"]["status"]["phase"] = "Succeeded"
    world.pool["spec"]["targetNodes"] = 0
    world.settle(runs=4)
    assert calls(world) == {"workers-1": ["Cordon", "Delete"]}


def test_every_other_pod_is_evicted() -> None:
    """Pods without a controller, with local data or that tolerate everything are evicted too: a person asked (N3)."""
    world = grown(1)
    world.put_pod("bare", node="node-workers-1", ownerReferences=[])
    world.put_pod("local", node="node-workers-1", spec={"volumes": [{"name": "v", "emptyDir": {}}]})
    world.put_pod("tolerant", node="node-workers-1", spec={"tolerations": [{"operator": "Exists"}]})
    world.pool["spec"]["targetNodes"] = 0
    world.run()
    (action,) = world.run().actions
    assert sorted(pod["name"] for pod in action.pods) == ["bare", "local", "tolerant"]


@pytest.mark.parametrize(("policy", "ends"), [(None, True), ("Terminate", True), ("Wait", False)])
def test_blocked_drain(policy: str | None, ends: bool) -> None:  # noqa: FBT001 - a column of the table
    """A refused eviction is tried until drainTimeout and told in the status; then the declared policy holds (N3)."""
    spec = {"drainTimeoutPolicy": policy} if policy else {}
    world = grown(1, drainTimeout="1m", **spec)
    world.put_pod("guarded", node="node-workers-1")
    world.guarded.add("guarded")
    world.pool["spec"]["targetNodes"] = 0
    world.settle(runs=6)
    assert "Delete" not in calls(world)["workers-1"]
    assert world.condition("Ready")["reason"] == "DrainBlocked"
    assert "guarded can't be evicted: the budget web allows no disruption" in world.condition("Ready")["message"]
    assert "node-workers-1 is draining, prod/guarded still on it" in world.condition("ScalingDown")["message"]
    world.settle(runs=12)
    assert ("Delete" in calls(world)["workers-1"]) is ends
    world.guarded.clear()
    world.settle(runs=4)
    assert world.instances == {}


def test_no_timeout_waits_for_ever() -> None:
    """With a drainTimeout of 0s a blocked drain never ends in a termination."""
    world = grown(1, drainTimeout="0s")
    world.put_pod("guarded", node="node-workers-1")
    world.guarded.add("guarded")
    world.pool["spec"]["targetNodes"] = 0
    world.settle(runs=10, seconds=3600)
    assert list(world.instances) == ["workers-1"]


def test_blocked_drain_does_not_block_growth() -> None:
    """While one node can't be drained, a higher target keeps it and launches the rest (N3)."""
    world = grown(2)
    world.put_pod("guarded", node="node-workers-1")
    world.put_pod("other", node="node-workers-2", memory="4Gi")
    world.guarded.add("guarded")
    world.pool["spec"]["targetNodes"] = 1
    world.settle(runs=4)
    world.pool["spec"]["targetNodes"] = 4
    assert sorted(kinds(world)) == ["Create", "Create", "Uncordon"]
    world.settle(runs=8)
    assert world.pool["status"]["readyNodes"] == 4
    assert not any(node["spec"].get("unschedulable") for node in world.nodes.values())


def test_pod_on_a_dead_node_is_not_waited_for_for_ever() -> None:
    """On a node that answers no more, a pod whose grace period is over doesn't hold the termination."""
    world = grown(1)
    world.put_pod("stuck", node="node-workers-1", deletionTimestamp=ago(-10_000))
    world.nodes["node-workers-1"]["status"]["conditions"][0]["status"] = "False"
    world.pool["spec"]["targetNodes"] = 0
    world.run()
    assert kinds(world) == []
    world.pods["stuck"]["metadata"]["deletionTimestamp"] = ago(1)
    assert kinds(world) == ["Delete"]


def test_only_so_many_ready_nodes_are_drained_at_once() -> None:
    """No more than maxUnavailable Ready nodes are on their way out, one where nothing is said."""
    world = grown(4)
    for number in (1, 2, 3, 4):
        world.put_pod(f"p{number}", node=f"node-workers-{number}")
        world.guarded.add(f"p{number}")
    world.pool["spec"]["targetNodes"] = 1
    world.settle(runs=5)
    assert len(calls(world)) == 1
    world.pool["spec"]["maxUnavailable"] = 2
    world.settle(runs=5)
    assert len(calls(world)) == 2


def test_unready_ones_go_first() -> None:
    """A machine that is no node yet goes before any node that works, without a drain."""
    world = grown(1)
    world.joins = False
    world.pool["spec"]["targetNodes"] = 2
    world.settle(runs=3)
    world.pool["spec"]["targetNodes"] = 1
    assert [(action.kind, action.name) for action in world.run().actions] == [("Delete", "workers-2")]


def test_terminations_are_braked() -> None:
    """Over maxTerminationsPerHour nothing is cordoned or terminated, and a condition says so."""
    world = grown(3, maxUnavailable=3)
    world.pool["spec"] |= {"targetNodes": 0, "maxTerminationsPerHour": 1}
    world.settle(runs=10)
    assert len(world.instances) == 2
    assert len([kind for kind, _ in world.log if kind == "Cordon"]) == 1
    assert world.condition("TerminationLimited")["status"] == "True"
    world.settle(runs=1, seconds=3600)
    world.settle(runs=10)
    assert len(world.instances) == 1
    world.pool["spec"]["maxTerminationsPerHour"] = 0
    world.settle(runs=10)
    assert world.instances == {}
    assert world.condition("TerminationLimited")["status"] == "False"


def test_brake_knows_terminations_that_no_status_tells_of() -> None:
    """A termination whose status write was lost still counts while it's seen."""
    world = grown(2, maxUnavailable=2)
    world.pool["spec"] |= {"targetNodes": 0, "maxTerminationsPerHour": 1}
    world.run()
    world.run(crash_after=1)
    assert [kind for kind, _ in world.log].count("Delete") == 1
    assert kinds(world) == []


def test_brake_begins_no_drain_that_it_would_not_let_end() -> None:
    """While a drain under way takes the last termination that is allowed, no other node is cordoned."""
    world = grown(3, maxUnavailable=3)
    world.put_pod("guarded", node="node-workers-3")
    world.guarded.add("guarded")
    world.put_pod("busy", node="node-workers-1", memory="8Gi")
    world.put_pod("busy-too", node="node-workers-2", memory="8Gi")
    world.pool["spec"] |= {"targetNodes": 0, "maxTerminationsPerHour": 1}
    world.settle(runs=5)
    assert calls(world) == {"workers-3": ["Cordon", "Evict"]}


def test_node_that_somebody_uncordons_is_cordoned_again() -> None:
    """A marked node that takes pods again is cordoned before anything else, and its drain's clock goes on."""
    world = grown(1)
    world.put_pod("guarded", node="node-workers-1")
    world.guarded.add("guarded")
    world.pool["spec"]["targetNodes"] = 0
    world.settle(runs=3)
    node = world.nodes["node-workers-1"]
    since = dict(node["metadata"]["annotations"])
    node["spec"]["unschedulable"] = False
    assert kinds(world) == ["Cordon"]
    assert node["metadata"]["annotations"] == since


def test_node_without_provider_id_is_found_by_its_address() -> None:
    """A joining Node gets provider id, labels and taints; one that is Ready only its labels."""
    world = World.of(targetNodes=1, labels={"disk": "ssd"}, taints=[{"key": "team", "effect": "NoSchedule"}])
    world.settle(runs=2)
    world.tick()
    world.instances["workers-1"]["status"] |= {"privateIp": "10.0.0.7", "availabilityZone": "eu-central-1a"}
    node = world.nodes["node-workers-1"]
    node["spec"] = {}
    node["status"] |= {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}
    node["status"]["conditions"][0]["status"] = "False"
    assert kinds(world) == ["SetNode"]
    assert node["spec"] == {
        "taints": [{"key": "team", "effect": "NoSchedule"}],
        "providerID": "aws:///eu-central-1a/i-workers-1",
    }
    assert node["metadata"]["labels"]["disk"] == "ssd"
    world.tick()
    node["spec"]["taints"] = []
    assert kinds(world) == []


@pytest.mark.parametrize(("marked", "known", "since", "gone"), [
    (False, True, 61, True),
    (False, True, 30, False),
    (False, False, 61, False),
    (True, False, 0, True),
])  # fmt: skip
def test_node_of_a_vanished_machine_is_forgotten(marked: bool, known: bool, since: int, gone: bool) -> None:  # noqa: FBT001
    """A Node without machine goes when we drained it, or after a while, but not while it may be a new machine's."""
    world = grown(1)
    node = world.nodes["node-workers-1"]
    del world.instances["workers-1"]
    world.pool["spec"]["targetNodes"] = 1
    world.instances["workers-2"] = make_instance_object("workers-2", **({"instanceId": "i-2"} if known else {}))
    node["status"]["conditions"][0] |= {"status": "False", "lastTransitionTime": ago(since)}
    world.now = type(world.now).fromisoformat(ago(0).replace("Z", "+00:00"))
    if marked:
        node["metadata"]["annotations"]["aws.ansible-operator.io/removing-since"] = ago(60)
    assert ("DeleteNode" in kinds(world)) is gone


def test_node_that_turned_unready_is_no_scale_operation() -> None:
    """A node that was Ready and isn't now makes the pool not Ready, but not active, and launches nothing."""
    world = grown(2)
    world.nodes["node-workers-1"]["status"]["conditions"][0]["status"] = "False"
    assert kinds(world) == []
    assert world.pool["status"]["scaleOperation"] == "inactive"
    assert world.condition("Ready")["message"] == "1 of 2 nodes are ready; not: node-workers-1"


def test_finalizer_drains_everything() -> None:
    """A deleted pool goes through the same steps down to nothing, whatever minNodes says."""
    world = grown(2, minNodes=1)
    world.put_pod("web", node="node-workers-1")
    world.finalizing = True
    world.settle()
    assert (world.instances, world.nodes) == ({}, {})
    assert calls(world)["workers-1"] == ["Cordon", "Evict", "Delete"]


def test_quiet_pool_writes_nothing_but_the_time() -> None:
    """A run that finds everything as it was reports no change."""
    world = grown(1)
    before = dict(world.pool["status"])
    world.run()
    world.tick()
    world.run()
    after = world.pool["status"]
    assert {name for name in after if after[name] != before.get(name)} <= {"lastCheckedAt"}


def test_edit_during_a_run_lands_in_the_next_one() -> None:
    """The status names the generation that the run saw, and the pool stays active until the new target is met."""
    world = World.of(targetNodes=1)
    world.run()
    world.pool["metadata"]["generation"] = 3
    world.pool["spec"]["targetNodes"] = 2
    assert world.pool["status"]["observedGeneration"] == 2
    world.tick()
    world.run()
    world.tick()
    world.run()
    status = world.pool["status"]
    assert (status["observedGeneration"], status["scaleOperation"], len(world.instances)) == (3, "active", 2)
    world.settle(runs=4)
    assert world.pool["status"]["scaleOperation"] == "inactive"


def place_some(world: World, draw: random.Random) -> None:
    """Let pods come to some of the nodes that take any."""
    open_ones = [name for name, node in world.nodes.items() if not node["spec"].get("unschedulable")]
    for name in [name for name in open_ones if draw.random() < 0.3]:
        world.put_pod(f"on-{name}", node=name)


@pytest.mark.parametrize("seed", range(15))
def test_crashes_at_any_point_change_nothing(seed: int) -> None:
    """Runs that end after any action without a status write still lead to the target, in order and within limits."""
    draw = random.Random(seed)  # noqa: S311 - test data
    world = World.of(targetNodes=draw.randint(0, 4), maxUnavailable=draw.randint(1, 3), drainTimeout="0s")
    for _ in range(12):
        world.pool["spec"]["targetNodes"] = draw.randint(0, 4)
        limit = max(world.pool["spec"]["targetNodes"] + 1, len(world.instances))
        world.most = 0
        for _ in range(draw.randint(1, 6)):
            world.run(crash_after=draw.choice([None, 0, 1, 2]))
            world.tick()
            place_some(world, draw)
        assert world.most <= limit
    world.settle(runs=60)
    assert len(world.instances) == world.pool["spec"]["targetNodes"] == world.pool["status"]["readyNodes"]
    assert not any(node["spec"].get("unschedulable") for node in world.nodes.values())


@pytest.mark.parametrize("seed", range(10))
def test_node_with_pods_is_never_terminated_without_a_drain(seed: int) -> None:
    """Whatever the target does, no machine of a node ends before it was cordoned, and while pods are on it (N3)."""
    draw = random.Random(seed)  # noqa: S311 - test data
    world = grown(3, maxUnavailable=2, drainTimeout="0s")
    for number in range(6):
        world.put_pod(f"p{number}", node=f"node-workers-{number % 3 + 1}")
    for _ in range(60):
        if draw.random() < 0.2:
            world.pool["spec"]["targetNodes"] = draw.randint(0, 4)
        occupied = {pod["spec"]["nodeName"] for pod in world.pods.values()}
        open_ones = {name for name, node in world.nodes.items() if not node["spec"].get("unschedulable")}
        already = len(world.log)
        world.run(crash_after=draw.choice([None, None, 1]))
        ended = {f"node-{name}" for kind, name in world.log[already:] if kind == "Delete"}
        assert not ended & (occupied | open_ones)
        world.tick()


def test_plan_does_not_change_what_it_was_given() -> None:
    """Planning is without any effect: the same view gives the same plan."""
    world = grown(2)
    world.put_pod("web", node="node-workers-1")
    world.pool["spec"]["targetNodes"] = 0
    view = world.view()
    assert make_pool_plan(view) == make_pool_plan(view)
    assert view.pool == world.pool


def test_failed_object_of_a_pool_that_shrinks_is_let_go() -> None:
    """A launch without capacity that isn't wanted any more is just deleted."""
    world = World(pool=make_pool_object(targetNodes=0))
    world.instances["workers-1"] = make_instance_object(conditions=not_ready(ICE), launchAttempt=1)
    (action,) = world.run().actions
    assert (action.kind, action.is_termination) == ("Delete", False)
