"""What is asked before a machine ends: of its Node, of a Node that is gone, of one whose id nobody knows yet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.drain import next_step
from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import EVICTING, REMOVING
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import make_pool_plan
from ansible_collections.aws_operator.core.plugins.module_utils.removals import looks_at_pods
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

from tests.unit.plugins.cluster_builders import NOW, ago, leaving_node, make_node, make_pool_object, running_pod
from tests.unit.plugins.pool_world import World, calls, grown, kinds, make_instance_object, not_ready

NODE = "node-workers-1"


def marks_of(world: World, name: str = NODE) -> dict[str, Any]:
    """Return a Node's annotations."""
    found: dict[str, Any] = world.nodes[name]["metadata"]["annotations"]
    return found


def shrinking(**spec: Any) -> World:
    """Return a world whose one node, with a pod that a budget protects, has been cordoned."""
    world = grown(1, drainTimeout="1m", **spec)
    world.put_pod("guarded", node=NODE)
    world.guarded.add("guarded")
    world.pool["spec"]["targetNodes"] = 0
    assert kinds(world) == ["Cordon"]
    return world


def test_long_stop_of_the_operator_takes_no_pod_its_eviction() -> None:
    """The clock of drainTimeout begins with the first eviction, however long ago the cordon was."""
    world = shrinking()
    assert EVICTING not in marks_of(world)
    world.tick(seconds=3600)
    assert kinds(world) == ["Evict"]
    world.tick(seconds=59)
    assert kinds(world) == ["Evict"]
    world.tick(seconds=1)
    assert kinds(world) == ["Delete"]


def test_clock_of_a_drain_is_recorded_once() -> None:
    """The first eviction is noted on the Node, later ones don't move it, and a called back Node forgets it."""
    world = shrinking()
    world.tick()
    world.run()
    first = marks_of(world)[EVICTING]
    world.tick()
    (action,) = world.run().actions
    assert (action.kind, action.body, marks_of(world)[EVICTING]) == ("Evict", {}, first)
    world.pool["spec"]["targetNodes"] = 1
    assert kinds(world) == ["Uncordon"]
    assert not {EVICTING, REMOVING} & marks_of(world).keys()


@pytest.mark.parametrize("seconds", [31, 58, 3600])
def test_pods_that_came_while_the_cordon_was_off_are_asked_too(seconds: float) -> None:
    """A drain whose time is over or nearly so when its Node is cordoned again begins to count anew."""
    world = shrinking()
    world.run()
    since = marks_of(world)[REMOVING]
    world.nodes[NODE]["spec"]["unschedulable"] = None
    world.tick(seconds=seconds)
    assert kinds(world) == ["Cordon"]
    assert (marks_of(world)[REMOVING], EVICTING in marks_of(world)) == (since, False)
    assert kinds(world) == ["Evict"]


@pytest.mark.parametrize(("seconds", "step"), [(59, "Wait"), (60, "Terminate")])
def test_pods_that_others_told_to_go_have_had_their_time(seconds: int, step: str) -> None:
    """Where every pod is terminating already, nobody has to be asked: the time counts from the end of their grace."""
    pods = [running_pod("a", node="n1", deletionTimestamp=ago(seconds)), running_pod("b", node="n1")]
    pods[1]["metadata"]["deletionTimestamp"] = ago(4000)
    node, spec = leaving_node("n1"), {"drainTimeout": "1m"}
    assert next_step(node, pods, spec=spec, now=NOW).kind == step
    assert next_step(node, [*pods, running_pod("c", node="n1")], spec=spec, now=NOW).kind == "Evict"


@pytest.mark.parametrize("terminations", [[], [{"name": "workers-9", "time": ago(60)}]])
def test_uncordoned_node_is_cordoned_again_under_the_brake(terminations: list[dict[str, str]]) -> None:
    """A drain that has begun goes on whatever maxTerminationsPerHour allows, and no other one begins."""
    world = grown(3, maxUnavailable=3)
    world.put_pod("guarded", node="node-workers-3")
    world.guarded.add("guarded")
    for number in (1, 2):
        world.put_pod(f"busy-{number}", node=f"node-workers-{number}", memory="8Gi")
    world.pool["spec"] |= {"targetNodes": 0, "maxTerminationsPerHour": 1}
    world.settle(runs=3)
    world.pool["status"]["terminations"] = [{**item, "time": ago(-60)} for item in terminations]
    world.nodes["node-workers-3"]["spec"]["unschedulable"] = False
    assert [(item.kind, item.name) for item in world.run().actions] == [("Cordon", "node-workers-3")]
    assert kinds(world) == ["Evict"]
    assert calls(world) == {"workers-3": ["Cordon", "Evict"]}


def test_machine_whose_node_vanished_keeps_its_pods_until_they_are_gone() -> None:
    """Pods that are bound to a Node which somebody deleted are evicted, and waited for, before the machine ends."""
    world = grown(1)
    world.put_pod("web", node=NODE)
    world.put_pod("agent", node=NODE, ownerReferences=[{"kind": "DaemonSet", "uid": "2", "controller": True}])
    del world.nodes[NODE]
    world.pool["spec"]["targetNodes"] = 0
    assert looks_at_pods(world.view()) == [NODE]
    (action,) = world.run().actions
    assert (action.kind, action.name, action.body) == ("Evict", NODE, {})
    assert [pod["name"] for pod in action.pods] == ["web"]
    world.pods["web"]["metadata"]["deletionTimestamp"] = ago(-10_000)
    assert kinds(world) == []
    assert f"the Node {NODE} of workers-1 is gone" in world.condition("ScalingDown")["message"]
    del world.pods["web"]
    (action,) = make_pool_plan(world.view()).actions
    assert (action.kind, action.unseen, action.is_termination) == ("Delete", True, True)


