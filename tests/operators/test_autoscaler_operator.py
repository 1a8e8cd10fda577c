"""The shipped operator with an Autoscaler: its clock, the index of pods that wait, and the role, as one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from runner.kube.client import KubeClient
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import install_crd, wait_until
from tests.content.autoscaler.scaling_scene import AUTOSCALER, NODE_POOLS, ScalingScene
from tests.content.ec2_instance.role_harness import EC2_INSTANCE, EC2_INSTANCES, ROOT, Bench
from tests.operators.conftest import StartFor


@pytest.fixture
async def scene(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path
) -> AsyncIterator[ScalingScene]:
    """Give a scene; what the operator made of pools is let go at the end."""
    for kind in ("ec2instances", "nodepools", "autoscalers"):
        await install_crd(kube, yaml.safe_load((ROOT / "crds" / f"{kind}.yaml").read_text()))
    aws = Ec2Control(ec2)
    aws.reset()
    bench = Bench(kube=kube, kubeconfig=plane.kubeconfig, namespace=namespace, aws=aws, endpoint=ec2, folder=tmp_path)
    yield ScalingScene(bench=replace(bench, subject=AUTOSCALER))
    for resource in (NODE_POOLS, EC2_INSTANCES):
        await replace(bench, subject=replace(EC2_INSTANCE, resource=resource)).release_all()


@pytest.mark.timeout(600)
async def test_pods_that_come_later_raise_the_pool_at_the_next_evaluation(
    scene: ScalingScene, start_for: StartFor
) -> None:
    """Evaluations come every `frequency` without an edit, and find pods that came meanwhile (A1)."""
    with start_for(scene.bench) as start:
        start()
        await scene.pool(cpu=8)
        await scene.autoscaler(frequency="2s")

        async def evaluated() -> str:
            return str((await scene.bench.get()).get("status", {}).get("lastEvaluationTime") or "")

        await wait_until(evaluated, what="the first evaluation", limit=200)
        assert await scene.target() == 0
        await scene.pending("p1", "p2")

        async def raised() -> bool:
            return await scene.target() == 1

        await wait_until(raised, what="the next evaluation to raise the pool", limit=200)
        assert (await scene.bench.get())["metadata"]["generation"] == 1
