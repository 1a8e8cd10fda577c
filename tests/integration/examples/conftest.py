"""A node on which the Pods of the examples run, and MyApp's operator."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from runner.kube.client import KubeClient
from runner.kube.objects import conditions_of
from runner.localdev.nodes import fake_node
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings
from runner.testing.cluster import wait_until
from tests.integration.examples.example_site import MYAPP, NODES, ExampleSite, Objects, operating


@pytest.fixture(scope="session")
def node(plane: ControlPlane) -> Iterator[str]:
    """Give the name of a node of the plane that is Ready; it goes at the end."""
    name = f"examples-{secrets.token_hex(3)}"
    asyncio.run(_add(plane, name=name))
    yield name
    asyncio.run(_remove(plane, name=name))


@pytest.fixture(scope="package")
def myapp_site(plane: ControlPlane, node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleSite]:
    """Run the operator of MyApp for all tests of it."""
    del node  # Pods run on it
    with operating(MYAPP, plane=plane, folder=tmp_path_factory.mktemp("myapp")) as site:
        yield site


@pytest.fixture
def myapps(myapp_site: ExampleSite, kube: KubeClient) -> Objects:
    """Give the MyApps of the operator's namespace."""
    return Objects(kube=kube, site=myapp_site, namespace=myapp_site.namespace)


async def _add(plane: ControlPlane, *, name: str) -> None:
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube:
        await kube.create(NODES, body=fake_node(name, address="10.64.9.1"))

        async def ready() -> bool:
            states = {entry["type"]: entry["status"] for entry in conditions_of(await kube.get(NODES, name=name))}
            return states.get("Ready") == "True"

        await wait_until(ready, what=f"the node {name} to be Ready")


async def _remove(plane: ControlPlane, *, name: str) -> None:
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube:
        await kube.delete(NODES, name=name)
