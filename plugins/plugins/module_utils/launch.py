"""The RunInstances request of one EC2Instance object. Pure; `ec2_launch` sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TAGGED = ("instance", "volume")
_EBS = {
    "size_gib": "VolumeSize",
    "volume_type": "VolumeType",
    "iops": "Iops",
    "throughput": "Throughput",
    "encrypted": "Encrypted",
    "delete_on_termination": "DeleteOnTermination",
}


def run_instances_request(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for exactly one instance from the module's parameters; what isn't given isn't sent."""
    tags = [{"Key": key, "Value": str(value)} for key, value in sorted(params["tags"].items())]
    request = {
        "ImageId": params["image_id"],
        "InstanceType": params["instance_type"],
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": params["client_token"],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in _TAGGED],
        "BlockDeviceMappings": [_device(item) for item in params.get("storage") or []],
        "IamInstanceProfile": _profile(params.get("iam_instance_profile")),
        "KeyName": params.get("key_name"),
        "UserData": params.get("user_data"),
        **_network(params),
    }
    return {key: value for key, value in request.items() if value}


def profile_reference(profile: str) -> dict[str, str]:
    """Return how AWS wants an instance profile named: an ARN or a name."""
    return {"Arn": profile} if profile.startswith("arn:") else {"Name": profile}


def _profile(profile: str | None) -> dict[str, str]:
    return profile_reference(profile) if profile else {}


def _device(item: Mapping[str, Any]) -> dict[str, Any]:
    ebs = {theirs: item[ours] for ours, theirs in _EBS.items() if item.get(ours) is not None}
    return {"DeviceName": item["device_name"], "Ebs": ebs}


def _network(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return subnet and groups; AWS takes the wish for a public address only with a network interface."""
    subnet, groups, public = (
        params.get("subnet_id"),
        params.get("security_group_ids"),
        params.get("associate_public_ip"),
    )
    if public is None:
        return {"SubnetId": subnet, "SecurityGroupIds": groups}
    interface = {"DeviceIndex": 0, "AssociatePublicIpAddress": public, "SubnetId": subnet, "Groups": groups}
    return {"NetworkInterfaces": [{key: value for key, value in interface.items() if value not in (None, [])}]}
