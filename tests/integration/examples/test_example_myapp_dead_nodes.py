"""`examples/02-myapp` when Nodes die: which Pods are released, which never, and what is told."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pytest

from runner.kube.client import KubeClient
from runner.kube.objects import Object, conditions_of, name_of, uid_of
from runner.localdev.nodes import fake_node
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import wait_until
from tests.integration.examples.example_nodes import (
    add_nodes,
    is_ready,
    remove_nodes,
    switch_off,
    taint,
    tolerate_fence,
)
from tests.integration.examples.example_site import (
    CLUSTER_ROLES,
    LIMIT,
    NODES,
    PODS,
    ExampleSite,
    Objects,
    condition,
    set_room,
)

IMAGE = "registry.example.com/my-app:1.0.0"
INSTANCE = "app.kubernetes.io/instance"


@dataclass(frozen=True, kw_only=True)
class Mortals:
    """Nodes of this module, called after what befalls them."""

    fenced: str
    gone: str
    silent: str
    forgotten: str
    """Is alive, with a taint that somebody forgot."""


@pytest.fixture
def nodes(plane: ControlPlane, node: str) -> Iterator[Mortals]:
    """Add the nodes beside that of the session."""
    suffix = secrets.token_hex(2)
    fates = {fate: f"{node}-{fate}-{suffix}" for fate in ("fenced", "gone", "silent", "forgotten")}
    bodies = [fake_node(name, address=f"10.64.9.{10 + i}") for i, name in enumerate(fates.values())]
    asyncio.run(add_nodes(plane, *bodies))
    yield Mortals(**fates)
    asyncio.run(remove_nodes(plane, *fates.values()))


async def create_on_every_node(myapps: Objects, name: str, *, lost_after: int) -> Mapping[str, Object]:
    """Create a MyApp with a Pod on each Node that is Ready, and return the Pods by Node."""
    ready = [node for node in await myapps.kube.list(NODES) if is_ready(node)]
    spec = {"replicaCount": len(ready), "highAvailability": True, "nodeLostAfterSeconds": lost_after}
    await myapps.create(name, image=IMAGE, **spec)
    await myapps.reaches(name, phase="Running", availableReplicas=len(ready))
    pods = {pod["spec"]["nodeName"]: pod for pod in await myapps.pods(f"{INSTANCE}={name}")}
    assert set(pods) == {name_of(node) for node in ready}
    return pods


async def told(myapps: Objects, name: str, *, reason: str, words: str = "") -> Object:
    """Return the condition PodsOnLostNodes when it has this reason, and these words in its message."""

    async def look() -> list[Object]:
        entries = conditions_of(await myapps.get(name))
        found = [entry for entry in entries if (entry["type"], entry["reason"]) == ("PodsOnLostNodes", reason)]
        return [entry for entry in found if words in entry["message"]]

    (found,) = await wait_until(look, what=f"{name} to say {reason}", limit=LIMIT)
    return found


async def uids(myapps: Objects, name: str) -> set[str]:
    """Return the UIDs of its Pods."""
    return {uid_of(pod) for pod in await myapps.pods(f"{INSTANCE}={name}")}


async def left(myapps: Objects, name: str, *, pods: Collection[Object]) -> None:
    """Return when none of these Pods is there."""
    ended = {uid_of(pod) for pod in pods}

    async def look() -> bool:
        return not ended & await uids(myapps, name)

    await wait_until(look, what=f"Pods of {name} to be released", limit=LIMIT)


async def event_told(myapps: Objects, name: str, *, reason: str, words: str) -> None:
    """Return when an Event of this reason has these words."""

    async def look() -> bool:
        return words in await myapps.event(name, reason=reason)

    await wait_until(look, what=f"Events about {name}: {words}", limit=LIMIT)


async def test_only_pods_whose_node_is_proven_gone_are_released(
    myapps: Objects, kube: KubeClient, nodes: Mortals
) -> None:
    """A fenced dead Node and one that was deleted free their Pods; silence and a forgotten taint don't, and say why."""
    pods, hasty = await asyncio.gather(
        create_on_every_node(myapps, "patient", lost_after=3600), create_on_every_node(myapps, "hasty", lost_after=10)
    )
    await taint(kube, nodes.forgotten, effect="NoSchedule")
    await taint(kube, nodes.fenced, effect="NoSchedule")  # which fences nothing
    await tolerate_fence(kube, pods[nodes.fenced])  # so that Kubernetes doesn't evict it, and the release is the role's
    for name in (nodes.fenced, nodes.gone, nodes.silent):
        await switch_off(kube, name)
    for name in (nodes.silent, nodes.fenced):  # they are marked one after the other
        assert (await told(myapps, "patient", reason="NodeNotReady", words=name))["status"] == "False"
    assert {uid_of(pod) for pod in pods.values()} <= await uids(myapps, "patient")
    await taint(kube, nodes.fenced, effect="NoExecute")
    await remove_nodes(myapps.site.plane, nodes.gone)
    await left(myapps, "patient", pods=[pods[nodes.fenced], pods[nodes.gone]])
    # None is asked for about the other Pod: Kubernetes, too, deletes those of a Node that is gone, and may be first.
    fenced = f"Node {nodes.fenced} is not Ready and has the taint node.kubernetes.io/out-of-service"
    await event_told(myapps, "patient", reason="PodReleased", words=fenced)
    remedy = f"kubectl taint nodes {nodes.silent} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    lost = await told(myapps, "hasty", reason="FencingNeeded", words=remedy)
    assert lost["status"] == "True"
    assert condition(await myapps.get("hasty"), "Available") == ("False", "TooFewPodsAvailable")
    await event_told(myapps, "hasty", reason="NodeLost", words=f"{name_of(hasty[nodes.silent])} on Node {nodes.silent}")
    assert await spared(myapps, "patient", pods, nodes)
    assert await spared(myapps, "hasty", hasty, nodes)
    for name in ("patient", "hasty"):
        await myapps.delete(name)  # as long as they are there they run each ten seconds


