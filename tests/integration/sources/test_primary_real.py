"""Primary sources with the rights that a namespaced Role gives (case W4)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runner.clock import SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.objects import Object
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings
from runner.sources.informer import State, WatchContext
from runner.sources.primary import PrimarySource
from runner.testing.cluster import NAMESPACES, SECRETS, crd, install_crd, remove_crd
from runner.testing.identities import new_identity
from runner.testing.informers import QUICK
from runner.testing.waiting import ended, eventually
from runner.watches.model import Content, Watch
from runner.workqueue.request import Request


@pytest.fixture
async def others(kube: KubeClient) -> AsyncIterator[list[str]]:
    """Give two more namespaces."""
    names = [f"test-{secrets.token_hex(4)}" for _ in range(2)]
    for name in names:
        await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield names
    for name in names:
        await kube.delete(NAMESPACES, name=name)


def secret(name: str) -> Object:
    """Build a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def context_for(client: KubeClient) -> WatchContext:
    """Build what informers share."""
    return WatchContext(
        client=client,
        discovery=Discovery(client=client),
        settings=QUICK,
        clock=SystemClock(),
        logger=Logger("informer", sink=RecordingSink()),
    )


async def test_two_namespaces_are_served_with_rights_in_those_two_only(
    plane: ControlPlane, kube: KubeClient, namespace: str, others: list[str], tmp_path: Path
) -> None:
    """With Roles in two namespaces and none cluster-wide both are served, and a third one stays unseen."""
    identity = await new_identity(kube, namespace=namespace)
    for granted in (namespace, others[0]):
        await identity.grant(SECRETS, namespace=granted)
    for place in (namespace, *others):
        await kube.create(SECRETS, namespace=place, body=secret("a"))
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig)
    enqueued: list[Request] = []
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        source = PrimarySource(
            watch=Watch(gvk=SECRETS.gvk, content=Content()),
            context=context_for(client),
            enqueue=lambda request, *, fresh: enqueued.append(request) if fresh else None,
            namespaces=(namespace, others[0]),
        )
        task = asyncio.create_task(source.run())
        await eventually(lambda: source.synced)
        await kube.create(SECRETS, namespace=others[1], body=secret("b"))
        await kube.create(SECRETS, namespace=others[0], body=secret("b"))
        await eventually(lambda: Request(SECRETS.gvk, others[0], "b") in enqueued)
        assert {request.namespace for request in enqueued} == {namespace, others[0]}
        assert set(source.states().values()) == {State.SYNCED}
        await ended(task)


async def test_own_status_and_finalizer_writes_enqueue_nothing(kube: KubeClient, namespace: str) -> None:
    """Of a custom resource only creation, a new spec and the begin of its deletion are enqueued (case W2)."""
    resource = await install_crd(kube, crd("PrimaryThing"))
    enqueued: list[Request] = []
    source = PrimarySource(
        watch=Watch(gvk=resource.gvk, content=Content()),
        context=context_for(kube),
        enqueue=lambda request, *, fresh: enqueued.append(request) if fresh else None,
        namespaces=(namespace,),
    )
    task = asyncio.create_task(source.run())
    try:
        await eventually(lambda: source.synced)
        thing = {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, "spec": {"n": 1}}
        await kube.create(resource, namespace=namespace, body={**thing, "metadata": {"name": "a"}})
        where: dict[str, Any] = {"namespace": namespace, "name": "a"}
        await kube.patch(resource, **where, body={"metadata": {"finalizers": ["example.com/f"]}})
        await kube.patch(resource, **where, body={"status": {"x": 1}}, subresource="status")
        await kube.patch(resource, **where, body={"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}})
        await kube.create(resource, namespace=namespace, body={**thing, "metadata": {"name": "barrier"}})
        await eventually(lambda: Request(resource.gvk, namespace, "barrier") in enqueued)
        assert [request.name for request in enqueued] == ["a", "barrier"]
        await kube.patch(resource, **where, body={"spec": {"n": 2}})
        await kube.delete(resource, **where)
        await eventually(lambda: len(enqueued) == 4)
        await kube.patch(resource, **where, body={"metadata": {"finalizers": None}})
        await eventually(lambda: len(enqueued) == 5)
        assert not source.knows(enqueued[-1])
    finally:
        await ended(task)
        await remove_crd(kube, "primarythings.test.example.com")
