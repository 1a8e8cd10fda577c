"""Which machines a NodePool launches where AWS refuses, and which it gives up."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.plugins.cluster_builders import ago
from tests.unit.plugins.pool_world import World, kinds, make_instance_object, not_ready

ICE = "InsufficientInstanceCapacity"


@pytest.mark.parametrize(("ending", "created"), [(0, 2), (1, 2), (2, 1), (3, 0)])
def test_machines_that_are_still_ending_count(ending: int, created: int) -> None:
    """Never are there more machines than wanted and one, those on their way out included (N1)."""
    world = World.of(targetNodes=2)
    for number in range(ending):
        metadata = {"deletionTimestamp": ago(1)}
        world.instances[f"workers-{number}"] = make_instance_object(
            f"workers-{number}", metadata=metadata, instanceId=f"i-{number}"
        )
    assert kinds(world) == ["Create"] * created


def test_next_offering_is_tried() -> None:
    """Where AWS lacks the preferred type in one subnet, another subnet and then another type is taken (N1)."""
    world = World.of(targetNodes=3, instanceTypes=["c5.large"], subnetIds=["subnet-a", "subnet-b"])
    world.launch = lambda spec: ICE if spec["subnetId"] == "subnet-a" and spec["instanceType"] == "m5.large" else ""
    world.settle(runs=12)
    assert world.pool["status"]["readyNodes"] == 3
    assert {item["spec"]["subnetId"] for item in world.instances.values()} == {"subnet-b"}
    assert world.condition("CapacityUnavailable")["status"] == "False"
    only = World.of(targetNodes=1, instanceTypes=["c5.large"])
    only.launch = lambda spec: ICE if spec["instanceType"] == "m5.large" else ""
    only.settle(runs=8)
    assert [item["spec"]["instanceType"] for item in only.instances.values()] == ["c5.large"]


def test_no_capacity_anywhere() -> None:
    """Partial success is kept, attempts are few and rarer, the condition says why, and it recovers by itself (N1)."""
    world = World.of(targetNodes=3)
    world.launch = lambda _spec: ICE if len([kind for kind, _ in world.log if kind == "RunInstances"]) >= 2 else ""
    world.settle(runs=20)
    assert (world.pool["status"]["readyNodes"], world.condition("CapacityUnavailable")["status"]) == (2, "True")
    assert "AWS has no capacity for m5.large" in world.condition("Ready")["message"]
    assert world.pool["status"]["scaleOperation"] == "active"
    before = len(world.log)
    world.settle(runs=90, seconds=40)
    attempts = len([kind for kind, _ in world.log[before:] if kind == "Create"])
    assert 1 <= attempts <= 5
    world.launch = lambda _spec: ""
    world.settle(runs=90, seconds=40)
    assert (world.pool["status"]["readyNodes"], world.condition("CapacityUnavailable")["status"]) == (3, "False")
    assert "shortages" not in world.pool["status"]


def test_one_machine_tries_whether_capacity_is_back() -> None:
    """After its pause an offering is tried by one machine, and by all once that one was launched (N1)."""
    world = World.of(targetNodes=3)
    entry = {"instanceType": "m5.large", "subnetId": "", "failures": 1, "since": ago(600), "until": ago(60)}
    world.pool["status"]["shortages"] = [entry]
    assert kinds(world) == ["Create"]
    world.tick()
    assert kinds(world) == ["Create", "Create"]


def test_pool_without_capacity_can_be_lowered() -> None:
    """A pool that AWS gives nothing still lets go of everything (N1)."""
    world = World.of(targetNodes=3)
    world.launch = lambda _spec: ICE
    world.settle(runs=3)
    world.finalizing = True
    world.settle(runs=5)
    assert world.instances == {}


@pytest.mark.parametrize("reason", ["InvalidAMIIDNotFound", "AuthFailure", "VcpuLimitExceeded", "SecretNotFound"])
def test_other_failures_are_not_treated_like_missing_capacity(reason: str) -> None:
    """A wrong image, missing rights or a quota leads to no other offering and no new object, but is told (N1)."""
    world = World.of(targetNodes=1, instanceTypes=["c5.large"])
    world.launch = lambda _spec: reason
    world.settle(runs=10)
    assert list(world.instances) == ["workers-1"]
    assert world.condition("Ready")["reason"] == reason
    assert world.condition("Ready")["message"] == "0 of 1 nodes are ready; workers-1: as AWS says"
    assert "shortages" not in world.pool["status"]


def test_machine_that_ended_from_outside_is_its_ec2instance_s_business() -> None:
    """While an EC2Instance replaces its machine, the pool launches none and calls no launch failed."""
    world = World.of(targetNodes=1)
    ended = make_instance_object(instanceId="i-1", state="terminated", conditions=not_ready("Unknown"), launchAttempt=1)
    world.instances["workers-1"] = ended
    assert kinds(world) == []
    assert world.pool["status"]["nodes"] == [{"name": "workers-1", "instanceId": "i-1", "phase": "Launching"}]
    ended["status"]["conditions"] = not_ready(ICE)
    assert "Delete" in kinds(world)


def test_failed_launch_is_made_anew_after_the_pool_was_mended() -> None:
    """Once the image is corrected, the failed EC2Instance is replaced by one with the new image."""
    world = World.of(targetNodes=1, imageId="ami-wrong")
    world.launch = lambda spec: "InvalidAMIIDNotFound" if spec["imageId"] == "ami-wrong" else ""
    world.settle(runs=3)
    world.pool["spec"]["imageId"] = "ami-right"
    world.settle(runs=8)
    assert world.pool["status"]["readyNodes"] == 1


def test_machine_that_never_registers_is_replaced_with_growing_delay() -> None:
    """It's terminated, then replaced, each time later, and never are there more machines than wanted and one (N1)."""
    world = World.of(targetNodes=2, registrationTimeout="2m")
    world.joins = False
    created: list[float] = []
    for _ in range(120):
        before = len(world.instances)
        world.run()
        if len(world.instances) > before:
            created.append(world.now.timestamp())
        world.tick(seconds=15)
    gaps = [later - earlier for earlier, later in itertools.pairwise(created)]
    pauses = [gap for gap in gaps if gap > 60]
    assert len(pauses) >= 3
    assert pauses == sorted(pauses)
    assert pauses[-1] > 2 * pauses[0]
    assert world.most <= 3
    assert world.condition("Ready")["reason"] in {"RegistrationFailed", "ScalingUp"}
    world.joins = True
    world.settle(runs=90, seconds=40)
    assert world.pool["status"]["readyNodes"] == 2
    assert "registrationFailures" not in world.pool["status"]
