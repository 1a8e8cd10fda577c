"""Runs the role `node_pool` as the runtime does, one run at a time, against the plane's API server; AWS isn't there.

Machines are EC2Instance objects whose status a test writes, as their own role would; Nodes and pods are plain objects.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.clock import SystemClock
from runner.errors import NotFound
from runner.execution.launcher import Launcher
from runner.execution.play import PlayExecutor
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings
from runner.testing.cluster import SECRETS
from runner.testing.executor import run_request
from runner.testing.kubeconfig import GivenKubeconfig
from runner.watches.model import Content, Finalizer, Watch
from tests.content.ec2_instance.role_harness import EC2_INSTANCES, EVENTS, IMAGE, ROOT, environ_of_runs

NODE_POOLS = Resource(gvk=GVK("aws.ansible-operator.io", "v1alpha1", "NodePool"), plural="nodepools")
NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
BUDGETS = Resource(gvk=GVK("policy", "v1", "PodDisruptionBudget"), plural="poddisruptionbudgets")
TOKEN = "abcdef.0123456789abcdef"
BOOTSTRAP = {
    "type": "kubeadm",
    "server": "https://10.0.0.10:6443",
    "caBundle": "PEM",
    "tokenSecretRef": {"name": "join"},
}
SPEC = {"imageId": IMAGE, "instanceType": "m5.large", "bootstrap": BOOTSTRAP}
REMOVING = "aws.ansible-operator.io/removing-since"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, kw_only=True)
class PoolRun:
    """What one run did."""

    ok: bool
    changed: int
    period: float
    """Seconds until the next run that it asked for; 0 where it asked for none."""
    output: str
    status: Mapping[str, Any]
    """The pool's, after the run."""

    def condition(self, name: str) -> Mapping[str, Any]:
        """Return a condition of the pool, empty where there is none."""
        found = [item for item in self.status.get("conditions") or [] if item["type"] == name]
        return found[0] if found else {}

    @property
    def ready(self) -> Mapping[str, Any]:
        """Return the `Ready` condition."""
        return self.condition("Ready")

    @property
    def scale(self) -> tuple[str, int, int]:
        """Return `scaleOperation`, `currentNodes` and `readyNodes`."""
        return self.status["scaleOperation"], self.status["currentNodes"], self.status["readyNodes"]

    @property
    def phases(self) -> dict[str, str]:
        """Return the phase of each machine."""
        return {item["name"]: item["phase"] for item in self.status.get("nodes") or []}


