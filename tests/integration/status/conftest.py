"""Kinds and clients for the status tests: a usual CRD, one without status subresource, one with a narrow schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runner.clock import SystemClock
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import Object
from runner.kube.verbs import ObjectClient
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.settings import BackoffSettings, KubeSettings, StatusSettings
from runner.status.writer import StatusWriter
from runner.testing.cluster import crd, install_crd
from runner.testing.faults import HttpFaultProxy
from runner.workqueue.backoff import Backoff

GROUP = "status.example.com"
_CONDITION_FIELDS = ("type", "status", "reason", "message", "lastTransitionTime")
_CONDITION: Object = {"type": "object", "properties": {name: {"type": "string"} for name in _CONDITION_FIELDS}}
_STATUS: Object = {"type": "object", "properties": {"conditions": {"type": "array", "items": _CONDITION}}}
_NARROW: Object = {
    "type": "object",
    "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "status": _STATUS},
}


@pytest.fixture
async def widgets(kube: KubeClient) -> Resource:
    """Return the resource of a usual CRD."""
    return await install_crd(kube, crd("Widget", group=GROUP))


@pytest.fixture
async def plains(kube: KubeClient) -> Resource:
    """Return the resource of a CRD without status subresource."""
    return await install_crd(kube, crd("Plain", group=GROUP, status=False))


@pytest.fixture
async def narrows(kube: KubeClient) -> Resource:
    """Return the resource of a CRD whose schema knows no ansibleResult."""
    return await install_crd(kube, crd("Narrow", group=GROUP, schema=_NARROW))


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[HttpFaultProxy]:
    """Return a fault proxy in front of the API server."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
async def faulty(proxy: HttpFaultProxy, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """Return a client that goes through the fault proxy."""
    settings = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "faulty")))
    async with KubeClient(settings=settings) as client:
        yield client


@pytest.fixture
def sink() -> RecordingSink:
    """Return a place for log records."""
    return RecordingSink()


@pytest.fixture
def writer(faulty: KubeClient, sink: RecordingSink) -> StatusWriter:
    """Return a writer behind the fault proxy."""
    return make_writer(faulty, sink=sink)


def make_writer(client: ObjectClient, *, sink: RecordingSink, **settings: Any) -> StatusWriter:
    """Return a writer with short waits."""
    wanted = StatusSettings(backoff=BackoffSettings(base=0.01, cap=0.1), **settings)
    delay = Backoff(wanted.backoff, lambda: 0.5).delay
    return StatusWriter(client=client, clock=SystemClock(), delay=delay, settings=wanted, logger=Logger(sink=sink))


async def make(kube: KubeClient, resource: Resource, *, namespace: str, name: str = "web") -> Object:
    """Create an object."""
    body = {
        "apiVersion": resource.gvk.api_version,
        "kind": resource.gvk.kind,
        "metadata": {"name": name},
        "spec": {"size": 1},
    }
    return await kube.create(resource, namespace=namespace, body=body)
