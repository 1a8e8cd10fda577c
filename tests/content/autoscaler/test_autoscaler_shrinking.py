"""What makes pools shrink: nodes whose pods fit elsewhere, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.testing.identities import new_identity
from tests.content.autoscaler.scaling_scene import NODES, ScalingScene, moves
from tests.content.ec2_instance.role_harness import ROOT

RBAC = "rbac.authorization.k8s.io"
BUDGETS = Resource(gvk=GVK("policy", "v1", "PodDisruptionBudget"), plural="poddisruptionbudgets")
CLUSTER_ROLES = Resource(gvk=GVK(RBAC, "v1", "ClusterRole"), plural="clusterroles", namespaced=False)
BINDINGS = Resource(gvk=GVK(RBAC, "v1", "ClusterRoleBinding"), plural="clusterrolebindings", namespaced=False)


async def test_a_pool_shrinks_only_when_pods_fit_elsewhere(scene: ScalingScene) -> None:
    """Two half-full nodes stay as long as neither's pods fit on the other, and one goes when they do."""
    pool = await scene.pool(targetNodes=2)
    now = {"unneededFor": "0s", "cooldown": "0s", "utilizationThreshold": 100}
    await scene.autoscaler(scaleDown=now)
    nodes = [await scene.node(name, pool=pool) for name in ("n1", "n2")]
    await scene.bound("a", node=nodes[0], memory="60Gi")
    await scene.bound("b", node=nodes[1], memory="50Gi")
    full = await scene.run()
    assert (await scene.target(), moves(full), full.status.get("unneededNodes")) == (2, [], None)
    await scene.delete("b")
    spare = await scene.run()
    assert (await scene.target(), moves(spare)) == (1, [(2, 1)])
    assert spare.status["decisions"][0]["why"] == f"not needed: {nodes[1]}"
    assert (spare.status["lastScaleDownTime"], await scene.bench.events()) == (
        spare.status["lastEvaluationTime"],
        ["ScaledDown"],
    )


async def test_a_node_whose_pods_may_not_go_stays(scene: ScalingScene) -> None:
    """A budget that allows no disruption keeps the node, and so do the pods of one that a person cordoned."""
    pool = await scene.pool(targetNodes=2)
    await scene.autoscaler(scaleDown={"unneededFor": "0s", "cooldown": "0s", "utilizationThreshold": 100})
    nodes = [await scene.node(name, pool=pool) for name in ("n1", "n2")]
    await scene.bound("a", node=nodes[0], memory="60Gi")
    await scene.bound("b", node=nodes[1], memory="20Gi")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 2, "selector": {}},
    }
    await scene.kube.create(BUDGETS, namespace=scene.namespace, body=budget)
    held = await scene.run()
    assert (await scene.target(), moves(held), held.status.get("unneededNodes")) == (2, [], None)
    await scene.kube.delete(BUDGETS, namespace=scene.namespace, name="all")
    await scene.kube.patch(NODES, name=nodes[0], body={"spec": {"unschedulable": True}})
    cordoned = await scene.run()
    assert (await scene.target(), cordoned.status.get("unneededNodes")) == (2, None)
    await scene.kube.patch(NODES, name=nodes[0], body={"spec": {"unschedulable": False}})
    free = await scene.run()
    assert (await scene.target(), free.status["decisions"][0]["why"]) == (1, f"not needed: {nodes[1]}")


async def test_the_managers_role_is_enough(scene: ScalingScene, tmp_path: Path) -> None:
    """An evaluation that scales needs no right that config/rbac/role.yaml doesn't give."""
    await scene.pool()
    await scene.autoscaler()
    await scene.pending("p1")
    deployed = next(iter(yaml.safe_load_all((ROOT / "config" / "rbac" / "role.yaml").read_text())))
    name = f"manager-{scene.namespace}"
    identity = await new_identity(scene.kube, namespace=scene.namespace)
    await scene.kube.create(CLUSTER_ROLES, body={**deployed, "metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "name": identity.name, "namespace": scene.namespace}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    await scene.kube.create(BINDINGS, body={**head, "roleRef": reference, "subjects": [subject]})
    try:
        kubeconfig = await identity.kubeconfig(tmp_path / "manager", source=scene.bench.kubeconfig)
        await scene.on(replace(scene.bench, kubeconfig=kubeconfig)).run()
        assert (await scene.target(), await scene.bench.events()) == (1, ["ScaledUp"])
    finally:
        await scene.kube.delete(BINDINGS, name=name)
        await scene.kube.delete(CLUSTER_ROLES, name=name)
