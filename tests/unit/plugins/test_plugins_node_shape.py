"""What a new node of a pool will look like, learnt from those that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.packing import pack
from ansible_collections.aws_operator.core.plugins.module_utils.pools import Pool, places_of, pool_of
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import amounts

from tests.unit.plugins.cluster_builders import (
    leaving_node,
    make_facts,
    make_node,
    make_pod,
    make_pool_object,
)
from tests.unit.plugins.pool_world import make_instance_object

ZONE = "topology.kubernetes.io/zone"
TYPE = "node.kubernetes.io/instance-type"
ONE_ZONE = {"zones": {"workers": ["eu-central-1a"]}}
AGENT = {"key": "agent", "value": "no", "effect": "NoSchedule"}


def joined(number: int, **node: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a node and the EC2Instance that it runs on, as kubeadm joins them: without labels of a cloud."""
    instance_id = f"i-{number:017d}"
    found = make_node(f"n{number}", providerID=f"aws:///eu-central-1a/{instance_id}", **node)
    return found, make_instance_object(f"workers-{number}", instanceId=instance_id, state="running")


def learnt(*pairs: tuple[dict[str, Any], dict[str, Any]], facts: Mapping[str, Any] | None = None, **spec: Any) -> Pool:
    """Return the pool as its nodes show it."""
    found = make_facts(*(node for node, _ in pairs), instances=[item for _, item in pairs], **(facts or {}))
    pool: Pool = pool_of(make_pool_object(targetNodes=len(pairs), **spec), found)
    return pool


def test_nodes_without_labels_of_a_cloud_tell_what_a_new_one_offers() -> None:
    """A kubeadm node is known by its EC2Instance: its room counts, and the labels that it lacks aren't promised."""
    pool = learnt(joined(1, memory="90Gi"), facts=ONE_ZONE, memoryGiB=96)
    assert pool.offers == amounts({"cpu": "8", "memory": "90Gi", "pods": "110"})
    assert {ZONE, TYPE} & {*pool.labels, *pool.vague} == set()


@pytest.mark.parametrize("key", [ZONE, TYPE, "kubernetes.io/os"])
def test_label_that_no_node_has_raises_nothing(key: str) -> None:
    """A pod that asks for a label which spec and AWS promise, and the pool's nodes lack, doesn't raise the pool."""
    node, instance = joined(1, memory="1Gi")
    value = {ZONE: "eu-central-1a", TYPE: "m5.large", "kubernetes.io/os": "linux"}[key]
    obj, facts = make_pool_object(targetNodes=1), make_facts(node, instances=[instance], **ONE_ZONE)
    pod = make_pod(memory="1Mi", spec={"nodeSelector": {key: value}})
    packing = pack([pod], pools=[pool_of(obj, facts)], places=places_of(facts, [], pools=[obj]))
    assert packing.targets == {"workers": 1}
    assert packing.verdicts[0].reason == f"no pool satisfies its node selector {key}={value}"
    first = pack([pod], pools=[pool_of(make_pool_object(memoryGiB=8), make_facts(**ONE_ZONE))])
    assert first.targets == {"workers": 1}  # nobody knows better while there is no node


def test_labels_that_all_nodes_have_are_promised() -> None:
    """What every node of the pool has, whoever set it, a new one is expected to have; what one of two has isn't."""
    pool = learnt(joined(1, labels={"rack": "r", "disk": "ssd"}), joined(2, labels={"rack": "r"}), labels={"tier": "x"})
    assert (pool.labels["rack"], pool.labels["tier"]) == ("r", "x")
    assert "disk" not in pool.labels
    assert pool.template("new").labels["kubernetes.io/hostname"] == "new"


def test_label_with_several_values_is_vague() -> None:
    """A label that all nodes have with different values will be there, and nobody knows how."""
    pool = learnt(joined(1, labels={"rack": "r1"}), joined(2, labels={"rack": "r2"}))
    assert "rack" not in pool.labels
    assert pool.vague == {"rack"}


