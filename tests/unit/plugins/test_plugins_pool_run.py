"""What a run of NodePool does beside growing and shrinking: policies, obstacles, looks again, Events."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ansible_collections.aws_operator.core.plugins.filter.node_pool import FilterModule
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import make_pool_plan
from ansible_collections.aws_operator.core.plugins.module_utils.pool_status import pool_update_of
from ansible_collections.aws_operator.core.plugins.module_utils.removals import looks_at_pods

from tests.unit.plugins.cluster_builders import ago
from tests.unit.plugins.pool_world import World, grown, kinds, make_instance_object, not_ready

FILTERS = FilterModule().filters()
OBSTACLE = ("SecretNotFound", "there is no secret join")


def seen(world: World, **more: Any) -> dict[str, Any]:
    """Return what the role hands to the filters."""
    view = world.view()
    return {"nodes": view.nodes, "instances": view.instances, "pods": view.pods, "now": ago(0), **more}


def test_pool_that_leaves_its_machines_takes_nothing_away() -> None:
    """A deleted pool with Retain tells its machines to stay, and asks for no other run."""
    world = grown(2, deletionPolicy="Retain")
    for instance in world.instances.values():
        instance["spec"]["deletionPolicy"] = "Delete"
    view = replace(world.view(), finalizing=True)
    plan = make_pool_plan(view)
    assert {action.kind for action in plan.actions} == {"SetPolicy"}
    assert {str(action.body) for action in plan.actions} == {"{'spec': {'deletionPolicy': 'Retain'}}"}
    update = pool_update_of(view, plan)
    assert (update.active, update.look_again) == (False, 0)


def test_machine_of_a_retaining_pool_ends_when_the_pool_shrinks() -> None:
    """Scaling down terminates, whatever becomes of the machines with the pool, and nothing is set back meanwhile."""
    world = grown(1, deletionPolicy="Retain")
    assert world.instances["workers-1"]["spec"]["deletionPolicy"] == "Retain"
    world.pool["spec"]["targetNodes"] = 0
    assert kinds(world) == ["Cordon"]
    (action,) = make_pool_plan(world.view()).actions
    assert (action.kind, action.body) == ("Delete", {"spec": {"deletionPolicy": "Delete"}})
    world.instances["workers-1"]["spec"]["deletionPolicy"] = "Delete"
    (action,) = make_pool_plan(world.view()).actions
    assert (action.kind, action.body) == ("Delete", {})


def test_policy_of_the_machines_follows_the_pool() -> None:
    """An edit of deletionPolicy is passed on to the machines that are there, and is no scale operation."""
    world = grown(2)
    world.pool["spec"]["deletionPolicy"] = "Retain"
    plan = make_pool_plan(world.view())
    assert [action.kind for action in plan.actions] == ["SetPolicy"] * 2
    assert not plan.scales


def test_credentials_of_the_machines_follow_the_pool() -> None:
    """A new credentialsSecretRef reaches every machine that is there, one that is ending included, and so does none."""
    world = grown(2)
    world.instances["workers-2"]["metadata"]["deletionTimestamp"] = ago(1)
    for reference in ({"name": "new"}, {"name": "newer"}, None):
        world.pool["spec"]["credentialsSecretRef"] = reference
        actions = [item for item in make_pool_plan(world.view()).actions if item.kind == "SetPolicy"]
        assert {item.name: item.body for item in actions} == {
            name: {"spec": {"credentialsSecretRef": reference}} for name in ("workers-1", "workers-2")
        }
        assert {item.why for item in actions} == {"the pool's credentialsSecretRef"}
        for instance in world.instances.values():
            instance["spec"]["credentialsSecretRef"] = reference
    assert not any(item.kind == "SetPolicy" for item in make_pool_plan(world.view()).actions)


def test_obstacle_stops_launches_only() -> None:
    """Without user data nothing is launched, and what has to go goes."""
    world = grown(2)
    world.pool["spec"]["targetNodes"] = 3
    view = replace(world.view(), obstacle=OBSTACLE)
    assert [action.kind for action in make_pool_plan(view).actions] == []
    update = pool_update_of(view, make_pool_plan(view))
    assert update.conditions[0]["reason"] == "SecretNotFound"
    assert "there is no secret join" in update.conditions[0]["message"]
    assert update.look_again == 60
    world.pool["spec"]["targetNodes"] = 1
    shrinking = replace(world.view(), obstacle=OBSTACLE)
    assert [action.kind for action in make_pool_plan(shrinking).actions] == ["Cordon"]


def test_node_is_never_drained_by_a_look_that_saw_no_pods() -> None:
    """Where the pods weren't read, a cordoned node doesn't count as empty."""
    world = grown(1)
    world.pool["spec"]["targetNodes"] = 0
    world.run()
    view = world.view()
    assert [action.kind for action in make_pool_plan(view).actions] == ["Delete"]
    assert make_pool_plan(replace(view, pods_read=False)).actions == []


def test_pods_are_read_only_where_something_goes() -> None:
    """At rest no pod is read; with too many nodes those of all, later those of the ones that go."""
    world = grown(2)
    assert looks_at_pods(world.view()) == []
    world.pool["spec"]["targetNodes"] = 1
    assert looks_at_pods(world.view()) == ["node-workers-1", "node-workers-2"]
    world.run()
    (going,) = [name for name, node in world.nodes.items() if node["spec"].get("unschedulable")]
    assert looks_at_pods(world.view()) == [going]
    assert FILTERS["pool_pods"](world.pool, seen(world)) == [f"spec.nodeName={going}"]


def test_pods_of_many_nodes_are_read_at_once() -> None:
    """One list of all pods takes the place of many small ones."""
    world = grown(6)
    world.pool["spec"]["targetNodes"] = 1
    assert FILTERS["pool_pods"](world.pool, seen(world)) == ["spec.nodeName!="]


def test_machine_that_joined_meanwhile_is_not_ended() -> None:
    """A machine that was no Node at the first look, and is one at the second, is cordoned first (N3)."""
    world = grown(1)
    world.pool["spec"]["targetNodes"] = 0
    nodes = world.nodes.copy()
    world.nodes.clear()
    (action,) = FILTERS["pool_plan"](world.pool, seen(world))["delete"]
    assert (action["name"], action["unseen"]) == ("workers-1", True)
    assert [item["name"] for item in FILTERS["pool_still"](world.pool, seen(world), deletions=[action])] == [
        "workers-1"
    ]
    world.nodes.update(nodes)
    assert FILTERS["pool_still"](world.pool, seen(world), deletions=[action]) == []


def test_target_that_moved_during_the_run_keeps_the_pool_active() -> None:
    """A pool that rests for the target that the run saw, and not for the live one, is active and looks again soon."""
    world = grown(1)
    live = copy.deepcopy(world.pool)
    live["spec"]["targetNodes"] = 2
    update = FILTERS["pool_status"](world.pool, seen(world), live=[live])
    assert (update["active"], update["look_again"]) == (True, 5)
    assert update["status"]["scaleOperation"] == "active"
    same = FILTERS["pool_status"](world.pool, seen(world), live=[world.pool])
    assert (same["active"], "scaleOperation" in same["status"]) == (False, False)
    assert FILTERS["pool_status"](world.pool, seen(world), live=[])["active"] is False


def test_pause_after_a_machine_that_never_joined_is_waited_for_slowly() -> None:
    """While only the pause is in the way, the pool looks once a minute."""
    world = World.of(targetNodes=1)
    world.pool["status"] |= {"registrationFailures": 3, "lastRegistrationFailure": ago(10)}
    view = world.view()
    assert pool_update_of(view, make_pool_plan(view)).look_again == 60


def test_node_is_told_whose_it_is_once() -> None:
    """A Node gets the annotations that start runs of its pool, and its taints with them, though it's Ready by then."""
    taint = {"key": "team", "effect": "NoSchedule"}
    world = grown(1, taints=[taint])
    node = world.nodes["node-workers-1"]
    assert node["metadata"]["annotations"]["operator-sdk/primary-resource"] == "team/workers"
    node["metadata"]["annotations"].clear()
    (action,) = make_pool_plan(world.view()).actions
    assert action.kind == "SetNode"
    assert set(action.body["metadata"]["annotations"]) == {
        "operator-sdk/primary-resource",
        "operator-sdk/primary-resource-type",
    }
    node["spec"].pop("taints", None)
    node["metadata"]["resourceVersion"] = "7"
    (action,) = make_pool_plan(world.view()).actions
    assert action.body["spec"] == {"taints": [taint]}
    assert action.body["metadata"]["resourceVersion"] == "7"


