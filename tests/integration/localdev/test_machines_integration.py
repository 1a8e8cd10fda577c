"""Instances of the EC2 emulator boot by their own user data, join the plane, and go."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of, labels_of, name_of, uid_of
from runner.localdev import assets
from runner.localdev.components import FAKE_NODE_LABEL
from runner.localdev.ec2.control import Ec2Control
from runner.localdev.machines.cloud import SHUTDOWN_TAINT
from runner.localdev.machines.discovery import hashes_of
from runner.localdev.pki import Authority
from runner.localdev.plane import ControlPlane, PlaneOptions
from runner.settings import KubeSettings, environment
from runner.testing.cluster import wait_until
from runner.testing.machines import ClusterToJoin

IMAGE = "ami-0c0ffee0000000001"
NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
UNAUTHORIZED = "refused with 401"

Launch = Callable[..., Awaitable[str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterToJoin]:
    """Give a plane of this module whose instances join; it has no other nodes."""
    found = assets.find(environment(), report=print)
    plane = ControlPlane.start(assets=found, options=PlaneOptions(ec2=True, join_instances=True))
    try:
        Ec2Control(plane.ec2_endpoint or "").configure(pending=0.2, stopping=0.1, shutting_down=0.1)
        yield ClusterToJoin(plane=plane)
    finally:
        plane.stop()


@pytest.fixture
def control(cluster: ClusterToJoin) -> Ec2Control:
    """Give the emulator's control."""
    return Ec2Control(cluster.plane.ec2_endpoint or "")


