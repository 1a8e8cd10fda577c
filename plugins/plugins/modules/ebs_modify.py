#!/usr/bin/python
"""Change, attach, detach or delete exactly one volume by its id; never creates, never waits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ebs_modify
short_description: Change one EBS volume by its id
description:
  - Sends only the calls that were asked for; the caller has compared already. Never waits for a state.
  - A change that AWS refuses because the last one is too young is no failure but RV(refusal), and an attachment that
    meets one which was made meanwhile is RV(postponed). Any other refused call ends with RV(error_code),
    RV(request_id) and RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  volume_id:
    description: The volume; anything that isn't a volume id is refused before AWS is asked.
    type: str
    required: true
  size_gib:
    description: Size to grow to, in GiB.
    type: int
  volume_type:
    description: EBS volume type to set.
    type: str
  iops:
    description: Provisioned IOPS to set.
    type: int
  throughput:
    description: Provisioned throughput to set, in MiB/s.
    type: int
  tags:
    description: Tags to set; others stay.
    type: dict
    default: {}
  remove_tags:
    description: Tags to take away, each only while it has the value given here.
    type: dict
    default: {}
  attach_to:
    description: Instance to attach to, as O(device).
    type: str
  device:
    description: Device name for O(attach_to).
    type: str
  device_chosen:
    description: Whether nobody named O(device), so that one that is taken by now is RV(postponed).
    type: bool
    default: false
  detach_from:
    description: Instance to detach from. One that has let the volume go already is no failure.
    type: str
  delete:
    description: Whether to delete the volume.
    type: bool
    default: false
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Grow
  aws_operator.core.ebs_modify:
    volume_id: vol-0123456789abcdef0
    size_gib: 40
"""

RETURN = r"""
existed:
  description: Whether AWS knew the volume that was to be deleted.
  returned: success
  type: bool
refusal:
  description: RV(error_code), RV(request_id) and RV(message) of a change that came too early, else empty.
  returned: success
  type: dict
postponed:
  description: Whether AWS couldn't attach as the volume or the device is in use by now; looking again tells how.
  returned: success
  type: bool
error_code:
  description: AWS's error code.
  returned: failure
  type: str
request_id:
  description: AWS's request id.
  returned: failure
  type: str
message:
  description: AWS's message.
  returned: failure
  type: str
"""

import re  # noqa: E402 - Ansible wants the documentation first
from typing import Any  # noqa: E402

from ansible_collections.amazon.aws.plugins.module_utils.botocore import is_boto3_error_code  # noqa: E402
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import (  # noqa: E402
    ClientError,
    call,
    known,
    refused,
    set_tags,
)

_VOLUME_ID = re.compile(r"vol-[0-9a-f]{8,17}")
_FIELDS = {"size_gib": "Size", "volume_type": "VolumeType", "iops": "Iops", "throughput": "Throughput"}
# AWS changes a volume once in six hours, and not while the last change is under way; the code tells which it is.
_TOO_EARLY = ["VolumeModificationRateExceeded", "IncorrectModificationState"]
_SPEC = {
    "volume_id": {"type": "str", "required": True},
    "size_gib": {"type": "int"},
    "volume_type": {"type": "str"},
    "iops": {"type": "int"},
    "throughput": {"type": "int"},
    "tags": {"type": "dict", "default": {}},
    "remove_tags": {"type": "dict", "default": {}},
    "attach_to": {"type": "str"},
    "device": {"type": "str"},
    "device_chosen": {"type": "bool", "default": False},
    "detach_from": {"type": "str"},
    "delete": {"type": "bool", "default": False},
}


def modify(module: Any, client: Any) -> dict[str, str] | None:
    """Change the fields that are given; return a refusal, empty where AWS took it, None where nothing was given."""
    fields = {theirs: module.params[ours] for ours, theirs in _FIELDS.items() if module.params[ours] is not None}
    if not fields:
        return None
    refusal: dict[str, str] = {}

    def ask(**request: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = client.modify_volume(**request)
        except is_boto3_error_code(_TOO_EARLY) as error:
            refusal.update(refused(error))
            return {}
        return answer

    call(module, ask, VolumeId=module.params["volume_id"], **fields)
    return refusal


def detach(module: Any, client: Any) -> bool:
    """Detach; return whether AWS had anything to detach."""
    request = {"VolumeId": module.params["volume_id"], "InstanceId": module.params["detach_from"]}
    return known(module, client.detach_volume, "IncorrectState", **request) is not None


def attach(module: Any, client: Any) -> bool:
    """Attach; return whether AWS did, and not that something else came first."""
    params, taken = module.params, []

    def ask(**request: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = client.attach_volume(**request)
        except ClientError as error:
            if not came_late(refused(error), device_chosen=params["device_chosen"]):
                raise
            taken.append(error)
            return {}
        return answer

    call(module, ask, VolumeId=params["volume_id"], InstanceId=params["attach_to"], Device=params["device"])
    return not taken


def came_late(refusal: dict[str, str], *, device_chosen: bool) -> bool:
    """Return whether AWS refused to attach as the volume, or a device that nobody named, is in use by now."""
    in_use = refusal["error_code"] == "InvalidParameterValue" and "already in use" in refusal["message"]
    return refusal["error_code"] == "VolumeInUse" or (device_chosen and in_use)


def delete(module: Any, client: Any) -> bool:
    """Delete; return whether AWS knew the volume."""
    gone = "InvalidVolume.NotFound"
    return known(module, client.delete_volume, gone, VolumeId=module.params["volume_id"]) is not None


def main() -> None:
    """Send what was asked for."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True, required_by={"attach_to": ["device"]})
    volume_id = module.params["volume_id"]
    if not _VOLUME_ID.fullmatch(volume_id):
        module.fail_json(msg=f"{volume_id!r} is no volume id (vol- and 8 to 17 hexadecimal digits)")
    if module.check_mode:
        module.exit_json(changed=True, existed=True, refusal={}, postponed=False)
    client = module.client("ec2")
    tagged = set_tags(module, client, resource=volume_id)
    refusal = modify(module, client)
    detached = bool(module.params["detach_from"]) and detach(module, client)
    attached = bool(module.params["attach_to"]) and attach(module, client)
    existed = delete(module, client) if module.params["delete"] else True
    changed = tagged or refusal == {} or detached or attached or (module.params["delete"] and existed)
    postponed = bool(module.params["attach_to"]) and not attached
    module.exit_json(changed=changed, existed=existed, refusal=refusal or {}, postponed=postponed)


if __name__ == "__main__":
    main()
