"""A pool that shrinks or goes: cordon, then evict, then terminate, whatever happens between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.errors import NotFound
from runner.testing.cluster import SECRETS
from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.ec2_instance.role_harness import EC2_INSTANCES
from tests.content.node_pool.pool_bench import BUDGETS, NODES, REMOVING, PoolBench

EVICTING = "aws.ansible-operator.io/evicting-since"
MIRROR = {"kubernetes.io/config.mirror": "1"}


async def test_scale_down_is_cordon_evict_terminate_across_restarts(bench: PoolBench) -> None:
    """Each step waits for the one before, a budget's 429 is told and tried again, no lost status skips a step (N3)."""
    await bench.grown(2)
    await bench.put_pod("web", node="workers-2")
    await bench.put_pod("static", node="workers-2", annotations=MIRROR)
    await bench.put_pod("busy", node="workers-1", memory="2Gi")
    await bench.guard("web")
    await bench.scale(1)

    cordoned = await bench.run()
    assert cordoned.ok, cordoned.output[-3000:]
    node = await bench.node("workers-2")
    assert node["spec"]["unschedulable"] is True
    assert REMOVING in node["metadata"]["annotations"]
    assert "unschedulable" not in (await bench.node("workers-1"))["spec"]
    assert await bench.going_pods() == []

    await bench.scale(2)
    kept = await bench.run()
    node = await bench.node("workers-2")
    assert (kept.scale, "unschedulable" in node["spec"]) == (("active", 2, 1), False)
    assert REMOVING not in node["metadata"]["annotations"]
    before = await bench.patch(targetNodes=1)
    await bench.run()

    # As if the operator had ended before the status was written: the object is as it was before the first run.
    blocked = await bench.run(obj=before)
    assert (blocked.ok, blocked.ready["reason"], blocked.period) == (True, "DrainBlocked", 5.0)
    assert f"{bench.namespace}/web can't be evicted: Cannot evict pod" in blocked.ready["message"]
    assert "budget web" in blocked.ready["message"]
    assert "is draining" in blocked.condition("ScalingDown")["message"]
    assert (await bench.going_pods(), sorted(await bench.instances())) == ([], ["workers-1", "workers-2"])

    await bench.kube.delete(BUDGETS, namespace=bench.namespace, name="web")
    evicting = await bench.run(obj=before)
    assert (evicting.ok, await bench.going_pods()) == (True, ["web"])
    waiting = await bench.run(obj=before)
    assert (waiting.ok, sorted(await bench.instances())) == (True, ["workers-1", "workers-2"])
    await bench.pod_goes("web")
    ended = await bench.run(obj=before)
    assert (ended.ok, sorted(await bench.instances())) == (True, ["workers-1"])
    assert [item["name"] for item in ended.status["terminations"]] == ["workers-2"]
    rests = await bench.run()
    assert rests.scale == ("inactive", 1, 1)
    assert {"Cordoned", "Uncordoned", "Terminating", "NodeRemoved", "DrainBlocked"} <= await bench.events()


async def test_finalizer_drains_then_terminates(bench: PoolBench) -> None:
    """The finalizer's playbook is repeated until nodes are drained, machines gone, Nodes removed, without a token."""
    await bench.grown(1)
    await bench.put_pod("web", node="workers-1")
    await bench.kube.delete(SECRETS, namespace=bench.namespace, name="join")
    cordoned = await bench.run(finalizing=True)
    assert cordoned.ok, cordoned.output[-3000:]
    assert ((await bench.node("workers-1"))["spec"]["unschedulable"], cordoned.period) == (True, 5.0)
    evicting = await bench.run(finalizing=True)
    assert (await bench.going_pods(), evicting.period) == (["web"], 5.0)
    await bench.pod_goes("web")
    held = {"metadata": {"finalizers": ["tests.example.com/terminating"]}}
    await bench.kube.patch(EC2_INSTANCES, namespace=bench.namespace, name="workers-1", body=held)
    terminating = await bench.run(finalizing=True)
    assert (terminating.phases, terminating.period) == ({"workers-1": "Draining"}, 5.0)
    assert "deletionTimestamp" in (await bench.instances())["workers-1"]["metadata"]
    still = await bench.run(finalizing=True)
    assert (still.phases, still.period) == ({"workers-1": "Terminating"}, 5.0)
    gone = {"metadata": {"finalizers": None}}
    await bench.kube.patch(EC2_INSTANCES, namespace=bench.namespace, name="workers-1", body=gone)
    last = await bench.run(finalizing=True)
    assert (last.ok, last.period, await bench.instances()) == (True, 0.0, {})
    with pytest.raises(NotFound):
        await bench.node("workers-1")


