"""WATCH_NAMESPACE with a list, and the rights of namespaced Roles only (field case W4)."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.cli.configure import configure
from runner.cli.flags import FLAGS
from runner.cli.run import run
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of, name_of, namespace_of
from runner.localdev.plane import ControlPlane
from runner.testing.cluster import NAMESPACES, crd, install_crd, remove_crd, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.faults import HttpFaultProxy
from runner.testing.harness import running_operator, settings_for
from runner.testing.identities import ROLE_BINDINGS, ROLES, Identity, new_identity
from runner.watches.model import Content, Watch

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(gvk=GVK(RBAC, "v1", "ClusterRole"), plural="clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    gvk=GVK(RBAC, "v1", "ClusterRoleBinding"), plural="clusterrolebindings", namespaced=False
)


@pytest.fixture
async def others(kube: KubeClient) -> AsyncIterator[list[str]]:
    """Give two more namespaces."""
    names = [f"test-{secrets.token_hex(4)}" for _ in range(2)]
    for name in names:
        await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield names
    for name in names:
        await kube.delete(NAMESPACES, name=name)


@pytest.fixture
async def local(kube: KubeClient) -> AsyncIterator[Resource]:
    """Give a namespaced kind."""
    body = crd("Local", group=f"g{secrets.token_hex(4)}.example.com")
    yield await install_crd(kube, body)
    await remove_crd(kube, body["metadata"]["name"])


@pytest.fixture
async def wide(kube: KubeClient) -> AsyncIterator[Resource]:
    """Give a cluster-scoped kind."""
    body = crd("Wide", group=f"g{secrets.token_hex(4)}.example.com", namespaced=False)
    yield await install_crd(kube, body)
    await remove_crd(kube, body["metadata"]["name"])


def namespaces_from(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what `ansible-operator run` makes of the environment."""
    context = run.make_context("run", [])
    values: dict[str, Any] = {flag.name: context.params[flag.parameter] for flag in FLAGS}
    return configure(values, given=set(), environ=environ).settings.namespaces


def thing(resource: Resource, name: str) -> Object:
    """Return an object."""
    gvk = resource.gvk
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": name}, "spec": {"size": 1}}


async def grant(identity: Identity, resource: Resource, *, namespace: str = "") -> None:
    """Grant what the operator needs of *resource*: in *namespace* by a Role, else by a ClusterRole."""
    role, binding = (ROLES, ROLE_BINDINGS) if namespace else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    rule = {
        "apiGroups": [resource.gvk.group],
        "resources": [resource.plural, f"{resource.plural}/status"],
        "verbs": ["get", "list", "watch", "patch", "update"],
    }
    name = f"{identity.namespace}-{resource.plural}"
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    body = {**head, "kind": role.gvk.kind, "rules": [rule]}
    await identity.admin.create(role, namespace=namespace, body=body)
    subject = {"kind": "ServiceAccount", "name": identity.name, "namespace": identity.namespace}
    reference = {"apiGroup": RBAC, "kind": role.gvk.kind, "name": name}
    body = {**head, "kind": binding.gvk.kind, "roleRef": reference, "subjects": [subject]}
    await identity.admin.create(binding, namespace=namespace, body=body)


def lists_all_namespaces(path: str, resource: Resource) -> bool:
    """Tell whether a request reads a namespaced kind over all namespaces."""
    return re.search(rf"/{resource.gvk.version}/{resource.plural}(\?|$)", path) is not None


async def test_roles_in_two_namespaces_are_all_that_is_needed(
    plane: ControlPlane,
    kube: KubeClient,
    namespace: str,
    others: list[str],
    local: Resource,
    wide: Resource,
    tmp_path: Path,
) -> None:
    """With `WATCH_NAMESPACE="ns1, ns2,,"` and Roles there both are served, ns3 is not, and no list spans all."""
    identity = await new_identity(kube, namespace=namespace)
    for place in (namespace, others[0]):
        await grant(identity, local, namespace=place)
    await grant(identity, wide)
    for place in (namespace, *others):
        await kube.create(local, namespace=place, body=thing(local, "one"))
    await kube.create(wide, body=thing(wide, "wide"))
    kubeconfig = await identity.kubeconfig(tmp_path / "identity", source=plane.kubeconfig)
    executor = ScriptedExecutor()
    async with HttpFaultProxy(upstream_kubeconfig=kubeconfig) as proxy:
        settings = replace(
            settings_for(proxy.kubeconfig(tmp_path / "proxied"), period=timedelta(0)),
            namespaces=namespaces_from({"WATCH_NAMESPACE": f"{namespace}, {others[0]},,"}),
        )
        watches = [Watch(gvk=resource.gvk, content=Content()) for resource in (local, wide)]
        async with running_operator(watches, settings=settings, executor=executor):
            for place in (namespace, others[0]):
                await wait_until(partial(_done, kube, local, namespace=place), what=f"the run in {place}")
            await wait_until(lambda: _done(kube, wide, name="wide"), what="the cluster-scoped run")
            await kube.create(local, namespace=others[1], body=thing(local, "two"))
            await kube.create(local, namespace=others[0], body=thing(local, "two"))  # the barrier
            await wait_until(lambda: _done(kube, local, namespace=others[0], name="two"), what="the barrier's run")
        listed = [record.path for record in proxy.requests if lists_all_namespaces(record.path, local)]
    assert listed == []
    assert sorted((namespace_of(request.obj), name_of(request.obj)) for request in executor.requests) == sorted([
        (namespace, "one"),
        (others[0], "one"),
        (others[0], "two"),
        ("", "wide"),
    ])


async def test_no_namespace_is_all_of_them(
    plane: ControlPlane, kube: KubeClient, namespace: str, others: list[str], local: Resource
) -> None:
    """Unset and empty variables watch every namespace."""
    assert namespaces_from({}) == namespaces_from({"WATCH_NAMESPACE": " , "}) == ()
    settings = settings_for(plane.kubeconfig, period=timedelta(0))
    async with running_operator(
        [Watch(gvk=local.gvk, content=Content())], settings=settings, executor=ScriptedExecutor()
    ):
        for place in (namespace, *others):
            await kube.create(local, namespace=place, body=thing(local, "one"))
        for place in (namespace, *others):
            await wait_until(partial(_done, kube, local, namespace=place), what=f"the run in {place}")


async def _done(kube: KubeClient, resource: Resource, *, namespace: str = "", name: str = "one") -> bool:
    found = await kube.get(resource, namespace=namespace, name=name)
    return ("Successful", "True") in {(entry["type"], entry["status"]) for entry in conditions_of(found)}
