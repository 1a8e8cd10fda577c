"""Changes and deletions that EC2 refuses and moto allows."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import instance_types as types
from moto.ec2.models import instances, security_groups

from runner.localdev.ec2.moto_patches.states import wrong_state

_ONLY_STOPPED = frozenset({"instance_type", "kernel", "ramdisk", "user_data", "ebs_optimized"})


def patch() -> None:
    """Put the refusals into moto."""
    instances.InstanceBackend.modify_instance_attribute = _modify(instances.InstanceBackend.modify_instance_attribute)
    instances.InstanceBackend.modify_instance_security_groups = _modify_groups
    groups = security_groups.SecurityGroupBackend
    groups._delete_security_group = _delete_group(groups._delete_security_group)


def _modify(original: Callable[..., Any]) -> Callable[..., Any]:
    """Change the type and its like only of a stopped instance, and only to a type that exists."""

    @functools.wraps(original)
    def modify(backend: Any, instance_id: str, key: str, value: Any) -> Any:  # noqa: PLR0917 - moto's own signature
        instance = backend.get_instance(instance_id)
        if key in _ONLY_STOPPED and instance.state != "stopped":
            raise wrong_state(f"The instance '{instance_id}' is not in the 'stopped' state.")
        if key == "instance_type" and value not in types.INSTANCE_TYPES:
            raise EC2ClientError("InvalidInstanceAttributeValue", f"Invalid value '{value}' for InstanceType.")
        return original(backend, instance_id, key, value)

    return modify


def _modify_groups(backend: Any, instance_id: str, new_group_id_list: list[str]) -> Any:  # noqa: PLR0917 - moto's own
    """Replace the groups of the instance and of its first interface: moto leaves the old ones on the latter."""
    instance = backend.get_instance(instance_id)
    groups = [backend.get_security_group_from_id(group_id) for group_id in new_group_id_list]
    if None in groups:
        unknown = new_group_id_list[groups.index(None)]
        raise EC2ClientError("InvalidGroup.NotFound", f"The security group '{unknown}' does not exist")
    instance.security_groups = groups
    instance.nics[0]._group_set = list(groups)
    return instance


def _delete_group(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a group that something uses."""

    @functools.wraps(original)
    def delete(backend: Any, vpc_id: str | None, group_id: str) -> Any:  # noqa: PLR0917 - moto's own signature
        group = backend.get_security_group_from_id(group_id)
        if group is not None and group.name == "default":
            message = f'the specified group: "{group_id}" name: "default" cannot be deleted by a user'
            raise EC2ClientError("CannotDelete", message)
        if group is not None and _in_use(backend, group):
            raise EC2ClientError("DependencyViolation", f"resource {group_id} has a dependent object")
        return original(backend, vpc_id, group_id)

    return delete


def _in_use(backend: Any, group: Any) -> bool:
    for reservation in backend.reservations.values():
        for instance in reservation.instances:
            if instance.state != "terminated" and group in instance.security_groups:
                return True
    for interface in backend.enis.values():
        gone = interface.instance is not None and interface.instance.state == "terminated"
        if not gone and group in interface.group_set:
            return True
    return any(_refers(other, group) for other in backend.describe_security_groups() if other is not group)


def _refers(other: Any, group: Any) -> bool:
    return any(rule.source_group.get("GroupId") == group.id for rule in (*other.ingress_rules, *other.egress_rules))
