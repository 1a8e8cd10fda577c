"""A node on which the Pods of the examples run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, conditions_of
from runner.localdev.nodes import fake_node
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings
from runner.testing.cluster import wait_until

NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)


@pytest.fixture(scope="session")
def node(plane: ControlPlane) -> Iterator[str]:
    """Give the name of a node of the plane that is Ready; it goes at the end."""
    name = f"examples-{secrets.token_hex(3)}"
    asyncio.run(_add(plane, name=name))
    yield name
    asyncio.run(_remove(plane, name=name))


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
