"""What an Autoscaler does while its API server doesn't say what there is: nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.autoscaler.scaling_scene import ScalingScene

NOT_THERE = b"404 page not found\n"
NO_KINDS = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "policy/v1", "resources": []}
READ = ("nodes", "pods", "daemonsets", "poddisruptionbudgets", "ec2instances", "nodepools")


async def test_list_that_is_answered_with_404_is_never_empty(scene: ScalingScene, tmp_path: Path) -> None:
    """Nodes, pods or budgets that can't be read neither raise nor lower a pool: the run fails and says which it was."""
    pool = await scene.pool(targetNodes=2)
    await scene.autoscaler(scaleDown={"unneededFor": "0s", "cooldown": "0s"})
    full = await scene.node("n1", pool=pool)
    await scene.node("n2", pool=pool)
    await scene.bound("a", node=full, memory="60Gi")
    await scene.pending("p1")
    async with HttpFaultProxy(upstream_kubeconfig=scene.bench.kubeconfig) as proxy:
        through = scene.on(replace(scene.bench, kubeconfig=proxy.kubeconfig(tmp_path / "through")))
        for plural in READ:
            missing = proxy.rule(Rule(method="GET", path=rf"/{plural}(\?|$)", status=404, body=NOT_THERE))
            run = await through.bench.run()
            missing.cancel()
            assert (plural, run.ok, run.ready["reason"]) == (plural, False, "ReadFailed"), run.output[-3000:]
            assert "404 page not found" in run.ready["message"]
            assert (await scene.target(), missing.hits) == (2, 1)
        proxy.rule(Rule(method="GET", path="/apis/policy/v1$", status=200, body=NO_KINDS))
        unserved = await through.bench.run()
        assert (unserved.ok, unserved.ready["reason"]) == (False, "ReadFailed")
        assert "the API server serves no PodDisruptionBudget of policy/v1" in unserved.ready["message"]
    assert await scene.target() == 2