@pytest.mark.parametrize(
    ("zones", "promised", "vague"),
    [(["eu-central-1a"], "eu-central-1a", False), (["eu-central-1a", "eu-central-1b"], None, True), ([], None, True)],
)
def test_zone_of_the_nodes_is_promised_only_by_a_pool_of_one(
    zones: list[str], promised: str | None, *, vague: bool
) -> None:
    """Where the pool may launch elsewhere, the zone of the nodes that are there isn't that of the next one."""
    pool = learnt(joined(1, labels={ZONE: "eu-central-1a"}), facts={"zones": {"workers": zones}})
    assert (pool.labels.get(ZONE), ZONE in pool.vague) == (promised, vague)


def test_type_is_not_promised_by_a_pool_of_several() -> None:
    """Nodes that happen to be of one type don't promise it where the next may be of another."""
    pool = learnt(joined(1, labels={TYPE: "m5.large"}), instanceTypes=["m5.xlarge"])
    assert TYPE not in {*pool.labels, *pool.vague}


def test_nodes_of_a_former_type_tell_nothing() -> None:
    """A node whose EC2Instance is of a type that the pool no longer has doesn't count."""
    pool = learnt(joined(1, memory="4Gi"), instanceType="m5.xlarge", memoryGiB=96)
    assert pool.offers["memory"] == 96 * 2**30


def test_taints_that_stay_are_expected_of_a_new_node() -> None:
    """A taint that all nodes kept after their start, though no spec asks for it, keeps pods from new ones too."""
    pool = learnt(joined(1, taints=[AGENT]), joined(2, taints=[AGENT]))
    assert list(pool.taints) == [AGENT]
    assert list(learnt(joined(1, taints=[AGENT]), joined(2)).taints) == []
    assert list(learnt(joined(1, taints=[AGENT], since=60)).taints) == []


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
UPKEEP = {"key": "upkeep", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "node",
    [
        make_node(taints=[CORDON], unschedulable=True),
        make_node(taints=[{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]),
        make_node(taints=[{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}]),
        make_node(taints=[CORDON, UPKEEP], unschedulable=True),
        {**leaving_node("n1"), "spec": {"taints": [UPKEEP]}},
    ],
)
def test_what_befell_the_nodes_is_not_expected_of_a_new_one(node: dict[str, Any]) -> None:
    """A pool whose only node is cordoned, goes or is under pressure grows: those taints aren't the bootstrap's."""
    labels = {**node["metadata"]["labels"], TYPE: "m5.large"}  # so that the pool learns from it
    facts = make_facts({**node, "metadata": {**node["metadata"], "labels": labels}})
    obj = make_pool_object(targetNodes=1)
    found = pack([make_pod()], pools=[pool_of(obj, facts)], places=places_of(facts, [], pools=[obj]))
    assert pool_of(obj, facts).offers["memory"] == 16 * 2**30
    assert list(pool_of(obj, facts).taints) == []
    assert found.verdicts[0].outcome in {"Grows", "Coming"}


def test_cordoned_node_is_no_witness_against_a_taint_that_stays() -> None:
    """A taint that the uncordoned nodes have is the bootstrap's, whatever the cordoned ones have."""
    pool = learnt(joined(1, taints=[AGENT]), joined(2, taints=[CORDON], unschedulable=True))
    assert list(pool.taints) == [AGENT]


def test_daemon_sets_are_counted_as_the_nodes_show() -> None:
    """A DaemonSet that selects a label which the nodes lack takes nothing of a new one."""
    daemon = {"spec": {"template": make_pod("agent", memory="1Gi", spec={"nodeSelector": {TYPE: "m5.large"}})}}
    assert learnt(joined(1), facts={"daemon_sets": [daemon]}).offers["memory"] == 16 * 2**30
    labelled = joined(1, labels={TYPE: "m5.large"})
    assert learnt(labelled, facts={"daemon_sets": [daemon]}).offers["memory"] == 15 * 2**30
