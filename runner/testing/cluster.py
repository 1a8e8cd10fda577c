"""Helpers for tests against a real API server: conditions to wait for, custom resource definitions.

Used with the fixtures in `runner.testing.fixtures`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from runner.errors import AlreadyExists, NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery, Resource
from runner.kube.objects import GVK, Object, conditions_of, name_of

NAMESPACES = Resource(gvk=GVK("", "v1", "Namespace"), plural="namespaces", namespaced=False)
CONFIG_MAPS = Resource(gvk=GVK("", "v1", "ConfigMap"), plural="configmaps")
SECRETS = Resource(gvk=GVK("", "v1", "Secret"), plural="secrets")
CRDS = Resource(
    gvk=GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    plural="customresourcedefinitions",
    namespaced=False,
)
T = TypeVar("T")

_OPEN_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def wait_until(condition: Callable[[], Awaitable[T]], *, what: str, limit: float = 60.0) -> T:
    """Return the first true value of *condition*; the *limit* in seconds only means 'hung'.

    Raises:
        TimeoutError: it stayed false; the message says *what* was waited for, and the last value.
    """
    deadline = time.monotonic() + limit
    while True:
        value = await condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit:.0f} s in vain for {what}; the last value was {value!r}")
        await asyncio.sleep(0.02)


def crd(
    kind: str,
    *,
    group: str = "test.example.com",
    versions: Sequence[str] = ("v1",),
    namespaced: bool = True,
    status: bool = True,
    schema: Object | None = None,
) -> Object:
    """Return a CustomResourceDefinition that accepts any fields.

    Args:
        kind: the kind; its plural is the kind in small letters plus `s`.
        group: the API group.
        versions: all are served, the first is stored.
        namespaced: False for cluster scope.
        status: with the status subresource.
        schema: an OpenAPI schema instead of the open one.
    """
    plural = f"{kind.lower()}s"
    entries = [
        {
            "name": version,
            "served": True,
            "storage": version == versions[0],
            "schema": {"openAPIV3Schema": schema or _OPEN_SCHEMA},
            **({"subresources": {"status": {}}} if status else {}),
        }
        for version in versions
    ]
    return {
        "apiVersion": CRDS.gvk.api_version,
        "kind": CRDS.gvk.kind,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": entries,
        },
    }


async def install_crd(kube: KubeClient, body: Object) -> Resource:
    """Install a CRD (one of that name stays as it is), wait until its kind is served; return the stored version."""
    with contextlib.suppress(AlreadyExists):
        await kube.create(CRDS, body=body)
    name, spec = name_of(body), body["spec"]
    stored = next(entry["name"] for entry in spec["versions"] if entry["storage"])
    gvk = GVK(spec["group"], stored, spec["names"]["kind"])

    async def served() -> Resource | None:
        found = await kube.get(CRDS, name=name)
        states = {entry.get("type"): entry.get("status") for entry in conditions_of(found)}
        if states.get("Established") != "True":
            return None
        try:
            return await Discovery(client=kube).resource(gvk)
        except NotFound:
            return None  # established a moment before it is served

    resource = await wait_until(served, what=f"the CRD {name} to be served")
    assert resource is not None
    return resource


async def remove_crd(kube: KubeClient, name: str) -> None:
    """Remove a CRD and wait until it is gone, its objects with it."""
    try:
        await kube.delete(CRDS, name=name)
    except NotFound:
        return

    async def gone() -> bool:
        try:
            await kube.get(CRDS, name=name)
        except NotFound:
            return True
        return False

    await wait_until(gone, what=f"the CRD {name} to be gone")
