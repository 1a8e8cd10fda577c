"""What makes pools grow, and what doesn't: pods without room, and pods that no node would help."""

from __future__ import annotations

import pytest

from runner.localdev.ec2.faults import Fault
from tests.content.autoscaler.scaling_scene import NODE_POOLS, NODES, UNSCHEDULABLE, ScalingScene, left_out, moves


async def test_pods_without_room_raise_the_pool_and_others_are_told(scene: ScalingScene) -> None:
    """Two pods of 28 GiB raise a pool of 96 GiB from 0 to 1, four to 2, and pods that no node helps to nothing (A1)."""
    await scene.pool()
    await scene.autoscaler()
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    await scene.pending("claims", volumes=[claim])
    await scene.pending("picky", nodeSelector={"team": "nobody"})
    await scene.bound("held", node="elsewhere", phase="Pending", memory="28Gi")
    await scene.pending("p1", "p2")
    first = await scene.run()
    assert await scene.target() == 1
    assert (moves(first), first.status["lastDecision"]) == ([(0, 1)], "workers 0 -> 1")
    assert (first.status["pendingPods"], first.status["unschedulablePods"]) == (5, 2)
    assert left_out(first) == {
        "claims": "its volume claim nowhere doesn't exist",
        "picky": "no pool satisfies its node selector team=nobody",
        "held": "it's bound to the node elsewhere already and waits for something else than room",
    }
    assert first.status["lastScaleUpTime"] == first.status["lastEvaluationTime"]
    assert [call.action for call in first.calls] == ["DescribeInstanceTypes"]
    assert (first.ready["status"], first.ready["reason"], await scene.bench.events()) == (
        "True",
        "Evaluated",
        ["ScaledUp"],
    )
    assert '"period": "5m"' in first.output
    pool = await scene.kube.get(NODE_POOLS, namespace=scene.namespace, name="workers")
    writers = {(item["manager"], item.get("subresource", "")) for item in pool["metadata"]["managedFields"]}
    assert ("aws-autoscaler", "scale") in writers

    again = await scene.run()  # the node is on its way, and AWS was asked already
    assert (await scene.target(), again.changed, list(again.calls)) == (1, 0, [])
    moved = {key for key in {*first.status, *again.status} if first.status.get(key) != again.status.get(key)}
    assert moved <= {"lastEvaluationTime", "lastCheckedAt"}

    await scene.pending("p3", "p4")
    more = await scene.run()
    assert (await scene.target(), moves(more)) == (2, [(0, 1), (1, 2)])
    assert more.status["decisions"][-1]["why"].startswith("room for 1 pod: ")


async def test_limits_of_growth(scene: ScalingScene) -> None:
    """With dryRun only the status tells, then no more nodes come at once than allowed, and none in the cooldown."""
    await scene.pool()
    await scene.autoscaler(dryRun=True, frequency="1h30m", scaleUp={"maxNodesPerStep": 1, "cooldown": "1h"})
    await scene.pending(*(f"p{number}" for number in range(4)))
    dry = await scene.run()
    assert (await scene.target(), moves(dry), dry.status["decisions"][0]["dryRun"]) == (0, [(0, 1)], True)
    assert ("lastScaleUpTime" in dry.status, await scene.bench.events()) == (False, ["DryRun"])
    assert '"period": "1h30m"' in dry.output

    await scene.bench.patch(dryRun=False)
    first = await scene.run()
    assert (await scene.target(), moves(first)) == (1, [(0, 1), (0, 1)])
    assert list(left_out(first).values()) == [
        "this evaluation already adds 1 nodes (maxNodesPerStep); the next one goes on"
    ]
    cooling = await scene.run()
    assert await scene.target() == 1
    (reason,) = left_out(cooling).values()
    assert reason.startswith("cooling down after the last scale-up until ")


