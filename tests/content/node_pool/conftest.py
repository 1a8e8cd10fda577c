"""A bench per test for the role `node_pool`: the CRDs are installed, service accounts are there for pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import install_crd, wait_until
from runner.testing.warm import SharedWarm
from tests.content.ec2_instance.role_harness import ROOT
from tests.content.node_pool.pool_bench import PoolBench

ACCOUNTS = Resource(gvk=GVK("", "v1", "ServiceAccount"), plural="serviceaccounts")


@pytest.fixture
async def bench(
    plane: ControlPlane, ec2: str, kube: KubeClient, namespace: str, tmp_path: Path, role_server: SharedWarm
) -> AsyncIterator[PoolBench]:
    """Give a bench; its Nodes are removed afterwards."""
    for kind in ("ec2instances", "nodepools"):
        await install_crd(kube, yaml.safe_load((ROOT / "crds" / f"{kind}.yaml").read_text()))

    async def has_account() -> bool:
        found = await kube.list(ACCOUNTS, namespace=namespace)
        return any(item["metadata"]["name"] == "default" for item in found)

    await wait_until(has_account, what="the namespace's service account")
    bench = PoolBench(
        kube=kube,
        kubeconfig=plane.kubeconfig,
        namespace=namespace,
        folder=tmp_path,
        endpoint=ec2,
        warm=role_server,
    )
    yield bench
    await bench.clean()
