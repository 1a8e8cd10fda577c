"""The names in a launch that EC2 would not know, refused with EC2's own codes and sentences."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import functools
import re
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import instance_types as types
from moto.iam.models import iam_backends

_AMI_ID = re.compile(r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")


def refuse_unknown(response: Any) -> None:
    """Check all names of a launch first: moto ignores most, and refuses the others with half a launch done."""
    get = response._get_param
    backend = response.ec2_backend
    template = get("LaunchTemplate", {})
    if image := get("ImageId"):
        _refuse_image(backend, image)
    elif not template:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter ImageId")
    if instance_type := get("InstanceType"):
        _refuse_type(backend, instance_type)
    if image and instance_type:
        _refuse_architecture(backend.amis[image], instance_type)
    if (key := get("KeyName")) and key not in backend.key_pairs:
        raise EC2ClientError("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")
    nics = get("NetworkInterfaces", [])
    zone = _refuse_subnets(backend, [get("SubnetId"), *(nic.get("SubnetId") for nic in nics)])
    if instance_type:
        _refuse_zone(backend, instance_type, zone=zone or get("Placement.AvailabilityZone"))
    ids = [*get("SecurityGroupIds", []), *(group for nic in nics for group in nic.get("Groups", []))]
    _refuse_groups(backend, ids=ids, names=get("SecurityGroups", []))
    _refuse_profile(response)


def _refuse_image(backend: Any, image: str) -> None:
    if image in backend.amis:
        return
    if not _AMI_ID.match(image):
        raise EC2ClientError("InvalidAMIID.Malformed", f'Invalid id: "{image}"')
    raise EC2ClientError("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")


def _refuse_type(backend: Any, instance_type: str) -> None:
    if instance_type not in types.INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    if instance_type not in _offered("region", backend.region_name).get(backend.region_name, ()):
        raise EC2ClientError("Unsupported", "The requested configuration is currently not supported.")


def _refuse_zone(backend: Any, instance_type: str, *, zone: str | None) -> None:
    offered = _offered("availability-zone", backend.region_name)
    if zone in offered and instance_type not in offered[zone]:
        raise EC2ClientError(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested "
            f"Availability Zone ({zone}).",
        )


@functools.cache
def _offered(location_type: str, region: str) -> dict[str | None, set[str]]:
    offered: dict[str | None, set[str]] = {}
    for offer in types.INSTANCE_TYPE_OFFERINGS[location_type].get(region, []):
        offered.setdefault(offer["Location"], set()).add(offer["InstanceType"])
    return offered


def _refuse_architecture(image: Any, instance_type: str) -> None:
    known = types.INSTANCE_TYPES[instance_type].get("ProcessorInfo", {}).get("SupportedArchitectures", [])
    if known and image.architecture not in known:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"The architecture '{','.join(known)}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have matching "
            "architectures, and try again.",
        )


def _refuse_subnets(backend: Any, subnets: list[str | None]) -> str | None:
    zone: str | None = None
    for subnet in filter(None, subnets):
        zone = backend.get_subnet(subnet).availability_zone  # refuses with InvalidSubnetID.NotFound
    return zone


def _refuse_groups(backend: Any, *, ids: list[str], names: list[str]) -> None:
    for group in ids:
        if backend.get_security_group_from_id(group) is None:
            raise EC2ClientError("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
    for group in names:
        if backend.get_security_group_by_name_or_id(group) is None:
            vpc = backend.default_vpc.id if backend.default_vpc else ""
            message = f"The security group '{group}' does not exist in default VPC '{vpc}'"
            raise EC2ClientError("InvalidGroup.NotFound", message)


def _refuse_profile(response: Any) -> None:
    profiles = iam_backends[response.current_account][response.partition].instance_profiles.values()
    for key, attribute in (("Name", "name"), ("Arn", "arn")):
        wanted = response._get_param(f"IamInstanceProfile.{key}")
        if wanted and wanted not in {getattr(one, attribute) for one in profiles}:
            word = "name" if key == "Name" else "ARN"
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Value ({wanted}) for parameter iamInstanceProfile.{key.lower()} is invalid. "
                f"Invalid IAM Instance Profile {word}",
            )
