"""Which Node is which machine's, where the kubelet's own template says little."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.node_matching import index_of

from tests.unit.plugins.cluster_builders import POOL_UID, ago, make_node, make_pool_object
from tests.unit.plugins.pool_world import World, kinds, make_instance_object

CUSTOM = {"type": "custom", "userDataTemplate": "#!/bin/sh"}
MACHINE = make_instance_object(
    instanceId="i-0123", privateIp="10.0.0.7", state="running", launchTime=ago(120), availabilityZone="us-east-1a"
)


def stranger(name: str = "n1", *, since: float = 60, uid: str = "", addresses: Any = (), **spec: Any) -> dict[str, Any]:
    """Return a Node that came *since* seconds ago, with the label of a pool where there is a *uid*."""
    node = make_node(name, since=since, pool_uid=uid, **spec)
    if not uid:
        node["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    node["status"]["addresses"] = [{"type": kind, "address": address} for kind, address in addresses]
    return node


def found(*nodes: dict[str, Any], bootstrap: dict[str, Any] | None = None) -> str:
    """Return the name of the machine's Node, empty for none."""
    index = index_of(nodes, pool=make_pool_object(bootstrap=bootstrap or CUSTOM))
    node = index.node_of(MACHINE)
    return str(node["metadata"]["name"]) if node else ""


@pytest.mark.parametrize(
    "node",
    [
        stranger(addresses=[("InternalIP", "fd00::7"), ("InternalIP", "10.0.0.7")]),
        stranger("ip-10-0-0-7.ec2.internal"),
        stranger("i-0123.us-east-1.compute.internal"),
        stranger("i-0123"),
        stranger(addresses=[("Hostname", "ip-10-0-0-7")]),
        stranger(addresses=[("InternalDNS", "ip-10-0-0-7.ec2.internal")]),
        stranger(addresses=[("InternalIP", "10.0.0.7")], providerID="k3s://n1"),
    ],
)
def test_node_is_known_by_address_and_host_name(node: dict[str, Any]) -> None:
    """A Node without label and provider id is the machine's by its private address, or by the names that EC2 gives."""
    assert found(node) == node["metadata"]["name"]
    assert found(node, bootstrap={"type": "kubeadm"}) == ""


@pytest.mark.parametrize(
    "node",
    [
        stranger(addresses=[("ExternalIP", "10.0.0.7")]),
        stranger("ip-10-0-0-70", addresses=[("InternalIP", "10.0.0.70")]),
        stranger(since=121, addresses=[("InternalIP", "10.0.0.7")]),
        stranger(uid="another", addresses=[("InternalIP", "10.0.0.7")]),
        stranger(addresses=[("InternalIP", "10.0.0.7")], providerID="aws:///us-east-1a/i-other"),
        stranger(addresses=[("InternalIP", "10.0.0.7")], providerID="gce://project/zone/n1"),
    ],
)
def test_other_nodes_are_never_taken(node: dict[str, Any]) -> None:
    """A Node that is older than the machine, another pool's, another instance's or another provider's isn't its own."""
    assert found(node) == ""


def test_machine_that_two_nodes_may_be_has_none() -> None:
    """Where an address and a name lead to two Nodes nobody guesses; a provider id tells at once."""
    both = [stranger("n1", addresses=[("InternalIP", "10.0.0.7")]), stranger("ip-10-0-0-7")]
    assert found(*both) == ""
    assert found(*both, stranger("n3", providerID="aws:///us-east-1a/i-0123")) == "n3"


def test_node_of_a_custom_template_joins_its_pool() -> None:
    """It gets labels and provider id like any other, and its machine isn't replaced at its registrationTimeout."""
    world = World.of(targetNodes=1, bootstrap=CUSTOM, registrationTimeout="1m")
    world.instances["workers-1"] = MACHINE
    world.nodes["n1"] = stranger(addresses=[("InternalIP", "10.0.0.7")])
    assert kinds(world) == ["SetNode"]
    assert world.pool["status"]["nodes"][0]["node"] == "n1"
    assert world.nodes["n1"]["spec"]["providerID"] == "aws:///us-east-1a/i-0123"
    assert kinds(world) == []


def test_machine_of_a_custom_template_that_is_not_known_is_explained() -> None:
    """Where machines of a template never become known Nodes, the condition says by what they would be."""
    world = World.of(targetNodes=1, bootstrap=CUSTOM)
    world.pool["status"] |= {"registrationFailures": 3, "lastRegistrationFailure": ago(10)}
    world.run()
    assert world.condition("Ready")["reason"] == "RegistrationFailed"
    assert "has to give the kubelet ${labels} or its provider id" in world.condition("Ready")["message"]
    world.pool["spec"]["bootstrap"] = {"type": "kubeadm"}
    world.run()
    assert "${labels}" not in world.condition("Ready")["message"]


@pytest.mark.parametrize(
    "addresses",
    [[("InternalIP", "fd00::7"), ("InternalIP", "10.0.0.7")], [("Hostname", "ip-10-0-0-7")], []],
    ids=["second address", "host name", "nothing"],
)
def test_node_of_a_custom_template_is_never_lost_while_it_is_there(addresses: Any) -> None:
    """Once it has the pool's label it stays its machine's Node, also where its provider id is k3s's own."""
    world = World.of(targetNodes=1, bootstrap=CUSTOM)
    world.instances["workers-1"] = MACHINE
    world.nodes["n1"] = stranger(addresses=[("InternalIP", "10.0.0.7")], providerID="k3s://n1")
    assert kinds(world) == ["SetNode"]
    world.nodes["n1"]["status"]["addresses"] = [{"type": kind, "address": address} for kind, address in addresses]
    for _ in range(3):
        assert kinds(world) == []
        (entry,) = world.pool["status"]["nodes"]
        assert (entry["node"], entry["phase"]) == ("n1", "Ready")


def test_node_that_came_under_the_name_of_another_is_its_own_machines() -> None:
    """What the status remembers gives way to what another machine's address says."""
    world = World.of(targetNodes=2, bootstrap=CUSTOM)
    gone = {"instanceId": "i-0001", "privateIp": "10.0.0.1", "state": "running", "launchTime": ago(900)}
    world.instances["workers-1"] = make_instance_object("workers-1", **gone, availabilityZone="us-east-1a")
    world.instances["workers-2"] = {**MACHINE, "metadata": {**MACHINE["metadata"], "name": "workers-2"}}
    world.pool["status"]["nodes"] = [{"name": "workers-1", "node": "n1", "instanceId": "i-0001", "phase": "Ready"}]
    world.nodes["n1"] = stranger(addresses=[("InternalIP", "10.0.0.7")], uid=POOL_UID)
    world.run()
    found = {entry["name"]: (entry.get("node"), entry["phase"]) for entry in world.pool["status"]["nodes"]}
    assert found["workers-2"] == ("n1", "Ready")
    assert found["workers-1"][1] == "Lost"
