"""The informer's contract against the real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.kube.client import KubeClient
from runner.localdev.plane import ControlPlane
from runner.testing.contracts import InformerContract
from runner.testing.informers import Site


@pytest.fixture
def site(plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path) -> Site:
    """Give a fresh namespace of the real API server."""
    return Site(kubeconfig=plane.kubeconfig, client=kube, namespace=namespace, folder=tmp_path)


class TestInformerOnRealServer(InformerContract):
    """All of the contract."""