@dataclass(frozen=True, kw_only=True)
class PoolSite:
    """One namespace with the pool `workers`, and what plays machines, kubelets and pods there."""

    kube: KubeClient
    namespace: str
    kubelets: dict[str, bool] = field(default_factory=dict)
    """What the kubelet of each machine says of its Node: whether it's Ready."""

    async def create(self, *, name: str = "workers", token: str = TOKEN, **spec: Any) -> Object:
        """Create the pool and, if there is a *token*, the Secret that it takes it from."""
        if token:
            await self.put_token(token)
        body: Object = {"apiVersion": NODE_POOLS.gvk.api_version, "kind": "NodePool", "metadata": {"name": name}}
        return await self.kube.create(NODE_POOLS, body={**body, "spec": {**SPEC, **spec}}, namespace=self.namespace)

    async def put_token(self, token: str = TOKEN) -> None:
        """Create the Secret with the token."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "join"}, "stringData": {"token": token}}
        await self.kube.create(SECRETS, body=body, namespace=self.namespace)

    async def get(self, name: str = "workers") -> Object:
        """Read the pool."""
        return await self.kube.get(NODE_POOLS, namespace=self.namespace, name=name)

    async def patch(self, **spec: Any) -> Object:
        """Change the pool's spec."""
        return await self.kube.patch(NODE_POOLS, namespace=self.namespace, name="workers", body={"spec": spec})

    async def scale(self, replicas: int) -> None:
        """Set the target as `kubectl scale` does."""
        body = {"spec": {"replicas": replicas}}
        await self.kube.patch(NODE_POOLS, namespace=self.namespace, name="workers", body=body, subresource="scale")

    async def instances(self) -> dict[str, Object]:
        """Return the EC2Instances by name."""
        found = await self.kube.list(EC2_INSTANCES, namespace=self.namespace)
        return {str(item["metadata"]["name"]): item for item in found}

    async def machine(self, name: str, **spec: Any) -> Object:
        """Create an EC2Instance that the pool owns, as a run of it does."""
        pool = await self.get()
        owner = {key: pool[key] for key in ("apiVersion", "kind")}
        owner |= {"name": "workers", "uid": pool["metadata"]["uid"], "controller": True}
        body = {
            "apiVersion": EC2_INSTANCES.gvk.api_version,
            "kind": "EC2Instance",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"imageId": IMAGE, "instanceType": "m5.large", **spec},
        }
        return await self.kube.create(EC2_INSTANCES, body=body, namespace=self.namespace)

    async def launched(self, name: str) -> None:
        """Let AWS have launched a machine."""
        status = {"instanceId": self.machine_id(name), "state": "running", "availabilityZone": "us-east-1a"}
        await self.set_status(name, **status, launchAttempt=1)

    async def set_status(self, name: str, **status: Any) -> None:
        """Write the status of an EC2Instance."""
        await self.kube.patch(
            EC2_INSTANCES, namespace=self.namespace, name=name, body={"status": status}, subresource="status"
        )

    async def refused(self, name: str, reason: str) -> None:
        """Let AWS have refused a launch."""
        ready = {"type": "Ready", "status": "False", "reason": reason, "message": f"AWS answered {reason}"}
        await self.set_status(name, launchAttempt=1, conditions=[ready])

    def machine_id(self, name: str) -> str:
        """Return the id of a machine in EC2, which no other namespace's has."""
        return f"i-{self.namespace.removeprefix('test-')}{name.rpartition('-')[2].zfill(9)}"

    def node_name(self, name: str) -> str:
        """Return the name of a machine's Node, which no other namespace's has."""
        return f"{self.namespace}-{name}"

    async def joined(self, name: str, *, ready: bool = True, **parts: Any) -> None:
        """Let a machine have become a Node."""
        provider = f"aws:///us-east-1a/{self.machine_id(name)}"
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.node_name(name), **parts},
            "spec": {"providerID": provider},
        }
        await self.kube.create(NODES, body=body)
        await self.set_ready(name, ready=ready)

    async def runs(self, name: str) -> bool:
        """Tell whether a machine runs, as its EC2Instance says."""
        found = (await self.instances()).get(name) or {}
        return (found.get("status") or {}).get("state") == "running"

    async def registered(self, name: str) -> None:
        """Let a machine that the operator launched have become a Node, which isn't Ready yet."""
        status = (await self.instances())[name]["status"]
        provider = f"aws:///{status['availabilityZone']}/{status['instanceId']}"
        body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node_name(name)}}
        await self.kube.create(NODES, body={**body, "spec": {"providerID": provider}})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Let a kubelet say whether its Node is Ready."""
        self.kubelets[name] = ready
        await self.beat()

    async def beat(self) -> None:
        """Let the kubelets say again what they said: after a minute of silence a Node isn't Ready any more."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name, ready in self.kubelets.items():
            condition = {"type": "Ready", "status": str(ready), "lastHeartbeatTime": now}
            body = {"status": {"conditions": [condition], "allocatable": {"cpu": "4", "memory": "8Gi"}}}
            with contextlib.suppress(NotFound):
                await self.kube.patch(NODES, name=self.node_name(name), body=body, subresource="status")

    async def node(self, name: str) -> Object:
        """Read a machine's Node."""
        return await self.kube.get(NODES, name=self.node_name(name))

    async def grown(self, number: int, **spec: Any) -> None:
        """Create the pool with so many Ready nodes, as runs before left it."""
        await self.create(targetNodes=number, **spec)
        for serial in range(1, number + 1):
            await self.machine(f"workers-{serial}")
            await self.launched(f"workers-{serial}")
            await self.joined(f"workers-{serial}")

    async def put_pod(self, name: str, *, node: str, memory: str = "64Mi", **metadata: Any) -> None:
        """Let a pod run on a machine's Node."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}, **metadata},
            "spec": {
                "nodeName": self.node_name(node),
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {"name": "main", "image": "registry.invalid/main", "resources": {"requests": {"memory": memory}}}
                ],
            },
        }
        await self.kube.create(PODS, body=body, namespace=self.namespace)
        await self.kube.patch(
            PODS, namespace=self.namespace, name=name, body={"status": {"phase": "Running"}}, subresource="status"
        )

    async def pod_goes(self, name: str) -> None:
        """Let a kubelet have ended a pod."""
        await self.kube.delete(PODS, namespace=self.namespace, name=name, options={"gracePeriodSeconds": 0})

    async def going_pods(self) -> list[str]:
        """Return the pods that were told to go."""
        pods = await self.kube.list(PODS, namespace=self.namespace)
        return sorted(str(pod["metadata"]["name"]) for pod in pods if pod["metadata"].get("deletionTimestamp"))

    async def guard(self, app: str) -> None:
        """Protect the pods of *app* by a disruption budget that allows nothing."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec}
        await self.kube.create(BUDGETS, body=body, namespace=self.namespace)

    async def events(self) -> set[str]:
        """Return the reasons of the Events on the pool."""
        found = await self.kube.list(EVENTS, namespace=self.namespace)
        return {str(item["reason"]) for item in found if item["involvedObject"]["kind"] == "NodePool"}

    async def release(self) -> None:
        """Take every finalizer off, so that the namespace can go."""
        for resource in (NODE_POOLS, EC2_INSTANCES):
            for obj in await self.kube.list(resource, namespace=self.namespace):
                body = {"metadata": {"finalizers": None}}
                await self.kube.patch(resource, namespace=self.namespace, name=obj["metadata"]["name"], body=body)

    async def clean(self) -> None:
        """Remove the Nodes, which no namespace takes along."""
        for node in await self.kube.list(NODES):
            if node["metadata"]["name"].startswith(f"{self.namespace}-"):
                await self.kube.delete(NODES, name=node["metadata"]["name"])


