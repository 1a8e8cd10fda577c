"""A bench per test for the role `ebs_volume`: the CRDs are installed, the emulator is as after its start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from runner.kube.client import KubeClient
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.ec2.server import Ec2Emulator
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import install_crd
from runner.testing.warm import SharedWarm
from tests.content.ebs_volume.volume_bench import EBS_VOLUME
from tests.content.ec2_instance.role_harness import ROOT, Bench


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own, as its tests look at all volumes that there are."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.fixture
async def bench(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path, role_server: SharedWarm
) -> AsyncIterator[Bench]:
    """Give a bench with fast state changes."""
    for kind in ("ebsvolumes", "ec2instances"):
        await install_crd(kube, yaml.safe_load((ROOT / "crds" / f"{kind}.yaml").read_text()))
    aws = Ec2Control(ec2)
    aws.reset()
    aws.configure(pending=0.0, stopping=0.0, shutting_down=0.0, creating=0.0)
    yield Bench(
        kube=kube,
        kubeconfig=plane.kubeconfig,
        namespace=namespace,
        aws=aws,
        endpoint=ec2,
        folder=tmp_path,
        subject=EBS_VOLUME,
        warm=role_server,
    ).with_variables(ebs_volume_finalizer_delay=1)
    aws.clear_faults()
