"""EBSVolume objects and described volumes for the tests of the plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.identity import wanted_tags
from ansible_collections.aws_operator.core.plugins.module_utils.volume_plan import VolumeView

from tests.unit.plugins.plugin_builders import NOW, OWNER, UID

VOLUME_ID = "vol-0123456789abcdef0"
INSTANCE_ID = "i-0123456789abcdef0"
READY = [{"type": "Ready", "status": "True", "reason": "Available"}]


def make_volume_object(*, spec: Mapping[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return an EBSVolume object."""
    return {
        "apiVersion": "aws.ansible-operator.io/v1alpha1",
        "kind": "EBSVolume",
        "metadata": {"name": "web", "namespace": "team", "uid": UID, "generation": 3},
        "spec": {"availabilityZone": "us-east-1a", "sizeGiB": 10, "volumeType": "gp3", **(spec or {})},
        "status": status,
    }


def known(*, spec: Mapping[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return an object whose volume is recorded and was right at the last look."""
    before = {"createAttempt": 1, "volumeId": VOLUME_ID, "observedGeneration": 3, "conditions": READY}
    return make_volume_object(spec=spec, **{**before, **status})


def make_volume(**parts: Any) -> dict[str, Any]:
    """Return a described volume that fits the object."""
    return {
        "volume_id": VOLUME_ID,
        "state": "available",
        "size": 10,
        "volume_type": "gp3",
        "iops": 3000,
        "availability_zone": "us-east-1a",
        "create_time": "2026-11-29T11:00:00+00:00",
        "attachments": [],
        "tags": wanted_tags(OWNER),
        **parts,
    }


def hanging(instance_id: str = INSTANCE_ID, *, state: str = "attached", device: str = "/dev/sdf") -> dict[str, Any]:
    """Return a described volume that hangs on an instance."""
    attachment = {"instance_id": instance_id, "device": device, "state": state}
    return make_volume(state="in-use", attachments=[attachment])


def make_machine(
    *, instance_id: str = INSTANCE_ID, state: str = "running", zone: str = "us-east-1a", **meta: Any
) -> dict[str, Any]:
    """Return the EC2Instance object that the tests attach to."""
    status = {"instanceId": instance_id, "state": state, "availabilityZone": zone}
    return {"metadata": {"name": "web", **meta}, "status": status}


def volume_view(
    obj: Mapping[str, Any], *volumes: Mapping[str, Any], instance: Mapping[str, Any] | None = None, **parts: Any
) -> VolumeView:
    """Return what a run knows at NOW."""
    seen: Sequence[Mapping[str, Any]] = volumes
    return VolumeView(obj=obj, volumes=seen, instance=instance, now=NOW, cluster_id="c1", **parts)
