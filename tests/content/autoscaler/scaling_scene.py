"""What the tests of the role `autoscaler` share: pools, nodes and pods of one namespace, and a bench that runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runner.errors import AlreadyExists, Call
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of
from runner.localdev.components import FAKE_NODE_LABEL
from runner.testing.cluster import wait_until
from runner.testing.identities import SERVICE_ACCOUNTS
from tests.content.ec2_instance.role_harness import EC2_INSTANCES, Bench, Run, Subject

GROUP, VERSION = "aws.ansible-operator.io", "v1alpha1"
AUTOSCALER = Subject(
    resource=Resource(gvk=GVK(GROUP, VERSION, "Autoscaler"), plural="autoscalers"),
    role="autoscaler",
    spec={"nodePools": ["workers"]},
)
NODE_POOLS = Resource(gvk=GVK(GROUP, VERSION, "NodePool"), plural="nodepools")
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
MAY_MOVE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
"""In the place of an owner, as pods of one that doesn't exist are collected."""
SCALER = "web"
"""The Autoscaler's name, the bench's default."""


@dataclass(frozen=True, kw_only=True)
class ScalingScene:
    """Pods that no scheduler takes and no node of others fits, pools that only the role changes."""

    bench: Bench
    nodes: list[str] = field(default_factory=list)
    """To be deleted at the end."""

    @property
    def kube(self) -> KubeClient:
        """Return an administrator's client."""
        return self.bench.kube

    @property
    def namespace(self) -> str:
        """Return the namespace that everything is in."""
        return self.bench.namespace

    @property
    def mine(self) -> Mapping[str, str]:
        """Return the labels of the pools' nodes that keep other tests' nodes out."""
        return {"team": self.namespace}

    def on(self, bench: Bench) -> ScalingScene:
        """Return the scene with runs on *bench*."""
        return replace(self, bench=bench)

    async def autoscaler(self, *, name: str = SCALER, **spec: Any) -> Object:
        """Create an Autoscaler for pods of the namespace."""
        return await self.bench.create(name=name, **{"namespaces": [self.namespace], **spec})

    async def pool(self, name: str = "workers", **spec: Any) -> Object:
        """Create a NodePool at targetNodes 0."""
        least = {
            "region": "us-east-1",
            "imageId": "ami-0c0ffee0000000001",
            "instanceType": "m5.large",
            "memoryGiB": 96,
            "labels": dict(self.mine),
            "bootstrap": {"type": "custom", "userDataTemplate": "#!/bin/sh"},
        }
        merged = {key: value for key, value in {**least, **spec}.items() if value is not None}
        return await self._create(NODE_POOLS, name, spec=merged)

    async def target(self, name: str = "workers") -> int:
        """Return a pool's targetNodes."""
        pool = await self.kube.get(NODE_POOLS, namespace=self.namespace, name=name)
        return int(pool["spec"]["targetNodes"])

    async def set_target(self, target: int, name: str = "workers") -> None:
        """Edit targetNodes as a person does."""
        body = {"spec": {"targetNodes": target}}
        await self.kube.patch(NODE_POOLS, namespace=self.namespace, name=name, body=body)

    async def pending(self, *names: str, memory: str = "28Gi", **spec: Any) -> None:
        """Create pods that the scheduler found no room for."""
        for name in names:
            await self._pod(name, memory=memory, spec=spec, status={"conditions": [UNSCHEDULABLE]})

    async def bound(self, name: str, *, node: str, phase: str = "Running", memory: str = "1Gi") -> None:
        """Create a pod that is on a node."""
        await self._pod(name, memory=memory, spec={"nodeName": node}, status={"phase": phase})

    async def node(self, name: str, *, pool: Object, memory: str = "90Gi") -> str:
        """Create a node of a pool that stays Ready, as kwok plays its kubelet; return its name, this test's own."""
        full = f"{self.namespace}-{name}"
        labels = {
            **self.mine,
            FAKE_NODE_LABEL: "fake",
            "aws.ansible-operator.io/nodepool": pool["metadata"]["name"],
            "aws.ansible-operator.io/nodepool-uid": pool["metadata"]["uid"],
            "node.kubernetes.io/instance-type": pool["spec"]["instanceType"],
        }
        self.nodes.append(full)
        await self._create(NODES, full, spec={}, labels=labels)
        offers = {"cpu": "8", "memory": memory, "pods": "110"}
        status = {"allocatable": offers, "capacity": offers}
        await self.kube.patch(NODES, name=full, body={"status": status}, subresource="status")
        await wait_until(lambda: self._is_open(full), what=f"{full} to be Ready and without a taint")
        return full

    async def refused(self, name: str, *, pool: Object, reason: str) -> None:
        """Create a machine of a pool that AWS refused to launch."""
        owner = {"apiVersion": pool["apiVersion"], "kind": pool["kind"]}
        owner |= {"name": pool["metadata"]["name"], "uid": pool["metadata"]["uid"]}
        spec = {name: pool["spec"][name] for name in ("region", "imageId", "instanceType")}
        await self._create(EC2_INSTANCES, name, spec=spec, ownerReferences=[owner])
        condition = {"type": "Ready", "status": "False", "reason": reason, "message": f"AWS answered {reason}: no"}
        body = {"status": {"conditions": [condition]}}
        await self.kube.patch(EC2_INSTANCES, namespace=self.namespace, name=name, body=body, subresource="status")

    async def _is_open(self, node: str) -> bool:
        found = await self.kube.get(NODES, name=node)
        ready = [item for item in conditions_of(found) if item["type"] == "Ready" and item["status"] == "True"]
        return bool(ready) and not found["spec"].get("taints")

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        path = PODS.path(namespace=self.namespace, name=name)
        call = Call(verb="delete", resource="pods", namespace=self.namespace, name=name)
        await self.kube.request("DELETE", f"{path}?gracePeriodSeconds=0", call=call)

    async def run(self, name: str = SCALER) -> Run:
        """Run the role once; it must succeed."""
        run = await self.bench.run(name=name)
        assert run.ok, run.output[-4000:]
        return run

    async def _pod(self, name: str, *, memory: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        with contextlib.suppress(AlreadyExists):  # made by a controller, where there is one
            await self.kube.create(SERVICE_ACCOUNTS, namespace=self.namespace, body=account)
        container = {"name": "main", "image": "x", "resources": {"requests": {"memory": memory}}}
        least = {"containers": [container], "schedulerName": "nobody", "nodeSelector": dict(self.mine)}
        await self._create(PODS, name, spec={**least, **spec}, annotations=MAY_MOVE)
        await self.kube.patch(PODS, namespace=self.namespace, name=name, body={"status": status}, subresource="status")

    async def _create(self, resource: Resource, name: str, *, spec: Mapping[str, Any], **meta: Any) -> Object:
        where = {"namespace": self.namespace} if resource.namespaced else {}
        body = {
            "apiVersion": resource.gvk.api_version,
            "kind": resource.gvk.kind,
            "metadata": {"name": name, **where, **meta},
            "spec": spec,
        }
        return await self.kube.create(resource, body=body, namespace=self.namespace if where else "")


def left_out(run: Run) -> dict[str, str]:
    """Return why pods were left out, by their names."""
    return {item["pod"].partition("/")[2]: item["reason"] for item in run.status.get("leftOutPods") or []}


def moves(run: Run) -> list[tuple[int, int]]:
    """Return the decisions that the status tells."""
    return [(item["from"], item["to"]) for item in run.status.get("decisions") or []]
