"""Objects and described instances for the tests of the plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import Owner, client_token, wanted_tags
from ansible_collections.aws_operator.core.plugins.module_utils.plan import View

UID = "6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11"
NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
OWNER = Owner(cluster_id="c1", uid=UID, namespace="team", name="web")
SPEC: Mapping[str, Any] = {"imageId": "ami-0c0ffee0000000001", "instanceType": "t3.micro"}


def ago(seconds: int) -> str:
    """Return the time *seconds* before NOW as Kubernetes writes it."""
    return datetime.fromtimestamp(NOW.timestamp() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_object(*, spec: Mapping[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return an EC2Instance object."""
    return {
        "apiVersion": "aws.ansible-operator.io/v1alpha1",
        "kind": "EC2Instance",
        "metadata": {"name": "web", "namespace": "team", "uid": UID, "generation": 3},
        "spec": {**SPEC, **(spec or {})},
        "status": status,
    }


def make_instance(*, state: str = "running", attempt: int = 1, **parts: Any) -> dict[str, Any]:
    """Return a described instance that fits SPEC."""
    return {
        "instance_id": f"i-{attempt:017x}",
        "state": {"name": state},
        "image_id": SPEC["imageId"],
        "instance_type": SPEC["instanceType"],
        "launch_time": "2026-11-29T11:00:00+00:00",
        "client_token": client_token(uid=UID, attempt=attempt),
        "public_ip_address": "203.0.113.7",
        "private_ip_address": "10.0.0.7",
        "public_dns_name": "ec2-203-0-113-7.compute.amazonaws.com",
        "placement": {"availability_zone": "us-east-1a"},
        "tags": wanted_tags(OWNER),
        "security_groups": [{"group_id": "sg-00000001", "group_name": "default"}],
        **parts,
    }


def make_view(obj: Mapping[str, Any], *, instances: Sequence[Mapping[str, Any]] = (), grace: float = 60.0) -> View:
    """Return what a run knows at NOW."""
    return View(obj=obj, instances=instances, now=NOW, cluster_id="c1", grace=grace)
