"""`make demo SCENARIO=autoscale`: pods wait, machines come, machines go; told while it happens.

The plane's simulated machines boot by the user data that the NodePool role wrote, so what is shown is the way from a
pending pod to a Node and back, with nothing left out but the hardware.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from runner.errors import LocalPlaneError
from runner.localdev import bootstrap
from runner.localdev.ec2.credentials import client_environment
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.state import PlaneOptions
from runner.localdev.story import Story

MANIFESTS = Path(__file__).with_name("demo-autoscale.yaml")
_GROUP = "/apis/aws.ansible-operator.io/v1alpha1/namespaces/default"
_POOL = f"{_GROUP}/nodepools/workers"
_CRDS = ("autoscalers", "ec2instances", "nodepools")
_NEVER = ("without-volume", "for-nobodys-node", "without-secret")
_Rows = list[tuple[str, str, str]]


class AutoscaleDemo(Story):
    """The story of a pool that follows its load."""

    def tell(self, stack: contextlib.ExitStack, *, folder: Path) -> None:
        """Tell it all."""
        plane = self._start(stack, folder=folder)
        self._api = plane.admin()
        self._operator = self._run_operator(stack, folder=folder)
        manifests = [item for item in yaml.safe_load_all(MANIFESTS.read_text()) if item]
        self._define(manifests[:2], plane=plane)
        self._load(manifests[2:])
        self._more()
        self._less()

    def what_next(self) -> None:
        """Say what a person may try next."""
        self.narrator.say("")
        self.narrator.say("What to try next:")
        self.narrator.say(
            "  make demo SCENARIO=autoscale KEEP=1    then scale the Deployment `load` of `prod` yourself"
        )
        self.narrator.say("  docs/local-cluster.md                  how an instance becomes a node on this machine")

    def _start(self, stack: contextlib.ExitStack, *, folder: Path) -> ControlPlane:
        with self.narrator.chapter("A real Kubernetes with one small node, an EC2 emulator, and machines that boot"):
            options = PlaneOptions(nodes=1, ec2=True, join_instances=True)
            plane = self.start_plane(stack, folder=folder, options=options)
            self.environ |= {
                **client_environment(str(plane.ec2_endpoint)),
                "ANSIBLE_GATHERING": "explicit",
            }
            return plane

    def _run_operator(self, stack: contextlib.ExitStack, *, folder: Path) -> OperatorProcess:
        with self.narrator.chapter("The operator: NodePool and Autoscaler are roles, EC2Instance is one"):
            self.quiet("apply", "-k", "crds/")
            names = [f"customresourcedefinition/{name}.aws.ansible-operator.io" for name in _CRDS]
            self.quiet("wait", "--for=condition=Established", *names, "--timeout=60s")
            return self.start_operator(stack, folder=folder, project=self.options.project, follower=self._follow)

    def _define(self, manifests: Sequence[Mapping[str, Any]], *, plane: ControlPlane) -> None:
        with self.narrator.chapter("A pool of machines with 96 GiB, none of them there, and an autoscaler for `prod`"):
            self.quiet("create", "namespace", "prod")
            token = bootstrap.new_token(plane.admin()).text
            self.quiet("create", "-f", "-", stdin=_secret(token))
            texts = [yaml.safe_dump(item, sort_keys=False).replace("SERVER", plane.server) for item in manifests]
            self.narrator.command(["cat", "pool.yaml"], "---\n".join(texts))
            self.kubectl("apply", "-f", "-", stdin="---\n".join(texts))
            self._wait("the pool to be looked at", lambda: _status(self._get(_POOL)).get("currentNodes") == 0)
            self.kubectl("get", "nodepools,autoscalers")

    def _load(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        with self.narrator.chapter("Two pods that need 28 GiB each, and three that no machine would help"):
            self.kubectl(
                "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
            )
            self._wait("both pods to run on a new machine", lambda: self._running() == 2)
            self._expect_target(1)
            self._wait("the pool to rest", self._rests)
            self.kubectl("get", "nodepools,ec2instances")
            self.kubectl("get", "nodes", "-L", "node.kubernetes.io/instance-type,aws.ansible-operator.io/nodepool")
            self.kubectl("get", "pods", "-n", "prod", "-o", "wide")
            self._explain()

    def _explain(self) -> None:
        """Show why three pods were left out."""
        self._wait("the autoscaler to say why pods were left out", lambda: set(_NEVER) == set(self._left_out()))
        for name, reason in self._left_out().items():
            self.narrator.say(f"{name}: {reason}")

    def _more(self) -> None:
        with self.narrator.chapter("Four of these pods: a third fits, the fourth needs a second machine"):
            self.kubectl("scale", "-n", "prod", "deployment/load", "--replicas=4")
            self._wait("all four pods to run", lambda: self._running() == 4)
            self._expect_target(2)
            self._wait("the pool to rest", self._rests)
            self.kubectl("get", "nodepools,autoscalers")

    def _less(self) -> None:
        with self.narrator.chapter("The load goes: drained, terminated, gone, one after the other"):
            self.kubectl("scale", "-n", "prod", "deployment/load", "--replicas=0")
            self._wait("the last machine's Node to be gone", lambda: len(self._nodes()) == 1 and self._rests())
            self._expect_target(0)
            self.kubectl("get", "nodepools,autoscalers,ec2instances")
            self.kubectl("get", "nodes")
            events = "--field-selector=involvedObject.kind!=Pod"
            self.kubectl("get", "events", "--sort-by=.metadata.creationTimestamp", events)

    def _expect_target(self, wanted: int) -> None:
        target = self._get(_POOL)["spec"]["targetNodes"]
        if target != wanted:
            raise LocalPlaneError(
                f"the pool's targetNodes is {target}, and {wanted} was to be expected; please report it"
            )
        self.narrator.event(f"targetNodes is exactly {wanted}")

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait, and show a table of everything meanwhile."""
        with self.narrator.live() as show:

            def met() -> bool:
                self._operator.ready()
                show([*self._pool_rows(), *self._instance_rows(), *self._node_rows(), *self._pod_rows()])
                return condition()

            self.wait(what, met)

    def _pool_rows(self) -> _Rows:
        pool = self._get(_POOL)
        status, target = _status(pool), (pool.get("spec") or {}).get("targetNodes")
        numbers = f"target {target}, current {status.get('currentNodes', '-')}, ready {status.get('readyNodes', '-')}"
        return [("NodePool", "workers", f"{numbers}, {status.get('scaleOperation', '-')}")] if pool else []

    def _instance_rows(self) -> _Rows:
        found = self._list(f"{_GROUP}/ec2instances")
        rows = []
        for item in found:
            status = _status(item)
            leaving = ", being deleted" if item["metadata"].get("deletionTimestamp") else ""
            state = f"{status.get('state', 'new')} {status.get('instanceId', '')}".strip()
            rows.append(("EC2Instance", str(item["metadata"]["name"]), f"{state}{leaving}"))
        return rows

    def _node_rows(self) -> _Rows:
        rows = []
        for node in self._nodes():
            conditions = _status(node).get("conditions") or []
            ready = next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "Unknown")
            state = {"True": "Ready", "False": "NotReady"}.get(ready, ready)
            cordoned = ", cordoned" if (node.get("spec") or {}).get("unschedulable") else ""
            rows.append(("Node", str(node["metadata"]["name"]), f"{state}{cordoned}"))
        return rows

    def _pod_rows(self) -> _Rows:
        rows = []
        for pod in self._pods():
            where = pod["spec"].get("nodeName", "")
            state = f"{_status(pod).get('phase')}{f' on {where}' if where else ''}"
            rows.append(("Pod", str(pod["metadata"]["name"]), state))
        return sorted(rows, key=lambda row: row[2])

    def _running(self) -> int:
        return sum(_status(pod).get("phase") == "Running" for pod in self._pods())

    def _rests(self) -> bool:
        pool = self._get(_POOL)
        status, target = _status(pool), pool["spec"]["targetNodes"]
        return status.get("scaleOperation") == "inactive" and status.get("currentNodes") == target

    def _left_out(self) -> dict[str, str]:
        found = _status(self._get(f"{_GROUP}/autoscalers/workers")).get("leftOutPods") or []
        return {str(one["pod"]).rpartition("/")[2]: str(one["reason"]) for one in found}

    def _nodes(self) -> list[Mapping[str, Any]]:
        return self._list("/api/v1/nodes")

    def _pods(self) -> list[Mapping[str, Any]]:
        return self._list("/api/v1/namespaces/prod/pods")

    def _list(self, path: str) -> list[Mapping[str, Any]]:
        return list((self._api.get(path) or {}).get("items") or [])

    def _get(self, path: str) -> Mapping[str, Any]:
        return self._api.get(path) or {}

    def _follow(self, record: Mapping[str, Any]) -> None:
        """Tell of runs that fail; what goes well is in the table."""
        if record.get("msg") == "[playbook task failed]":
            self.narrator.event(f"FAILED {record.get('EventData.Task') or record.get('task')}")


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    status: Mapping[str, Any] = obj.get("status") or {}
    return status


def _secret(token: str) -> str:
    """Return the secret that the pool's tokenSecretRef names."""
    meta = {"name": "join", "namespace": "default"}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"token": token}})
