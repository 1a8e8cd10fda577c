"""A person and the Autoscaler set a NodePool's target while it is being provisioned: nothing is lost, in this order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import yaml

from runner.localdev.ec2.server import Ec2Emulator
from runner.testing.cluster import install_crd, wait_until
from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.autoscaler.scaling_scene import AUTOSCALER, ScalingScene
from tests.content.ec2_instance.role_harness import ROOT, Bench
from tests.content.node_pool.pool_bench import PoolSite
from tests.operators.conftest import StartFor
from tests.operators.time_line import TimeLine, followed

WAITING = ("p1", "p2", "p3", "p4")
"""Three of them fit on a machine of the pool."""
STATUS = r"/nodepools/workers/status(\?|$)"


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own: a machine must not vanish because another test resets it."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.mark.timeout(600)
async def test_a_target_that_is_raised_during_a_run_is_kept_and_reached(
    site: PoolSite, bench: Bench, start_for: StartFor
) -> None:
    """The outcome of the person's edit meets the Autoscaler's: the pool is read again, and one further run ends it."""
    await install_crd(bench.kube, yaml.safe_load((ROOT / "crds" / "autoscalers.yaml").read_text()))
    scene = ScalingScene(bench=replace(bench, subject=AUTOSCALER))
    async with HttpFaultProxy(upstream_kubeconfig=bench.kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(bench.folder / "proxy.kubeconfig")
        with start_for(replace(bench, kubeconfig=kubeconfig)) as start:
            start()
            await site.create(region="us-east-1", memoryGiB=96, targetNodes=0, labels=dict(scene.mine))
            await _until(site, generation=1, scale=("inactive", 0, 0))
            await scene.autoscaler(frequency="2s")
            async with followed(bench.kube, namespace=site.namespace, name="workers") as line:
                await _provoke(site, scene, proxy, line)
                await _finish(site, line)
            print(line)
    _check(line)


async def _provoke(site: PoolSite, scene: ScalingScene, proxy: HttpFaultProxy, line: TimeLine) -> None:
    """Let both edit, the Autoscaler between a run's end and the write of its outcome."""
    line.tell("a person sets targetNodes to 1")
    await site.patch(targetNodes=1)
    await wait_until(partial(_machine, site, "workers-1"), what="the machine", limit=200)
    outcome = proxy.rule(Rule(method="PUT", path=STATUS, hold=True))
    await outcome.wait_hit()
    line.tell("the run is over, its outcome is about to be written; four pods wait for a node")
    conflicts = _conflicts(proxy)
    await scene.pending(*WAITING)

    async def raised() -> bool:
        return await scene.target() == 2

    await wait_until(raised, what="the Autoscaler to raise the pool", limit=200)
    for pod in WAITING:
        await scene.delete(pod)
    line.tell("the Autoscaler has set targetNodes to 2; the outcome is written")
    outcome.cancel()
    await wait_until(partial(_later, proxy, conflicts), what="a conflict", limit=200)
    line.tell("HTTP 409 for the outcome: the pool is read again")


async def _finish(site: PoolSite, line: TimeLine) -> None:
    """Play the machines' kubelets until the pool rests."""
    for name in ("workers-1", "workers-2"):
        await wait_until(partial(site.runs, name), what=name, limit=200)
        await site.registered(name)
        await site.set_ready(name, ready=True)
        line.tell(f"{name} is a Ready node")
    await _until(site, generation=3, scale=("inactive", 2, 2))


def _check(line: TimeLine) -> None:
    """Assert the order of what was seen."""
    states = line.states
    assert [one.target for one in states] == sorted(one.target for one in states)
    assert {(one.generation, one.target) for one in states} == {(1, 0), (2, 1), (3, 2)}
    (written, *_) = [one for one in states if one.generation == 3 and one.run == "Successful"]
    assert (written.target, written.seen, written.scale) == (2, 2, "active")
    asked = states.index(next(one for one in states if one.seen == 2))
    assert [one.scale for one in states[asked:]] == ["active"] * (len(states) - asked - 1) + ["inactive"]
    assert (states[-1].seen, states[-1].nodes) == (3, (2, 2))


def _conflicts(proxy: HttpFaultProxy) -> int:
    """Return how many writes of the pool's status met a conflict so far."""
    return sum(bool(re.search(STATUS, one.path)) for one in proxy.conflicts)


async def _later(proxy: HttpFaultProxy, before: int) -> bool:
    return _conflicts(proxy) > before


async def _machine(site: PoolSite, name: str) -> bool:
    return name in await site.instances()


async def _until(site: PoolSite, *, generation: int, scale: tuple[str, int, int]) -> None:
    """Wait for a status, while the kubelets go on telling how they are."""

    async def held() -> bool:
        await site.beat()
        status = (await site.get()).get("status") or {}
        found = (status.get("scaleOperation"), status.get("currentNodes"), status.get("readyNodes"))
        return found == scale and status.get("observedGeneration") == generation

    await wait_until(held, what=f"the status of generation {generation}", limit=300)