def test_events_tell_what_was_done() -> None:
    """Each kind of step is one Event that names what it was about and why."""
    world = grown(1)
    world.pool["spec"]["targetNodes"] = 3
    view = world.view()
    (event,) = pool_update_of(view, make_pool_plan(view)).events
    assert event["reason"] == "ScalingUp"
    assert event["message"] == (
        "asks for workers-2 (3 nodes are wanted: m5.large), workers-3 (3 nodes are wanted: m5.large)"
    )
    world.pool["spec"]["targetNodes"] = 0
    view = world.view()
    assert [item["reason"] for item in pool_update_of(view, make_pool_plan(view)).events] == ["Cordoned"]


def test_events_tell_an_obstacle_once() -> None:
    """What keeps a pool from its target is an Event when it begins, and when it is over."""
    world = World.of(targetNodes=1)
    world.instances["workers-1"] = make_instance_object(conditions=not_ready("AuthFailure", "no"), launchAttempt=1)
    view = world.view()
    update = pool_update_of(view, make_pool_plan(view))
    assert [(item["type"], item["reason"]) for item in update.events] == [("Warning", "AuthFailure")]
    world.run()
    again = world.view()
    assert pool_update_of(again, make_pool_plan(again)).events == []


def test_machines_that_do_not_join_are_told_with_where_to_look() -> None:
    """After a boot's time the pool's message names a machine without a Node, or one whose Node isn't Ready."""
    world = World.of(targetNodes=1)
    world.joins = False
    for _ in range(6):
        world.run()
        assert world.condition("Ready")["message"] == "0 of 1 nodes are ready"
        world.tick(seconds=40)
    world.run()
    instance, ready = world.instances["workers-1"]["status"], world.condition("Ready")
    assert ready["reason"] == "ScalingUp"
    assert ready["message"] == (
        f"0 of 1 nodes are ready; workers-1 was launched at {instance['launchTime']} and is no Node yet: "
        f"`aws ec2 get-console-output --latest --output text --instance-id {instance['instanceId']}` shows its boot"
    )
    world.joins = True
    world.tick()
    world.run()
    assert world.condition("Ready")["message"].endswith(
        "its Node node-workers-1 isn't Ready yet: `kubectl describe node node-workers-1` tells why"
    )
    world.tick()
    world.run()
    assert world.condition("Ready")["message"] == "1 of 1 nodes are ready"


def test_target_outside_of_its_limits_is_told() -> None:
    """A person who asks for more or fewer nodes than the limits allow reads which limit it was."""
    world = World.of(targetNodes=5, maxNodes=2)
    world.settle()
    ready = world.condition("Ready")
    assert (ready["status"], ready["message"]) == ("True", "2 of 2 nodes are ready (targetNodes is 5, above maxNodes)")
    world.pool["spec"].update(targetNodes=0, minNodes=1)
    world.settle()
    assert world.condition("Ready")["message"] == "1 of 1 nodes are ready (targetNodes is 0, below minNodes)"
