"""A pool that grows: machines, user data, Nodes; what AWS refuses; what others have."""

from __future__ import annotations

import base64

import yaml

from runner.testing.cluster import SECRETS
from tests.content.ec2_instance.role_harness import EC2_INSTANCES
from tests.content.node_pool.pool_bench import TOKEN, PoolBench

ICE = "InsufficientInstanceCapacity"
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


async def test_pool_grows_to_its_target_and_rests(bench: PoolBench) -> None:
    """From 0 to 2: EC2Instances, then Nodes with labels, taints, owner, then rest, in which a run changes nothing."""
    await bench.create(labels={"team": "a"}, taints=[TAINT], diskSizeGiB=50)
    await bench.scale(2)
    first = await bench.run()
    assert first.ok, first.output[-3000:]
    assert (first.scale, first.period) == (("active", 0, 0), 5.0)
    assert first.condition("ScalingUp")["status"] == "True"
    instances = await bench.instances()
    assert list(instances) == ["workers-1", "workers-2"]
    assert TOKEN not in str(instances)
    assert TOKEN not in first.output
    assert instances["workers-1"]["spec"]["userDataSecretRef"]["name"] == "workers-user-data"
    await _check_user_data(bench)

    for name in instances:
        await bench.launched(name)
    assert (await bench.run()).scale == ("active", 2, 0)
    await bench.joined("workers-1", ready=False)
    await bench.joined("workers-2", ready=True)
    joining = await bench.run()
    assert joining.phases == {"workers-1": "Joining", "workers-2": "Ready"}
    for name in instances:
        node = await bench.node(name)
        assert {"team": "a", "aws.ansible-operator.io/nodepool": "workers"}.items() <= node["metadata"][
            "labels"
        ].items()
        assert node["metadata"]["annotations"]["operator-sdk/primary-resource"] == f"{bench.namespace}/workers"
        assert TAINT in node["spec"]["taints"]
    await bench.set_ready("workers-1", ready=True)
    rests = await bench.run()
    assert (rests.scale, rests.ready["status"], rests.period) == (("inactive", 2, 2), "True", 0.0)
    assert "lastScaleTime" in rests.status

    again = await bench.run()
    assert (again.ok, again.changed, again.period) == (True, 0, 0.0)
    moved = {key for key in {*rests.status, *again.status} if rests.status.get(key) != again.status.get(key)}
    assert moved <= {"lastCheckedAt"}
    assert {"ScalingUp", "AsWanted"} <= await bench.events()


async def _check_user_data(bench: PoolBench) -> None:
    secret = await bench.kube.get(SECRETS, namespace=bench.namespace, name="workers-user-data")
    assert [owner["kind"] for owner in secret["metadata"]["ownerReferences"]] == ["NodePool"]
    text = base64.b64decode(secret["data"]["userData"]).decode()
    assert text.startswith("#cloud-config\n")
    discovery = yaml.safe_load(yaml.safe_load(text)["write_files"][0]["content"])
    assert discovery["users"][0]["user"]["token"] == TOKEN


async def test_partial_capacity_is_kept_and_the_next_type_tried(bench: PoolBench) -> None:
    """What AWS has no capacity for gives way to the next type; never are there more than the target and one (N1)."""
    await bench.create(targetNodes=3, instanceTypes=["c5.large"])
    await bench.run()
    await bench.launched("workers-1")
    for name in ("workers-2", "workers-3"):
        await bench.refused(name, ICE)
        held = {"metadata": {"finalizers": ["tests.example.com/undecided"]}}
        await bench.kube.patch(EC2_INSTANCES, namespace=bench.namespace, name=name, body=held)
    second = await bench.run()
    instances = await bench.instances()
    assert list(instances) == ["workers-1", "workers-2", "workers-3", "workers-4"]
    assert instances["workers-4"]["spec"]["instanceType"] == "c5.large"
    assert "deletionTimestamp" not in instances["workers-1"]["metadata"]
    assert [item["instanceType"] for item in second.status["shortages"]] == ["m5.large"]
    assert second.condition("CapacityUnavailable")["status"] == "False"
    await bench.refused("workers-4", ICE)
    third = await bench.run()
    assert third.condition("CapacityUnavailable")["status"] == "True"
    assert (third.ready["reason"], third.status["currentNodes"], third.period) == ("CapacityUnavailable", 1, 5.0)
    for name in ("workers-2", "workers-3"):
        await bench.kube.patch(
            EC2_INSTANCES, namespace=bench.namespace, name=name, body={"metadata": {"finalizers": None}}
        )
    waiting = await bench.run()
    assert (list(await bench.instances()), waiting.period) == (["workers-1"], 60.0)
    assert "CapacityUnavailable" in await bench.events()