async def spared(myapps: Objects, name: str, pods: Mapping[str, Object], nodes: Mortals) -> bool:
    """Tell whether the Pods on the silent Node and on that with the forgotten taint are the first ones."""
    return {uid_of(pods[nodes.silent]), uid_of(pods[nodes.forgotten])} <= await uids(myapps, name)


@pytest.mark.full
async def test_released_pods_move_to_nodes_that_live(myapps: Objects, kube: KubeClient, nodes: Mortals) -> None:
    """After the command that the condition names the Pod is there again on another Node, and all is Running."""
    pods = await create_on_every_node(myapps, "mover", lost_after=10)
    await switch_off(kube, nodes.silent)
    await told(myapps, "mover", reason="FencingNeeded")
    await taint(kube, nodes.silent, effect="NoExecute")
    await left(myapps, "mover", pods=[pods[nodes.silent]])
    await myapps.reaches("mover", phase="Running", availableReplicas=len(pods))
    await told(myapps, "mover", reason="NodesReady")
    assert nodes.silent not in {pod["spec"]["nodeName"] for pod in await myapps.pods(f"{INSTANCE}=mover")}


@pytest.mark.full
async def test_nodes_that_cannot_be_read_prove_nothing(myapp_site: ExampleSite, kube: KubeClient) -> None:
    """Without the right to list Nodes the condition is Unknown and names the right, and the runs go well."""
    crowded = Objects(kube=kube, site=myapp_site, namespace=myapp_site.crowded)
    role = f"{myapp_site.account}-nodes"
    rules = (await kube.get(CLUSTER_ROLES, name=role))["rules"]
    await set_room(kube, myapp_site, pods=len(await kube.list(PODS, namespace=myapp_site.crowded)) + 1)
    await kube.patch(CLUSTER_ROLES, name=role, body={"rules": []})
    try:
        await crowded.create("blind", replicaCount=2, image=IMAGE)
        entry = await told(crowded, "blind", reason="NodesNotRead")
        await crowded.reaches("blind", phase="Progressing", availableReplicas=1)
    finally:
        await kube.patch(CLUSTER_ROLES, name=role, body={"rules": rules})
        await set_room(kube, myapp_site, pods=2)
    assert entry["status"] == "Unknown"
    assert 'cannot list resource "nodes"' in entry["message"].replace("\\", "")
