"""A little world that carries a pool's plans out: EC2Instances, machines, Nodes and pods as plain objects."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.pool_nodes import (
    POOL_LABEL,
    POOL_UID_LABEL,
    removing_since,
)
from ansible_collections.aws_operator.core.plugins.module_utils.pool_plan import PoolPlan, make_pool_plan
from ansible_collections.aws_operator.core.plugins.module_utils.pool_status import PoolUpdate, pool_update_of
from ansible_collections.aws_operator.core.plugins.module_utils.pool_view import Action, PoolView
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

from tests.unit.plugins.cluster_builders import NOW, POOL_UID, make_pool_object, running_pod

OWNER = {"kind": "NodePool", "name": "workers", "uid": POOL_UID, "controller": True}


def make_instance_object(name: str = "workers-1", *, created: str = "", **parts: Any) -> dict[str, Any]:
    """Return an EC2Instance of the pool; *parts* are its status, or its `spec`."""
    spec = {"instanceType": "m5.large", **parts.pop("spec", {})}
    metadata = {
        "name": name,
        "namespace": "team",
        "ownerReferences": [OWNER],
        "creationTimestamp": created or render(NOW),
    }
    metadata |= parts.pop("metadata", {})
    return {"metadata": metadata, "spec": spec, "status": parts}


def not_ready(reason: str, message: str = "") -> list[dict[str, str]]:
    """Return the conditions of an EC2Instance that failed."""
    return [{"type": "Ready", "status": "False", "reason": reason, "message": message}]


@dataclass(kw_only=True)
class World:
    """What there is, and a log of what was done to it."""

    pool: dict[str, Any]
    now: Any = NOW
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    """Kind of each call and the machine that it was about."""
    most: int = 0
    """The greatest number of machines at any time."""
    launch: Callable[[Mapping[str, Any]], str] = lambda _spec: ""
    """Why AWS refuses to launch, empty where it doesn't."""
    joins: bool = True
    guarded: set[str] = field(default_factory=set)
    """Pods that a disruption budget protects."""
    finalizing: bool = False

    @classmethod
    def of(cls, **spec: Any) -> World:
        """Return a world with an empty pool."""
        return cls(pool=make_pool_object(**spec))

    def view(self) -> PoolView:
        """Return what a run reads."""
        return PoolView(
            pool=copy.deepcopy(self.pool),
            nodes=copy.deepcopy(list(self.nodes.values())),
            instances=copy.deepcopy(list(self.instances.values())),
            pods=copy.deepcopy(list(self.pods.values())),
            now=self.now,
            finalizing=self.finalizing,
        )

    def run(self, *, crash_after: int | None = None) -> PoolPlan:
        """Let the role run once; with *crash_after* it ends after so many actions and writes no status."""
        view = self.view()
        plan: PoolPlan = make_pool_plan(view)
        blocked: list[dict[str, str]] = []
        for number, action in enumerate(plan.actions):
            if crash_after is not None and number >= crash_after:
                return plan
            self._do(action, blocked)
        if crash_after is None:
            self._write(pool_update_of(view, plan, blocked=blocked))
        return plan

    def _write(self, update: PoolUpdate) -> None:
        status = {**self.pool["status"], **update.status, "conditions": list(update.conditions)}
        self.pool["status"] = {name: value for name, value in status.items() if value is not None}

    def tick(self, *, seconds: float = 5) -> None:
        """Let time pass: machines launch and join, pods and terminated machines go."""
        self.now += timedelta(seconds=seconds)
        for name, instance in list(self.instances.items()):
            self._age(name, instance)
        for key, pod in list(self.pods.items()):
            if pod["metadata"].get("deletionTimestamp"):
                del self.pods[key]

    def settle(self, *, runs: int = 40, seconds: float = 5) -> None:
        """Run and let time pass, over and over, until the pool rests."""
        for _ in range(runs):
            plan = self.run()
            self.tick(seconds=seconds)
            if not plan.actions and self.pool["status"]["scaleOperation"] == "inactive":
                return

    def condition(self, name: str) -> dict[str, str]:
        """Return one of the pool's conditions."""
        return next(item for item in self.pool["status"]["conditions"] if item["type"] == name)

    def put_pod(self, name: str, *, node: str, **parts: Any) -> None:
        """Let a pod run on a node."""
        self.pods[name] = running_pod(name, node=node, **parts)

    def _do(self, action: Action, blocked: list[dict[str, str]]) -> None:
        carry_out: dict[str, Callable[[], None]] = {
            "Create": lambda: self._create(action),
            "Delete": lambda: self._delete(action.name),
            "Cordon": lambda: self._patch(action),
            "Uncordon": lambda: self._patch(action),
            "SetNode": lambda: self._patch(action),
            "DeleteNode": lambda: self._forget(action.name),
            "SetPolicy": lambda: self.instances[action.name]["spec"].update(action.body["spec"]),
            "Evict": lambda: self._evict(action, blocked),
        }
        carry_out[action.kind]()

    def _create(self, action: Action) -> None:
        assert action.name not in self.instances, f"{action.name} is made twice"
        body = copy.deepcopy(dict(action.body))
        body["metadata"]["creationTimestamp"] = render(self.now)
        self.instances[action.name] = {**body, "status": {}}
        self.log.append(("Create", action.name))
        self.most = max(self.most, len(self.instances))

    def _delete(self, name: str) -> None:
        self.instances[name]["metadata"]["deletionTimestamp"] = render(self.now)
        self.log.append(("Delete", name))

    def _patch(self, action: Action) -> None:
        node = self.nodes[action.name]
        for part, values in action.body.items():
            for key, value in values.items():
                merged = {**node[part].get(key, {}), **value} if isinstance(value, dict) else value
                node[part][key] = (
                    {k: v for k, v in merged.items() if v is not None} if isinstance(value, dict) else merged
                )
        self.log.append((action.kind, action.name.removeprefix("node-")))

    def _forget(self, name: str) -> None:
        del self.nodes[name]
        self.log.append(("DeleteNode", name.removeprefix("node-")))

    def _evict(self, action: Action, blocked: list[dict[str, str]]) -> None:
        node = self.nodes.get(action.name)
        if node is not None:
            assert node["spec"].get("unschedulable"), "evicted before it was cordoned"
            assert removing_since(node)
            node["metadata"]["annotations"] |= (action.body.get("metadata") or {}).get("annotations") or {}
        for pod in action.pods:
            if pod["name"] in self.guarded:
                blocked.append({"pod": pod["name"], "message": "the budget web allows no disruption"})
            else:
                self.pods[pod["name"]]["metadata"]["deletionTimestamp"] = render(self.now)
        self.log.append(("Evict", action.name.removeprefix("node-")))

    def _age(self, name: str, instance: dict[str, Any]) -> None:
        """Bring one machine forward by one step."""
        status = instance["status"]
        if instance["metadata"].get("deletionTimestamp"):
            del self.instances[name]
            if f"node-{name}" in self.nodes:
                self._set_ready(self.nodes[f"node-{name}"], ready=False)
        elif not status.get("instanceId"):
            refused = self.launch(instance["spec"])
            status["launchAttempt"] = 1
            status["conditions"] = not_ready(refused, "as AWS says") if refused else []
            if not refused:
                self.log.append(("RunInstances", name))
                status |= {"instanceId": f"i-{name}", "state": "running", "launchTime": render(self.now)}
        elif self.joins and f"node-{name}" not in self.nodes:
            self.nodes[f"node-{name}"] = self._node(name)
        elif self.joins:
            self._set_ready(self.nodes[f"node-{name}"], ready=True)

    def _node(self, name: str) -> dict[str, Any]:
        return {
            "metadata": {
                "name": f"node-{name}",
                "creationTimestamp": render(self.now),
                "annotations": {},
                "labels": {POOL_LABEL: "workers", POOL_UID_LABEL: POOL_UID},
            },
            "spec": {"providerID": f"aws:///eu-central-1a/i-{name}"},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": render(self.now)}],
            },
        }

    def _set_ready(self, node: dict[str, Any], *, ready: bool) -> None:
        (item,) = node["status"]["conditions"]
        if item["status"] != str(ready):
            item |= {"status": str(ready), "lastTransitionTime": render(self.now)}


def grown(number: int, **spec: Any) -> World:
    """Return a world whose pool has *number* Ready nodes."""
    world = World.of(targetNodes=number, **spec)
    world.settle(runs=6 + 2 * number)
    assert world.pool["status"]["readyNodes"] == number
    world.log.clear()
    return world


def calls(world: World, kinds: Sequence[str] = ("Cordon", "Evict", "Delete")) -> dict[str, list[str]]:
    """Return what was done to each machine, in order, each kind once."""
    found: dict[str, list[str]] = {}
    for kind, name in world.log:
        if kind in kinds and kind not in found.setdefault(name, []):
            found[name].append(kind)
    return {name: done for name, done in found.items() if done}


def kinds(world: World, **run: Any) -> list[str]:
    """Return the kinds of the actions of one run."""
    return [action.kind for action in world.run(**run).actions]
