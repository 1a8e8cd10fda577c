"""A node whose Pods can be entered: exec, attach, logs and port-forward, answered by a kwok of its own.

The nodes of a local control plane run nothing and serve nothing. `serving_node` adds one to a running plane, whose
simulated kubelet the API server reaches over TLS. A command that is executed in one of its Pods runs on this machine as
the user who runs the tests, and kwok asks nobody who they are: it belongs in a test, for as long as that lasts.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.localdev.components import FAKE_NODE_LABEL, LEASE_SECONDS, STAGES
from runner.localdev.nodes import fake_node
from runner.localdev.pki import Authority
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.localdev.processes import Process, spawn
from runner.testing.cluster import wait_until

NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
_API_VERSION = "kwok.x-k8s.io/v1alpha1"


@dataclass(frozen=True, kw_only=True)
class ServingNode:
    """A node that runs."""

    name: str
    """For a Pod's `spec.nodeName`: the scheduler sends nothing here."""
    log: Path
    """The log of every container on it."""
    process: Process

    def say(self, line: str) -> None:
        """Append a line to the containers' log, in the format that container runtimes write."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"2026-01-01T00:00:00.000000000Z stdout F {line}\n")

    def pod(self, name: str) -> Object:
        """Return a Pod with one container on this node."""
        containers = [{"name": "main", "image": "simulated"}]
        spec = {"nodeName": self.name, "containers": containers, "terminationGracePeriodSeconds": 0}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def serving_node(
    plane: ControlPlane, *, kube: KubeClient, folder: Path, forward_to: int = 1
) -> AsyncIterator[ServingNode]:
    """Add a node to *plane* during the block; every port of its Pods is *forward_to* of this machine."""
    name = f"serving-{secrets.token_hex(4)}"
    (port,) = free_ports(1)
    process = _start(plane, name=name, folder=folder, port=port, forward_to=forward_to)
    try:
        await kube.create(NODES, body=_node(name, port=port))

        async def ready() -> bool:
            assert process.alive(), process.log.read_text(encoding="utf-8")
            node = await kube.get(NODES, name=name)
            return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in node["status"]["conditions"])

        await wait_until(ready, what=f"the node {name} to be Ready")
        yield ServingNode(name=name, log=folder / "containers.log", process=process)
    finally:
        with contextlib.suppress(NotFound):
            await kube.delete(NODES, name=name)
        process.end()


def _start(plane: ControlPlane, *, name: str, folder: Path, port: int, forward_to: int) -> Process:
    log = folder / "containers.log"
    log.touch()
    authority = Authority.load(plane.folder / "pki/ca.crt", folder=folder)
    certificate = authority.issue("kubelet", common_name=f"system:node:{name}", hosts=("127.0.0.1",))
    config = folder / "kwok.yaml"
    config.write_text("\n---\n".join(json.dumps(part) for part in _config(log=log, forward_to=forward_to)))
    kwok = plane.assets.kwok
    assert kwok is not None, "this control plane's programs have no kwok"
    argv = (
        str(kwok),
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={STAGES}",
        f"--config={config}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={FAKE_NODE_LABEL}={name}",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        "--cidr=10.245.0.0/16",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={certificate.with_suffix('.key')}",
    )
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    return spawn("kwok", argv=argv, environ=environ, log=folder / "kwok.log")


def _config(*, log: Path, forward_to: int) -> list[dict[str, Any]]:
    target = {"address": "127.0.0.1", "port": forward_to}
    specs: dict[str, dict[str, Any]] = {
        "ClusterExec": {"execs": [{"local": {"workDir": str(log.parent)}}]},
        "ClusterAttach": {"attaches": [{"logsFile": str(log)}]},
        "ClusterLogs": {"logs": [{"logsFile": str(log), "follow": True}]},
        "ClusterPortForward": {"forwards": [{"target": target}]},
    }
    head = {"apiVersion": _API_VERSION, "metadata": {"name": "all"}}
    return [{**head, "kind": kind, "spec": spec} for kind, spec in specs.items()]


def _node(name: str, *, port: int) -> Object:
    node = fake_node(name, address="127.0.0.1", labels={FAKE_NODE_LABEL: name})
    status = {
        **node["status"],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],  # a host name would have to be resolved
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    taint = {"key": FAKE_NODE_LABEL, "value": name, "effect": "NoSchedule"}
    return {**node, "spec": {"taints": [taint]}, "status": status}
