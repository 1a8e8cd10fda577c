"""The in-memory API server, and a site on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.kube.client import KubeClient
from runner.settings import KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, SECRETS
from runner.testing.informers import Site


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """Give a server that knows Secrets, ConfigMaps and Namespaces."""
    async with FakeApiServer() as server:
        for resource in (SECRETS, CONFIG_MAPS, NAMESPACES):
            server.define(resource)
        yield server


@pytest.fixture
async def site(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Site]:
    """Give access to the server and a namespace on it."""
    kubeconfig = server.kubeconfig(tmp_path / "upstream")
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        yield Site(kubeconfig=kubeconfig, client=client, namespace="test", folder=tmp_path)
