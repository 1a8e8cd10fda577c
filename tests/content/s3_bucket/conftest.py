"""A bench per test for the role `s3_bucket`: the CRD is installed, the emulator is as after its start."""

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
from tests.content.ec2_instance.role_harness import ROOT, Bench
from tests.content.s3_bucket.bucket_bench import S3_BUCKET


@pytest.fixture(scope="module")
def ec2() -> Iterator[str]:
    """Give the URL of an emulator of the module's own, as its tests look at all buckets that there are."""
    with Ec2Emulator() as emulator:
        yield emulator.endpoint


@pytest.fixture
async def bench(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path, role_server: SharedWarm
) -> AsyncIterator[Bench]:
    """Give a bench with an emulator in which there is no bucket."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "s3buckets.yaml").read_text()))
    aws = Ec2Control(ec2)
    aws.reset()
    yield Bench(
        kube=kube,
        kubeconfig=plane.kubeconfig,
        namespace=namespace,
        aws=aws,
        endpoint=ec2,
        folder=tmp_path,
        subject=S3_BUCKET,
        warm=role_server,
    )
    aws.clear_faults()
