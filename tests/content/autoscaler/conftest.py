"""A scene per test for the role `autoscaler`: the CRDs are installed, the emulator is as after its start."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.server import Ec2Emulator
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import install_crd
from runner.testing.warm import SharedWarm
from tests.content.autoscaler.scaling_scene import AUTOSCALER, NODES, ScalingScene
from tests.content.ec2_instance.role_harness import ROOT, Bench


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own, as its tests count the calls."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.fixture
async def scene(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path, role_server: SharedWarm
) -> AsyncIterator[ScalingScene]:
    """Give a scene; its nodes, which belong to no namespace, go at the end."""
    for kind in ("ec2instances", "nodepools", "autoscalers"):
        await install_crd(kube, yaml.safe_load((ROOT / "crds" / f"{kind}.yaml").read_text()))
    aws = Ec2Control(ec2)
    aws.reset()
    scene = ScalingScene(
        bench=Bench(
            kube=kube,
            kubeconfig=plane.kubeconfig,
            namespace=namespace,
            aws=aws,
            endpoint=ec2,
            folder=tmp_path,
            subject=AUTOSCALER,
            warm=role_server,
        )
    )
    yield scene
    aws.clear_faults()
    for name in scene.nodes:
        with contextlib.suppress(NotFound):
            await kube.delete(NODES, name=name)