async def test_retained_machines_stay_with_a_pool_that_goes(bench: PoolBench) -> None:
    """With deletionPolicy Retain nothing is cordoned; EC2Instances, which go with the pool, leave their machines."""
    await bench.grown(2)
    await bench.patch(deletionPolicy="Retain", targetNodes=1)
    run = await bench.run(finalizing=True)
    assert (run.ok, run.period) == (True, 0.0), run.output[-3000:]
    policies = {item["spec"]["deletionPolicy"] for item in (await bench.instances()).values()}
    assert policies == {"Retain"}
    assert "unschedulable" not in (await bench.node("workers-2"))["spec"]
    assert "Retained" in await bench.events()
    # A pool that only shrinks ends its machines, whatever becomes of the others one day.
    for _ in range(2):
        run = await bench.run()
    ended = await bench.run()
    assert (ended.ok, len(await bench.instances())) == (True, 1)


async def test_one_refused_eviction_keeps_nothing_else_from_going(bench: PoolBench, tmp_path: Path) -> None:
    """A 403 for one pod is told, while the other nodes are drained and ended."""
    await bench.grown(2, maxUnavailable=2)
    await bench.put_pod("web", node="workers-1")
    await bench.put_pod("db", node="workers-2")
    await bench.scale(0)
    await bench.run()
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        through = replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through"))
        proxy.rule(Rule(method="POST", path="/pods/web/eviction", status=403))
        run = await through.run()
        assert (run.ok, run.ready["reason"]) == (True, "EvictionRefused"), run.output[-3000:]
        assert f"{bench.namespace}/web can't be evicted" in run.ready["message"]
        assert await bench.going_pods() == ["db"]
        assert all([EVICTING in (await bench.node(name))["metadata"]["annotations"] for name in bench.kubelets])
        await bench.pod_goes("db")
        assert (await through.run()).ok
    assert list(await bench.instances()) == ["workers-1"]
    assert "EvictionRefused" in await bench.events()


async def test_drain_timeout_counts_from_the_first_eviction(bench: PoolBench) -> None:
    """However long the operator was away after the cordon, pods are evicted before their time is over."""
    await bench.grown(1, drainTimeout="1s")
    await bench.put_pod("web", node="workers-1")
    await bench.scale(0)
    await bench.run()
    long_ago = {"metadata": {"annotations": {REMOVING: "2026-01-01T00:00:00Z"}}}
    await bench.kube.patch(NODES, name=bench.node_name("workers-1"), body=long_ago)
    evicting = await bench.run()
    assert (evicting.ok, await bench.going_pods()) == (True, ["web"])
    assert list(await bench.instances()) == ["workers-1"]
    assert EVICTING in (await bench.node("workers-1"))["metadata"]["annotations"]
    over = {"metadata": {"annotations": {EVICTING: "2026-01-01T00:00:00Z"}}}
    await bench.kube.patch(NODES, name=bench.node_name("workers-1"), body=over)
    assert (await bench.run()).ok
    assert await bench.instances() == {}


async def test_pods_of_a_node_that_was_deleted_are_waited_for(bench: PoolBench) -> None:
    """A machine whose Node somebody deleted ends when no pod is bound to that any more."""
    await bench.grown(1)
    await bench.run()
    await bench.put_pod("web", node="workers-1")
    await bench.kube.delete(NODES, name=bench.node_name("workers-1"))
    await bench.scale(0)
    evicting = await bench.run()
    assert (evicting.ok, await bench.going_pods()) == (True, ["web"]), evicting.output[-3000:]
    assert (evicting.phases, list(await bench.instances())) == ({"workers-1": "Lost"}, ["workers-1"])
    assert (await bench.run()).phases == {"workers-1": "Lost"}
    await bench.pod_goes("web")
    assert (await bench.run()).ok
    assert await bench.instances() == {}


async def test_machine_without_id_and_new_credentials(bench: PoolBench) -> None:
    """What AWS was asked for is waited for until its id is known; meanwhile new credentials reach it."""
    await bench.create(targetNodes=0)
    await bench.machine("workers-1")
    await bench.set_status("workers-1", launchAttempt=1)
    await bench.patch(credentialsSecretRef={"name": "new"})
    waiting = await bench.run()
    assert (waiting.ok, waiting.period) == (True, 5.0), waiting.output[-3000:]
    (instance,) = (await bench.instances()).values()
    assert instance["spec"]["credentialsSecretRef"] == {"name": "new"}
    assert "its instance id isn't known yet" in waiting.condition("ScalingDown")["message"]
    await bench.launched("workers-1")
    assert (await bench.run()).ok
    assert await bench.instances() == {}