def test_machine_whose_node_is_gone_for_good_is_replaced() -> None:
    """A pool that has to have it waits a minute for the Node, drains, then replaces it; it's no failed registration."""
    world = grown(1)
    world.put_pod("web", node=NODE)
    lost = world.nodes.pop(NODE)
    world.joins = False
    assert kinds(world) == []
    entry = {"name": "workers-1", "instanceId": "i-workers-1", "node": NODE, "phase": "Lost"}
    assert [{**item, "lostSince": ""} for item in world.pool["status"]["nodes"]] == [{**entry, "lostSince": ""}]
    assert world.pool["status"]["scaleOperation"] == "active"
    world.tick(seconds=59)
    assert kinds(world) == []
    world.tick(seconds=1)
    assert kinds(world) == ["Create", "Evict"]
    world.tick()
    assert [(item.kind, item.name) for item in world.run().actions] == [("Delete", "workers-1")]
    assert "registrationFailures" not in world.pool["status"]
    back = grown(1)
    del back.nodes[NODE]
    back.run()
    back.now += type(back.now - back.now)(seconds=600)
    back.nodes[NODE] = lost
    assert kinds(back) == []
    assert back.pool["status"]["nodes"][0]["phase"] == "Ready"


def test_new_machine_of_an_ec2instance_is_not_a_lost_node() -> None:
    """Once an EC2Instance has replaced its machine, the old one's Node says nothing about the new one."""
    world = grown(1)
    del world.nodes[NODE]
    world.instances["workers-1"]["status"] |= {"instanceId": "i-new", "launchTime": ago(-10_000)}
    assert kinds(world) == []
    assert world.pool["status"]["nodes"] == [{"name": "workers-1", "instanceId": "i-new", "phase": "Booting"}]


def test_machine_whose_id_is_not_known_yet_is_waited_for() -> None:
    """What AWS was asked for may be a Node with pods by now: its EC2Instance ends once the id tells, not before."""
    world = World(pool=make_pool_object(targetNodes=0))
    world.instances["workers-1"] = make_instance_object(launchAttempt=1)
    assert kinds(world) == []
    told = "workers-1 waits: AWS was asked for it, and its instance id isn't known yet"
    assert told in world.condition("ScalingDown")["message"]
    assert world.pool["status"]["scaleOperation"] == "active"
    world.instances["workers-1"]["status"] |= {"instanceId": "i-1", "state": "running"}
    assert kinds(world) == ["Delete"]


def test_machine_that_nobody_asked_for_is_let_go() -> None:
    """An EC2Instance that hasn't asked AWS yet is deleted at once."""
    world = World(pool=make_pool_object(targetNodes=0))
    world.instances["workers-1"] = make_instance_object()
    assert kinds(world) == ["Delete"]


@pytest.mark.parametrize(
    ("joined", "target", "goes"), [(60, 0, False), (60, 1, False), (9000, 0, True), (None, 0, True)]
)
def test_refused_launch_is_let_go_unless_it_may_be_a_node(joined: int | None, target: int, goes: bool) -> None:  # noqa: FBT001
    """A Node of the pool that is no known machine's and younger than the object may be what AWS launched after all."""
    world = grown(1)
    node = world.nodes[NODE]
    world = World(pool=make_pool_object(targetNodes=target, imageId="ami-new"))
    refused = make_instance_object(created=ago(3600), conditions=not_ready("AuthFailure"), launchAttempt=1)
    world.instances["workers-1"] = refused
    if joined is not None:
        node["metadata"]["creationTimestamp"] = ago(joined)
        world.nodes[NODE] = node
    deletions = [item for item in make_pool_plan(world.view()).actions if item.kind == "Delete"]
    assert [(item.name, item.unseen) for item in deletions] == ([("workers-1", True)] if goes else [])


def test_machine_that_aws_does_not_end_is_told_with_the_reason() -> None:
    """A protected machine's reason stands in the pool's condition, not only that it's terminating."""
    world = grown(1)
    instance = world.instances["workers-1"]
    instance["metadata"]["deletionTimestamp"] = ago(600)
    world.pool["spec"]["targetNodes"] = 0
    for reason, told in (
        ("StillTerminating", "workers-1 is terminating"),
        ("OperationNotPermitted", "workers-1 is terminating (OperationNotPermitted: see EC2Instance workers-1)"),
    ):
        instance["status"]["conditions"] = not_ready(reason, "as AWS says (request id 1)")
        world.run()
        assert world.condition("Ready")["message"] == f"0 of 0 nodes are ready; {told}"


@pytest.mark.parametrize(("refused", "goes"), [(240, True), (100, False)])
def test_refused_launch_and_a_dead_node_do_not_wait_for_each_other(refused: float, *, goes: bool) -> None:
    """A Node that came long before AWS refused a launch isn't that machine; after a lost answer it may be."""
    world = grown(1)
    world.pool["spec"]["targetNodes"] = 2
    world.launch = lambda _spec: "VcpuLimitExceeded"
    world.run()
    world.tick()
    dead = make_node("node-dead", ready=False, since=0)
    dead["metadata"]["creationTimestamp"] = dead["status"]["conditions"][0]["lastTransitionTime"] = render(world.now)
    world.nodes["node-dead"] = dead
    world.now += timedelta(seconds=refused)
    (name,) = set(world.instances) - {"workers-1"}
    world.instances[name]["status"]["conditions"][0]["lastTransitionTime"] = render(world.now)
    world.pool["spec"]["targetNodes"] = 1
    done = {*kinds(world), *kinds(world)}
    assert ({"Delete", "DeleteNode"} <= done) == goes
    assert ("workers-1" in world.instances, "node-dead" in world.nodes) == (True, not goes)
