"""Simulated nodes that tests of the examples add, let die, fence and remove."""

from __future__ import annotations

import asyncio

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.kube.objects import Object, conditions_of, name_of
from runner.localdev.components import FAKE_NODE_LABEL
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings
from runner.testing.cluster import wait_until
from tests.integration.examples.example_site import NODES, PODS

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def is_ready(node: Object) -> bool:
    """Tell whether a Node is Ready."""
    return any((entry["type"], entry["status"]) == ("Ready", "True") for entry in conditions_of(node))


async def add_nodes(plane: ControlPlane, *nodes: Object) -> None:
    """Create the Nodes and return when all are Ready."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube:
        await asyncio.gather(*(kube.create(NODES, body=node) for node in nodes))

        async def ready() -> bool:
            return all([is_ready(await kube.get(NODES, name=name_of(node))) for node in nodes])

        await wait_until(ready, what="the nodes to be Ready")


async def remove_nodes(plane: ControlPlane, *names: str) -> None:
    """Delete the Nodes that are there."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube:
        for name in names:
            try:
                await kube.delete(NODES, name=name)
            except NotFound:
                continue


async def switch_off(kube: KubeClient, name: str) -> None:
    """Let the kubelet of a node fall silent: its Lease is renewed no more, and its Pods are nobody's."""
    await kube.patch(NODES, name=name, body={"metadata": {"labels": {FAKE_NODE_LABEL: None}}})


async def taint(kube: KubeClient, name: str, *, effect: str) -> None:
    """Say that a node is out of service, beside the taints that it has."""

    async def add() -> bool:
        node = await kube.get(NODES, name=name)
        entry = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": effect}
        taints = [*node["spec"].get("taints", []), entry]
        version = node["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
        await kube.patch(NODES, name=name, body=body)
        return True

    await wait_until(add, what=f"the taint of {name}")


async def tolerate_fence(kube: KubeClient, pod: Object) -> None:
    """Let a Pod stay on a node that is out of service, as far as Kubernetes evicts by taints."""
    tolerations = [*pod["spec"].get("tolerations", []), {"key": OUT_OF_SERVICE, "operator": "Exists"}]
    namespace = str(pod["metadata"]["namespace"])
    await kube.patch(PODS, namespace=namespace, name=name_of(pod), body={"spec": {"tolerations": tolerations}})