@pytest.fixture
async def kube(cluster: ClusterToJoin) -> AsyncIterator[KubeClient]:
    """Give an administrator's client of the module's plane."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(cluster.plane.kubeconfig))) as client:
        yield client


@pytest.fixture(scope="module")
def ec2(cluster: ClusterToJoin) -> Iterator[Any]:
    """Give a client of the emulator's EC2."""
    client = boto3.client(
        "ec2",
        region_name="us-east-1",
        endpoint_url=cluster.plane.ec2_endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    yield client
    client.close()


@pytest.fixture
async def launch(ec2: Any, control: Ec2Control) -> AsyncIterator[Launch]:
    """Give a function that launches an instance; all end with the test."""
    launched: list[str] = []

    async def run(user_data: str, *, kind: str = "m5.large") -> str:
        answer = await asyncio.to_thread(
            ec2.run_instances, ImageId=IMAGE, InstanceType=kind, MinCount=1, MaxCount=1, UserData=user_data
        )
        launched.append(answer["Instances"][0]["InstanceId"])
        return launched[-1]

    yield run
    for ident in launched:
        if control.instance(ident).state != "terminated":
            control.terminate(ident)


async def node_of(kube: KubeClient, ident: str) -> Object | None:
    """Return the Node of an instance."""
    found = [node for node in await kube.list(NODES) if node["spec"].get("providerID", "").endswith(f"/{ident}")]
    assert len(found) <= 1, found
    return found[0] if found else None


def ready(node: Object | None) -> str:
    """Return the status of the Node's condition Ready."""
    return next((str(one["status"]) for one in conditions_of(node or {}) if one["type"] == "Ready"), "")


async def is_ready(kube: KubeClient, ident: str) -> Object:
    """Wait until the Node of an instance is Ready, and return it."""

    async def look() -> Object | None:
        node = await node_of(kube, ident)
        return node if ready(node) == "True" else None

    found = await wait_until(look, what=f"the Node of {ident} to be Ready")
    assert found is not None
    return found


def log(cluster: ClusterToJoin, ident: str) -> list[dict[str, Any]]:
    """Return the simulator's log about an instance."""
    text = cluster.plane.log("machines").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [record for record in records if record.get("instance") == ident]


async def complaint(cluster: ClusterToJoin, ident: str) -> str:
    """Wait until the log says that an instance did not join, and return why."""

    async def look() -> str:
        return next((str(one["error"]) for one in log(cluster, ident) if "did not join" in one["msg"]), "")

    return await wait_until(look, what=f"the log to tell why {ident} did not join")


async def test_an_instance_joins_and_runs_a_pod(
    cluster: ClusterToJoin, kube: KubeClient, launch: Launch, control: Ec2Control
) -> None:
    """A launched instance is a Ready Node with labels, taints, providerID and capacity, and a pod runs on it."""
    user_data = cluster.user_data(token=cluster.new_token(), labels="team=a", taints="dedicated=batch:NoSchedule")
    ident = await launch(user_data)
    node = await is_ready(kube, ident)
    record = control.instance(ident)
    assert name_of(node) == f"ip-{record.private_ip.replace('.', '-')}.ec2.internal"
    assert node["spec"]["providerID"] == f"aws:///{record.zone}/{ident}"
    assert {"key": "dedicated", "value": "batch", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert labels_of(node)["team"] == "a"
    assert labels_of(node)["node.kubernetes.io/instance-type"] == "m5.large"
    assert labels_of(node)["topology.kubernetes.io/zone"] == record.zone
    assert node["status"]["capacity"]["cpu"] == "2"
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "on-the-machine", "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"memory": "6Gi"}}}],
            "nodeSelector": {"team": "a"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    await kube.create(PODS, body=pod, namespace="default")

    async def running() -> bool:
        found = await kube.get(PODS, namespace="default", name="on-the-machine")
        return bool(found["status"]["phase"] == "Running" and found["spec"]["nodeName"] == name_of(node))

    await wait_until(running, what="the pod to run on the machine")
    await kube.delete(PODS, namespace="default", name="on-the-machine")


async def test_a_token_and_the_hash_of_the_ca_are_enough(
    cluster: ClusterToJoin, kube: KubeClient, launch: Launch
) -> None:
    """A machine that has only a token and a hash finds the CA in cluster-info, as with `kubeadm join` by hand."""
    (pin,) = hashes_of(cluster.ca_bundle)
    server = cluster.server.removeprefix("https://")
    command = f"kubeadm join {server} --token {cluster.new_token()} --discovery-token-ca-cert-hash {pin}"
    ident = await launch(f"#!/bin/sh\n{command}\n")
    assert ready(await is_ready(kube, ident)) == "True"


async def test_an_eks_machine_joins_by_its_role(cluster: ClusterToJoin, kube: KubeClient, launch: Launch) -> None:
    """EKS's user data has no token: the machine's role is its credential, which the simulator vouches for."""
    encoded = base64.b64encode(cluster.ca_bundle.encode()).decode()
    script = f"/etc/eks/bootstrap.sh demo --b64-cluster-ca {encoded} --apiserver-endpoint {cluster.server}"
    node = await is_ready(kube, await launch(f"#!/bin/bash\n{script}\n"))
    assert node["status"]["capacity"]["pods"] == "29"


async def test_a_wrong_token_is_refused(cluster: ClusterToJoin, kube: KubeClient, launch: Launch) -> None:
    """A token that nobody made is answered 401; nothing joins, the log says why without the token, and once."""
    token = f"{secrets.token_hex(3)}.{secrets.token_hex(8)}"
    ident = await launch(cluster.user_data(token=token))
    assert UNAUTHORIZED in await complaint(cluster, ident)
    assert await node_of(kube, ident) is None
    other = await launch(cluster.user_data(token=cluster.new_token()))  # a later machine: the first is not tried again
    await is_ready(kube, other)
    assert [one["msg"] for one in log(cluster, ident) if one["level"] == "error"] == [
        "The machine did not join; cloud-init does not try again"
    ]
    assert token not in cluster.plane.log("machines").read_text(encoding="utf-8")
    assert await node_of(kube, ident) is None


async def test_a_wrong_ca_is_noticed(cluster: ClusterToJoin, kube: KubeClient, launch: Launch, tmp_path: Path) -> None:
    """With another cluster's CA the machine talks to nobody: certificate verify failed."""
    other = Authority(tmp_path).certificate.read_text()
    ident = await launch(cluster.user_data(token=cluster.new_token(), ca_bundle=other))
    assert "certificate verify failed" in (await complaint(cluster, ident)).lower()
    assert await node_of(kube, ident) is None


async def test_a_wrong_hash_is_noticed(cluster: ClusterToJoin, kube: KubeClient, launch: Launch) -> None:
    """A CA in cluster-info that has another hash than the user data's isn't trusted."""
    server = cluster.server.removeprefix("https://")
    pin = "sha256:" + "0" * 64
    command = f"kubeadm join {server} --token {cluster.new_token()} --discovery-token-ca-cert-hash {pin}"
    ident = await launch(f"#!/bin/sh\n{command}\n")
    assert "none of the pinned hashes" in await complaint(cluster, ident)
    assert await node_of(kube, ident) is None


async def test_a_label_that_is_not_a_kubelets_to_give(cluster: ClusterToJoin, kube: KubeClient, launch: Launch) -> None:
    """NodeRestriction sees the kubelet's own identity: a node can't call itself a control plane."""
    labels = "node-role.kubernetes.io/control-plane="
    ident = await launch(cluster.user_data(token=cluster.new_token(), labels=labels))

    async def refused() -> bool:
        return any("is not allowed to set the following labels" in str(one.get("error")) for one in log(cluster, ident))

    await wait_until(refused, what="the refusal in the log")
    assert await node_of(kube, ident) is None


async def test_the_same_node_comes_back_after_stop_and_start(
    cluster: ClusterToJoin, kube: KubeClient, launch: Launch, control: Ec2Control
) -> None:
    """A stopped machine's Node turns Unknown and gets the shutdown taint; started, the same Node is Ready again."""
    ident = await launch(cluster.user_data(token=cluster.new_token()))
    before = await is_ready(kube, ident)
    control.stop(ident)

    async def shut_down() -> bool:
        node = await node_of(kube, ident)
        assert node is not None
        return ready(node) == "Unknown" and SHUTDOWN_TAINT in node["spec"].get("taints", [])

    await wait_until(shut_down, what="the Node of the stopped machine to be Unknown")
    control.start(ident)
    after = await is_ready(kube, ident)
    assert uid_of(after) == uid_of(before)

    async def lifted() -> bool:
        node = await node_of(kube, ident)
        return node is not None and SHUTDOWN_TAINT not in node["spec"].get("taints", [])

    await wait_until(lifted, what="the shutdown taint to go")


async def test_a_reboot_changes_nothing(cluster: ClusterToJoin, kube: KubeClient, launch: Launch, ec2: Any) -> None:
    """A rebooted machine doesn't join again."""
    ident = await launch(cluster.user_data(token=cluster.new_token()))
    before = await is_ready(kube, ident)
    await asyncio.to_thread(ec2.reboot_instances, InstanceIds=[ident])
    await is_ready(kube, await launch(cluster.user_data(token=cluster.new_token())))  # the simulator has looked since
    assert uid_of(await is_ready(kube, ident)) == uid_of(before)
    assert len([one for one in log(cluster, ident) if one["msg"] == "The machine joined the cluster"]) == 1


async def test_a_terminated_machine_takes_its_node_along(
    cluster: ClusterToJoin, kube: KubeClient, launch: Launch, control: Ec2Control
) -> None:
    """After the end of the instance the heartbeat ends, and the cloud controller deletes the Node that isn't Ready."""
    ident = await launch(cluster.user_data(token=cluster.new_token()))
    node = await is_ready(kube, ident)
    control.terminate(ident)

    async def gone() -> bool:
        try:
            await kube.get(NODES, name=name_of(node))
        except NotFound:
            return True
        return False

    async def told() -> bool:
        return any(one["msg"].startswith("Deleting the Node") for one in log(cluster, ident))

    await wait_until(gone, what="the Node of the terminated machine to go")
    await wait_until(told, what="the cloud controller, which looks at unready Nodes only, to say that it was its doing")
    assert not (cluster.plane.folder / "data" / "machines" / ident).exists()


async def test_a_restarted_simulator_goes_on(
    cluster: ClusterToJoin, kube: KubeClient, launch: Launch, control: Ec2Control
) -> None:
    """What happens while the simulator is down is made up for, and nobody joins twice."""
    staying = await launch(cluster.user_data(token=cluster.new_token()))
    going = await launch(cluster.user_data(token=cluster.new_token()))
    before, gone = await is_ready(kube, staying), await is_ready(kube, going)
    cluster.plane.kill_component("machines")
    control.terminate(going)
    late = await launch(cluster.user_data(token=cluster.new_token()))
    await asyncio.to_thread(cluster.plane.start_component, "machines")
    await is_ready(kube, late)
    assert uid_of(await is_ready(kube, staying)) == uid_of(before)

    async def off() -> bool:
        try:
            node = await kube.get(NODES, name=name_of(gone))
        except NotFound:
            return True
        return FAKE_NODE_LABEL not in labels_of(node)

    await wait_until(off, what="the kubelet of the terminated machine to be off")


async def test_twenty_machines_join_at_once(cluster: ClusterToJoin, kube: KubeClient, launch: Launch) -> None:
    """Machines don't wait for each other."""
    user_data = cluster.user_data(token=cluster.new_token())
    idents = [await launch(user_data) for _ in range(20)]
    nodes = [await is_ready(kube, ident) for ident in idents]
    assert len({name_of(node) for node in nodes}) == 20