@dataclass(frozen=True, kw_only=True)
class PoolBench(PoolSite):
    """A site where single runs of the role are started."""

    kubeconfig: Path
    folder: Path
    endpoint: str
    warm: Launcher
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def watch(self) -> Watch:
        """Return the kind's watch as `watches.yaml` has it, with a play that gathers no facts around the role."""
        play = [{"hosts": "localhost", "gather_facts": False, "roles": ["node_pool"]}]
        path = self.folder / "play.json"
        path.write_text(json.dumps(play))
        roles = self.folder / "roles"
        if not roles.exists():
            roles.symlink_to(ROOT / "roles")
        playbook = ROOT / "playbooks" / "nodepool_finalizer.yml"
        return Watch(
            gvk=NODE_POOLS.gvk,
            content=Content(playbook=path),
            vars=self.variables,
            mark_unsafe=True,
            finalizer=Finalizer(name="aws.ansible-operator.io/nodepool", content=Content(playbook=playbook)),
        )

    def with_variables(self, **variables: Any) -> PoolBench:
        """Return a bench whose runs have these variables too."""
        return replace(self, variables={**self.variables, **variables})

    async def run(self, *, finalizing: bool = False, obj: Object | None = None) -> PoolRun:
        """Run the role once for the pool as it is now, or for *obj* as somebody saw it before."""
        await self.beat()
        seen = obj or await self.get()
        ident = str(secrets.randbits(63))
        settings = ExecutionSettings(runner_dir=self.folder / "runner" / ident, environ=environ_of_runs(self.endpoint))
        executor = PlayExecutor(
            settings=settings,
            launcher=self.warm,
            kubeconfigs=GivenKubeconfig(self.kubeconfig),
            clock=SystemClock(),
            logger=Logger(sink=RecordingSink()),
        )
        request = run_request(watch=self.watch, obj=seen, finalizing=finalizing)
        outcome = await executor.run(replace(request, ident=ident, verbosity=2))
        printed = "" if outcome.artifacts is None else (outcome.artifacts / "stdout").read_text(errors="replace")
        return PoolRun(
            ok=outcome.success,
            changed=outcome.stats.changed if outcome.stats else -1,
            period=outcome.requeue_after.total_seconds() if outcome.requeue_after else 0.0,
            output=_COLOUR.sub("", printed),
            status=(await self.get()).get("status") or {},
        )
