"""Other writers of a pool's targetNodes, and an API server that refuses: no edit is lost, no decision told as done."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from runner.testing.faults import HttpFaultProxy, Rule
from tests.content.autoscaler.scaling_scene import AUTOSCALER, SCALER, ScalingScene, moves

SCALE = r"/nodepools/workers/scale"


async def test_an_edit_meanwhile_is_never_lost(scene: ScalingScene, tmp_path: Path) -> None:
    """Who edits targetNodes between read and write is obeyed: the run reads again, and adds only what is missing."""
    await scene.pool()
    await scene.autoscaler()
    await scene.pending(*(f"p{number}" for number in range(4)))
    async with HttpFaultProxy(upstream_kubeconfig=scene.bench.kubeconfig) as proxy:
        through = scene.on(replace(scene.bench, kubeconfig=proxy.kubeconfig(tmp_path / "through")))
        for edit, after, told in ((5, 5, []), (1, 2, [(1, 2)])):
            await scene.set_target(0)
            held = proxy.rule(Rule(method="PATCH", path=SCALE, times=1, hold=True))
            running = asyncio.create_task(through.run())
            await held.wait_hit()
            await scene.set_target(edit)
            held.release()
            run = await running
            assert (await scene.target(), moves(run), run.ready["reason"]) == (after, told, "Evaluated")


async def test_a_refused_write_is_told(scene: ScalingScene, tmp_path: Path) -> None:
    """A pool that changes at every try is tried again soon, and a right that is missing fails the run with its name."""
    await scene.pool()
    await scene.autoscaler()
    await scene.pending("p1")
    async with HttpFaultProxy(upstream_kubeconfig=scene.bench.kubeconfig) as proxy:
        bench = scene.bench.with_variables(autoscaler_rounds=2)
        through = scene.on(replace(bench, kubeconfig=proxy.kubeconfig(tmp_path / "through")))
        conflict = proxy.rule(Rule(method="PATCH", path=SCALE, status=409))
        busy = await through.run()
        assert (conflict.hits, await scene.target(), moves(busy)) == (2, 0, [])
        assert (busy.ready["reason"], "lastScaleUpTime" in busy.status) == ("ScaleRefused", False)
        assert '"period": "5s"' in busy.output
        conflict.cancel()
        forbidden = proxy.rule(Rule(method="PATCH", path=SCALE, status=403))
        refused = await through.bench.run()
        assert (refused.ok, forbidden.hits, refused.ready["reason"]) == (False, 1, "ScaleRefused")
        assert moves(refused) == []


async def test_a_deletion_meanwhile_is_no_failure(scene: ScalingScene, tmp_path: Path) -> None:
    """A run whose Autoscaler is deleted meanwhile says so and ends well; one that only can't write its status fails."""
    await scene.pool()
    await scene.pending("p1")
    async with HttpFaultProxy(upstream_kubeconfig=scene.bench.kubeconfig) as proxy:
        through = scene.on(replace(scene.bench, kubeconfig=proxy.kubeconfig(tmp_path / "through")))
        await scene.autoscaler()
        broken = proxy.rule(Rule(method="PATCH", path=rf"/autoscalers/{SCALER}/status", status=404))
        run = await through.bench.run()
        assert (run.ok, broken.hits > 0) == (False, True)
        broken.cancel()
        held = proxy.rule(Rule(method="PATCH", path=SCALE, times=1, hold=True))
        await scene.set_target(0)
        running = asyncio.create_task(through.bench.run())
        await held.wait_hit()
        await scene.kube.delete(AUTOSCALER.resource, namespace=scene.namespace, name=SCALER)
        held.release()
        run = await running
        assert run.ok, run.output[-3000:]
        assert "the Autoscaler was deleted while this run went on" in run.output