async def test_target_that_moves_during_a_run_keeps_the_pool_active(bench: PoolBench) -> None:
    """A run writes the generation that it saw, leaves the target, and says active until a run has met the new one."""
    seen = await bench.create(targetNodes=0)
    await bench.scale(2)
    first = await bench.run(obj=seen)
    assert (first.status["observedGeneration"], first.status["scaleOperation"], first.period) == (1, "active", 5.0)
    assert (await bench.get())["spec"]["targetNodes"] == 2
    assert await bench.instances() == {}
    second = await bench.run()
    assert (second.status["observedGeneration"], second.status["scaleOperation"]) == (2, "active")
    assert list(await bench.instances()) == ["workers-1", "workers-2"]


async def test_run_that_lost_its_status_creates_nothing_twice(bench: PoolBench) -> None:
    """A run for an older state of the pool adds no machine, and a name that is somebody else's is passed over."""
    body = {
        "apiVersion": EC2_INSTANCES.gvk.api_version,
        "kind": "EC2Instance",
        "metadata": {"name": "workers-1"},
        "spec": {"imageId": "ami-0c0ffee0000000001", "instanceType": "t3.micro"},
    }
    await bench.kube.create(EC2_INSTANCES, body=body, namespace=bench.namespace)
    created = await bench.create(targetNodes=1)
    first = await bench.run(obj=created)
    assert (first.ok, list(await bench.instances())) == (True, ["workers-1"])
    second = await bench.run()
    assert list(await bench.instances()) == ["workers-1", "workers-2"]
    again = await bench.run(obj=created)
    assert (second.ok, again.ok) == (True, True)
    instances = await bench.instances()
    assert list(instances) == ["workers-1", "workers-2"]
    assert instances["workers-1"]["spec"]["instanceType"] == "t3.micro"
    assert "ownerReferences" not in instances["workers-1"]["metadata"]


async def test_missing_token_is_told_and_nothing_is_launched(bench: PoolBench) -> None:
    """Without its token's Secret a pool launches nothing and says so; a person's template stays as it was written."""
    template = "#!/bin/sh\njoin {{ 6 * 7 }} ${server} ${token} ${other} {% raw %}"
    bootstrap = {"type": "custom", "server": "a:1", "tokenSecretRef": {"name": "join"}, "userDataTemplate": template}
    await bench.create(targetNodes=1, token="", bootstrap=bootstrap)
    run = await bench.run()
    assert (run.ok, run.ready["reason"], run.period) == (True, "SecretNotFound", 60.0)
    assert "there is no secret join" in run.ready["message"]
    assert await bench.instances() == {}
    assert "SecretNotFound" in await bench.events()
    await bench.put_token()
    assert (await bench.run()).ok
    secret = await bench.kube.get(SECRETS, namespace=bench.namespace, name="workers-user-data")
    text = base64.b64decode(secret["data"]["userData"]).decode()
    assert text == f"#!/bin/sh\njoin {{{{ 6 * 7 }}}} a:1 {TOKEN} ${{other}} {{% raw %}}"
    assert list(await bench.instances()) == ["workers-1"]


async def test_secret_of_somebody_else_is_never_written_to(bench: PoolBench) -> None:
    """A Secret that has the name of the pool's user data stays as it is until it goes, and the condition says so."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "workers-user-data"}, "data": {"key": "a2V5"}}
    theirs = await bench.kube.create(SECRETS, body=body, namespace=bench.namespace)
    await bench.create(targetNodes=1)
    run = await bench.run()
    assert (run.ok, run.ready["reason"], await bench.instances()) == (True, "UserDataSecretTaken", {})
    assert "delete it" in run.ready["message"]
    left = await bench.kube.get(SECRETS, namespace=bench.namespace, name="workers-user-data")
    assert left["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    await bench.kube.delete(SECRETS, namespace=bench.namespace, name="workers-user-data")
    assert (await bench.run()).ok
    await _check_user_data(bench)
    assert list(await bench.instances()) == ["workers-1"]
    await bench.kube.patch(
        SECRETS, namespace=bench.namespace, name="workers-user-data", body={"data": {"userData": "b2xk"}}
    )
    assert (await bench.run()).ok
    await _check_user_data(bench)