async def test_a_pool_of_which_nothing_is_known_waits_for_aws(scene: ScalingScene) -> None:
    """What AWS refuses to tell is a condition with its code; pools that say it themselves are served all the same."""
    await scene.pool(memoryGiB=None)
    await scene.pool("stated", cpu=4, memoryGiB=4)
    await scene.autoscaler(nodePools=["workers", "stated"])
    await scene.pending("small", memory="3Gi")
    await scene.pending("large", memory="6Gi")
    scene.bench.aws.add_fault(
        Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", message="no", times=1)
    )
    blind = await scene.run()
    assert (await scene.target("stated"), await scene.target()) == (1, 0)
    assert (blind.ready["status"], blind.ready["reason"]) == ("False", "UnauthorizedOperation")
    assert "pool workers: AWS answered UnauthorizedOperation: no (request id " in blind.ready["message"]
    assert left_out(blind)["large"].startswith("nobody knows what nodes of pool workers offer: AWS answered")

    seen = await scene.run()
    assert (await scene.target(), seen.ready["reason"]) == (1, "Evaluated")
    assert seen.status["catalogue"]["instanceTypes"] == [
        {"name": "m5.large", "cpu": 2, "memoryMiB": 8192, "architecture": "amd64"}
    ]


async def test_launches_that_aws_refuses_are_not_coming(scene: ScalingScene) -> None:
    """A machine over a quota is nobody's room: another pool grows, and the condition has AWS's words."""
    pool = await scene.pool(targetNodes=1, memoryGiB=32)
    await scene.pool("other")
    await scene.autoscaler(nodePools=["workers", "other"])
    await scene.refused("workers-1", pool=pool, reason="VcpuLimitExceeded")
    await scene.pending("p1")
    run = await scene.run()
    assert (await scene.target(), await scene.target("other")) == (1, 1)
    assert (run.ready["status"], run.ready["reason"]) == ("False", "LaunchRefused")
    assert run.ready["message"] == "pool workers: workers-1: AWS answered VcpuLimitExceeded: no"


async def test_growth_that_does_not_help_is_not_repeated(scene: ScalingScene) -> None:
    """A node that is smaller than the pool says costs one machine, also once it has gone; then the pod is left out."""
    pool = await scene.pool()
    await scene.autoscaler(scaleDown={"enabled": False})
    await scene.pending("p1")
    await scene.run()
    node = await scene.node("n1", pool=pool, memory="20Gi")
    why = f"{node} is too small for it: it asks for 28Gi memory, a node has 20Gi memory"
    in_vain = await scene.run()
    assert (await scene.target(), in_vain.ready["reason"]) == (1, "GrowthDidNotHelp")
    assert in_vain.ready["message"].startswith(f"pool workers was grown for {scene.namespace}/p1, and {why}; ")
    await scene.kube.delete(NODES, name=node)
    await scene.set_target(0)
    again = await scene.run()
    assert (await scene.target(), moves(again)) == (0, [(0, 1)])
    assert left_out(again) == {"p1": f"a pool was grown for such a pod already, and {why}"}


async def test_an_older_autoscaler_keeps_its_pool(scene: ScalingScene) -> None:
    """Without a webhook the younger one of two that claim a pool leaves it alone and says so, as for a missing pool."""
    await scene.pool()
    await scene.autoscaler(name="a-first", scaleUp={"maxNodesPerStep": 1})
    await scene.autoscaler(name="b-second", nodePools=["workers"])
    await scene.pending("p1")
    second = await scene.run("b-second")
    assert (await scene.target(), second.ready["reason"]) == (0, "NodePoolClaimed")
    assert second.ready["message"] == "pool workers is the Autoscaler a-first's"
    assert left_out(second) == {"p1": "there is no pool to grow"}
    await scene.bench.patch("b-second", nodePools=["gone"])
    missing = await scene.run("b-second")
    assert (missing.ready["status"], missing.ready["reason"]) == ("False", "NodePoolNotFound")


@pytest.mark.parametrize("watched", ["", "elsewhere"])
async def test_pods_of_the_index_are_taken_where_it_has_them(scene: ScalingScene, watched: str) -> None:
    """A run takes pending pods from the handlers' index, but lists them where it has other namespaces only."""
    await scene.pool()
    await scene.autoscaler()
    await scene.pending("listed")
    pod = {
        "metadata": {"namespace": scene.namespace, "name": "indexed", "uid": "1"},
        "spec": {"containers": [{"resources": {"requests": {"memory": "28Gi"}}}], "nodeSelector": dict(scene.mine)},
        "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
    }
    values = {"ansible_operator_handlers": {"pending_pods": [pod]}, "autoscaler_watched": [watched] if watched else []}
    run = await scene.on(scene.bench.with_variables(**values)).run()
    told = run.status["decisions"][0]["why"]
    assert told == f"room for 1 pod: {scene.namespace}/{'listed' if watched else 'indexed'}"
