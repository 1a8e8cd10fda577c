"""The handlers that ship for Autoscalers in a running operator: the index of pods that wait, and admission."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import AlreadyExists, Invalid, NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import HandlersSettings, Settings
from runner.testing import waiting
from runner.testing.cluster import install_crd, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.identities import SERVICE_ACCOUNTS
from runner.watches.model import Content, Watch
from tests.integration.handlers.test_handlers_webhooks import VALIDATING

ROOT = Path(__file__).resolve().parents[3]
GROUP, VERSION = "aws.ansible-operator.io", "v1alpha1"
AUTOSCALERS = Resource(gvk=GVK(GROUP, VERSION, "Autoscaler"), plural="autoscalers")
NODE_POOLS = Resource(gvk=GVK(GROUP, VERSION, "NodePool"), plural="nodepools")
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
POOL = {
    "imageId": "ami-0c0ffee0000000001",
    "instanceType": "m5.large",
    "bootstrap": {"type": "custom", "userDataTemplate": "#!/bin/sh"},
}
# A start of kopf and a busy machine add up; the limit only tells 'hung' from 'slow'.
eventually = partial(waiting.eventually, limit=120.0)


@dataclass(frozen=True, kw_only=True)
class Site:
    """One namespace, and an operator for its Autoscalers whose runs are scripted."""

    kube: KubeClient
    namespace: str
    settings: Settings
    executor: ScriptedExecutor = field(default_factory=ScriptedExecutor)

    @contextlib.asynccontextmanager
    async def operator(self, **handlers: Any) -> AsyncIterator[None]:
        """Run it; *handlers* are settings of webhooks."""
        watch = Watch(
            gvk=AUTOSCALERS.gvk,
            content=Content(role=ROOT / "roles" / "autoscaler"),
            handlers=ROOT / "handlers" / "autoscaler.py",
            mark_unsafe=True,
        )
        settings = replace(self.settings, handlers=HandlersSettings(**handlers))
        async with running_operator([watch], settings=settings, executor=self.executor):
            yield

    async def create(self, resource: Resource, name: str, spec: Object) -> Object:
        """Create an object."""
        body = {
            "apiVersion": resource.gvk.api_version,
            "kind": resource.gvk.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        return await self.kube.create(resource, namespace=self.namespace, body=body)

    async def autoscaler(self, name: str, *pools: str) -> Object:
        """Create an Autoscaler for pods of the namespace."""
        return await self.create(AUTOSCALERS, name, {"namespaces": [self.namespace], "nodePools": list(pools)})

    async def pod(self, name: str) -> None:
        """Create a pod that no scheduler takes."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        with contextlib.suppress(AlreadyExists):
            await self.kube.create(SERVICE_ACCOUNTS, namespace=self.namespace, body=account)
        env = [{"name": "PASSWORD", "value": "hunter2"}]
        spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "x", "env": env}]}
        await self.create(PODS, name, spec)

    async def set_phase(self, name: str, phase: str) -> None:
        """Write a pod's phase as a kubelet does."""
        body = {"status": {"phase": phase}}
        await self.kube.patch(PODS, namespace=self.namespace, name=name, body=body, subresource="status")

    async def given(self, *names: str) -> bool:
        """Start a run by an edit, and tell whether the newest one was given these pods."""
        count = len(self.executor.requests)
        body = {"spec": {"frequency": f"{count + 10}m"}}
        await self.kube.patch(AUTOSCALERS, namespace=self.namespace, name="first", body=body)
        await eventually(lambda: len(self.executor.requests) > count)
        pods = self.executor.requests[-1].handlers["pending_pods"]
        return sorted(pod["metadata"]["name"] for pod in pods) == sorted(names)


@pytest.fixture
async def site(kube: KubeClient, plane: ControlPlane, namespace: str) -> Site:
    """Give a site in a fresh namespace."""
    for name in ("nodepools", "autoscalers"):
        await install_crd(kube, yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text()))
    settings = replace(settings_for(plane.kubeconfig), namespaces=(namespace,))
    return Site(kube=kube, namespace=namespace, settings=settings)


async def test_a_run_has_the_pods_that_wait(site: Site) -> None:
    """A run is given the pending pods of its namespaces as they come and go, without their environment."""
    await site.pod("one")
    await site.pod("two")
    await site.autoscaler("first", "workers")
    async with site.operator(webhook_bind_address="127.0.0.1:0"):
        await eventually(lambda: site.executor.requests)
        assert await site.given("one", "two")
        pod = site.executor.requests[-1].handlers["pending_pods"][0]
        assert (pod["status"]["phase"], [item["name"] for item in pod["spec"]["containers"]]) == ("Pending", ["main"])
        assert "hunter2" not in str(pod)
        await site.set_phase("one", "Running")
        await wait_until(lambda: site.given("two"), what="the pod that runs to be forgotten")
        await site.pod("three")
        await wait_until(lambda: site.given("two", "three"), what="the new pod to be indexed")


async def test_a_second_autoscaler_for_a_pool_is_refused(site: Site) -> None:
    """The API server refuses it with the pool and the first one's name; while the operator is away it gets in."""
    (port,) = free_ports(1)
    name = f"{site.namespace}.example.com"
    await site.create(NODE_POOLS, "workers", POOL)
    await site.autoscaler("first", "workers")

    async def refused() -> str:
        try:
            await site.autoscaler("second", "gpu", "workers")
        except Invalid as error:
            return str(error)
        await site.kube.delete(AUTOSCALERS, namespace=site.namespace, name="second")
        return ""

    try:
        async with site.operator(webhook_bind_address=f"127.0.0.1:{port}", webhook_configuration=name):
            sentence = await wait_until(refused, what="the API server to ask")
            assert "claimed by another Autoscaler already: workers (by first)" in sentence
            (webhook,) = (await site.kube.get(VALIDATING, name=name))["webhooks"]
            assert (webhook["failurePolicy"], webhook["rules"][0]["operations"]) == ("Ignore", ["CREATE", "UPDATE"])
            await site.autoscaler("other", "gpu")  # there is no such pool yet: a warning, no refusal
        assert await refused() == ""
    finally:
        with contextlib.suppress(NotFound):
            await site.kube.delete(VALIDATING, name=name)
