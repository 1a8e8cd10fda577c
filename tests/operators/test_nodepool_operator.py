"""NodePool under the whole operator, with EC2Instance's own role and the EC2 emulator; a test plays the kubelets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.errors import NotFound
from runner.kube.objects import conditions_of
from runner.localdev.ec2.server import Ec2Emulator
from runner.testing.cluster import wait_until
from tests.content.ec2_instance.role_harness import Bench
from tests.content.node_pool.pool_bench import NODE_POOLS, PoolSite
from tests.operators.conftest import StartOperator


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own: a machine must not vanish because another test resets it."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.mark.timeout(600)
async def test_pool_grows_notices_its_nodes_and_goes(site: PoolSite, bench: Bench, start: StartOperator) -> None:
    """A target becomes a machine, a Node's readiness starts a run at once, and a deleted pool ends its machine last."""
    start()
    await site.create(region="us-east-1", instanceType="t3.micro", targetNodes=1)
    await wait_until(lambda: site.runs("workers-1"), what="the machine", limit=200)
    instance = (await site.instances())["workers-1"]["status"]
    assert [one.state for one in bench.aws.instances() if one.id == instance["instanceId"]] == ["running"]

    await site.registered("workers-1")
    await wait_until(lambda: _labelled(site), what="the Node's labels", limit=200)
    await site.set_ready("workers-1", ready=True)
    await wait_until(lambda: _is(site, scaleOperation="inactive", readyNodes=1), what="rest", limit=200)
    # Long before the period of two minutes: the Node says whose it is.
    await site.set_ready("workers-1", ready=False)
    await wait_until(lambda: _is(site, scaleOperation="inactive", readyNodes=0), what="the run", limit=200)
    ready = next(item for item in conditions_of(await site.get()) if item["type"] == "Ready")
    assert ready["reason"] == "NodesNotReady"

    await site.kube.delete(NODE_POOLS, namespace=site.namespace, name="workers")
    await wait_until(lambda: _gone(site), what="the pool to go", limit=200)
    assert [one.state for one in bench.aws.instances() if one.id == instance["instanceId"]] == ["terminated"]
    with pytest.raises(NotFound):
        await site.node("workers-1")


async def _labelled(site: PoolSite) -> bool:
    labels = (await site.node("workers-1"))["metadata"].get("labels") or {}
    return labels.get("aws.ansible-operator.io/nodepool") == "workers"


async def _is(site: PoolSite, **wanted: object) -> bool:
    status = (await site.get()).get("status") or {}
    return wanted.items() <= status.items()


async def _gone(site: PoolSite) -> bool:
    return not await site.kube.list(NODE_POOLS, namespace=site.namespace)
