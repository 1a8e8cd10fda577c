"""NodePool's scale-down, killed at each step: cordon before eviction before termination, whatever the moment."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest

from runner.localdev.ec2.server import Ec2Emulator
from runner.testing.cluster import wait_until
from tests.content.ec2_instance.role_harness import Bench
from tests.content.node_pool.pool_bench import PODS, PoolSite
from tests.operators.conftest import StartFor
from tests.operators.crash_gate import CrashGate

CORDONED = r"^PATCH /api/v1/nodes/\S+ .*unschedulable"
EVICTED = r"^POST /api/v1/namespaces/\S+/pods/load/eviction"
DELETED = r"^DELETE \S+/ec2instances/workers-1"
TERMINATED = r"^AWS TerminateInstances"
_BEAT = 5.0
"""Seconds between two signs of life of a kubelet."""


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own: a machine must not vanish because another test resets it."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.mark.full
@pytest.mark.timeout(1200)
async def test_a_drain_that_is_killed_at_each_step_keeps_its_order(
    site: PoolSite, bench: Bench, gated: tuple[Bench, CrashGate], start_for: StartFor
) -> None:
    """The operator is killed after the cordon, the eviction, the deletion and the termination; the next one goes on."""
    seen, gate = gated
    with start_for(seen) as start:
        operator = start()
        await site.create(region="us-east-1", instanceType="t3.micro", targetNodes=1)
        await _join(site)
        await site.put_pod("load", node="workers-1")
        await _until(site, partial(_rests, site, 1), what="rest")
        for pattern in (CORDONED, EVICTED, DELETED, TERMINATED):
            gate.arm(re.compile(pattern, re.DOTALL).search)
            if pattern == CORDONED:
                await site.patch(targetNodes=0)
            await _until(site, partial(_reached, gate), what=pattern)
            operator.kill()
            await _check(site, bench, pattern=pattern)
            operator = start()
            gate.disarm()
            if pattern == EVICTED:
                await site.pod_goes("load")
        await _until(site, partial(_rests, site, 0), what="the end")
    assert [one.state for one in bench.aws.instances()] == ["terminated"]


async def _check(site: PoolSite, bench: Bench, *, pattern: str) -> None:
    """Assert what must be true before the step that was just carried out."""
    node = await site.node("workers-1")
    pods = await site.kube.list(PODS, namespace=site.namespace)
    (instance,) = bench.aws.instances()
    assert node["spec"].get("unschedulable") is True
    if pattern in {CORDONED, EVICTED}:
        assert (instance.state, [pod["metadata"]["name"] for pod in pods]) == ("running", ["load"])
        assert "deletionTimestamp" not in (await site.instances())["workers-1"]["metadata"]
    else:
        assert pods == []
    assert instance.state == "running" or pattern == TERMINATED


async def _join(site: PoolSite) -> None:
    """Let the machine that the operator launches become a Node."""
    await wait_until(partial(site.runs, "workers-1"), what="the machine", limit=200)
    await site.registered("workers-1")
    await site.set_ready("workers-1", ready=True)


async def _until(site: PoolSite, condition: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Wait for *condition* while the kubelets go on telling how they are."""
    beaten = 0.0

    async def held() -> bool:
        nonlocal beaten
        if time.monotonic() - beaten > _BEAT:
            await site.beat()
            beaten = time.monotonic()
        return await condition()

    await wait_until(held, what=what, limit=300)


async def _reached(gate: CrashGate) -> bool:
    return gate.reached.is_set()


async def _rests(site: PoolSite, nodes: int) -> bool:
    status = (await site.get()).get("status") or {}
    return (status.get("scaleOperation"), status.get("currentNodes"), status.get("readyNodes")) == (
        "inactive",
        nodes,
        nodes,
    )
