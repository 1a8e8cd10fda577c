"""A bench per test for the role `ec2_instance`: the CRD is installed, the emulator is as after its start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from runner.kube.client import KubeClient
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import install_crd
from runner.testing.warm import SharedWarm
from tests.content.ec2_instance.role_harness import ROOT, Bench


@pytest.fixture
async def bench(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path, role_server: SharedWarm
) -> AsyncIterator[Bench]:
    """Give a bench with fast state changes."""
    await install_crd(kube, yaml.safe_load((ROOT / "crds" / "ec2instances.yaml").read_text()))
    aws = Ec2Control(ec2)
    aws.reset()
    aws.configure(pending=0.0, stopping=0.0, shutting_down=0.0)
    yield Bench(
        kube=kube,
        kubeconfig=plane.kubeconfig,
        namespace=namespace,
        aws=aws,
        endpoint=ec2,
        folder=tmp_path,
        warm=role_server,
    ).with_variables(ec2_instance_finalizer_delay=1, ec2_instance_finalizer_retries=8)
    aws.clear_faults()
