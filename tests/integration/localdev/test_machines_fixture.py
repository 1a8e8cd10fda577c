"""The fixture by which tests of roles let instances of the session's plane join it."""

from __future__ import annotations

import asyncio
from typing import Any

import boto3
from botocore.config import Config

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of, labels_of
from runner.localdev.ec2.control import Ec2Control
from runner.testing.cluster import wait_until
from runner.testing.machines import ClusterToJoin

NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)


def run_instance(endpoint: str, *, user_data: str) -> str:
    """Launch an instance and return its id."""
    client: Any = boto3.client(
        "ec2",
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    try:
        answer = client.run_instances(
            ImageId="ami-0c0ffee0000000001", InstanceType="m5.large", MinCount=1, MaxCount=1, UserData=user_data
        )
    finally:
        client.close()
    return str(answer["Instances"][0]["InstanceId"])


async def test_an_instance_of_the_sessions_plane_joins_it(
    joining_instances: ClusterToJoin, kube: KubeClient, ec2: str
) -> None:
    """With the fixture an instance becomes a Ready node, whatever plane the session has."""
    user_data = joining_instances.user_data(token=joining_instances.new_token(), labels="team=fixture")
    ident = await asyncio.to_thread(run_instance, ec2, user_data=user_data)

    async def ready() -> Object | None:
        nodes = [node for node in await kube.list(NODES) if node["spec"].get("providerID", "").endswith(f"/{ident}")]
        return next(
            (
                node
                for node in nodes
                if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions_of(node))
            ),
            None,
        )

    try:
        node = await wait_until(ready, what=f"the Node of {ident} to be Ready")
        assert node is not None
        assert labels_of(node)["team"] == "fixture"
    finally:
        Ec2Control(ec2).terminate(ident)
