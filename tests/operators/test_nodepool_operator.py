"""NodePool under the whole operator, with EC2Instance's own role and the EC2 emulator; a test plays the kubelets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import yaml

from runner.errors import NotFound
from runner.kube.objects import Object, conditions_of
from runner.localdev.ec2.server import Ec2Emulator
from runner.testing.cluster import install_crd, wait_until
from tests.content.ec2_instance.role_harness import ROOT, Bench
from tests.content.node_pool.pool_bench import NODE_POOLS, NODES, PoolSite
from tests.operators.conftest import StartOperator


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own: a machine must not vanish because another test resets it."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.fixture
async def site(bench: Bench) -> AsyncIterator[PoolSite]:
    """Give the pool's namespace; what is left is let go afterwards."""
    await install_crd(bench.kube, yaml.safe_load((ROOT / "crds" / "nodepools.yaml").read_text()))
    site = PoolSite(kube=bench.kube, namespace=bench.namespace)
    yield site
    await site.release()
    await site.clean()


@pytest.mark.timeout(600)
async def test_pool_grows_notices_its_nodes_and_goes(site: PoolSite, bench: Bench, start: StartOperator) -> None:
    """A target becomes a machine, a Node's readiness starts a run at once, and a deleted pool ends its machine last."""
    start()
    await site.create(region="us-east-1", instanceType="t3.micro", targetNodes=1)
    await wait_until(lambda: _launched(site), what="the machine", limit=200)
    instance = (await site.instances())["workers-1"]["status"]
    assert [one.state for one in bench.aws.instances() if one.id == instance["instanceId"]] == ["running"]

    provider = f"aws:///{instance['availabilityZone']}/{instance['instanceId']}"
    body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": site.node_name("workers-1")}}
    await site.kube.create(NODES, body={**body, "spec": {"providerID": provider}})
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


async def _launched(site: PoolSite) -> bool:
    instances = await site.instances()
    return any((item.get("status") or {}).get("state") == "running" for item in instances.values())


async def _labelled(site: PoolSite) -> bool:
    labels = (await site.node("workers-1"))["metadata"].get("labels") or {}
    return labels.get("aws.ansible-operator.io/nodepool") == "workers"


async def _is(site: PoolSite, **wanted: object) -> bool:
    status = (await site.get()).get("status") or {}
    return wanted.items() <= status.items()


async def _gone(site: PoolSite) -> bool:
    return not await site.kube.list(NODE_POOLS, namespace=site.namespace)
