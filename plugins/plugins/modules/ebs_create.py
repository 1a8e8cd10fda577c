#!/usr/bin/python
"""CreateVolume with the caller's client token: one attempt is one volume, however often it's asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ebs_create
short_description: Create one EBS volume, idempotent by client token
description:
  - Calls CreateVolume once with the given client token and tags, and doesn't wait. M(amazon.aws.ec2_vol) sends no
    token, so that a call whose answer was lost would create another volume, and waits for the volume.
  - A refused call ends with RV(error_code), RV(request_id) and RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  client_token:
    description: What makes the call idempotent; at most 64 characters.
    type: str
    required: true
  availability_zone:
    description: The zone that the volume is in.
    type: str
    required: true
  size_gib:
    description: Size in GiB.
    type: int
    required: true
  volume_type:
    description: EBS volume type.
    type: str
    required: true
  iops:
    description: Provisioned IOPS.
    type: int
  throughput:
    description: Provisioned throughput in MiB/s.
    type: int
  encrypted:
    description: Whether the volume is encrypted.
    type: bool
    required: true
  tags:
    description: Tags of the volume, set by the call that creates it. Must not be empty.
    type: dict
    required: true
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Create
  aws_operator.core.ebs_create:
    client_token: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11-1
    availability_zone: eu-central-1a
    size_gib: 20
    volume_type: gp3
    encrypted: true
    tags:
      ansible-operator.io/uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
volume:
  description: The volume as CreateVolume answered, with the keys that M(aws_operator.core.ebs_describe) uses.
  returned: success
  type: dict
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

from typing import Any  # noqa: E402 - Ansible wants the documentation first

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import call, described  # noqa: E402

_SPEC = {
    "client_token": {"type": "str", "required": True, "no_log": False},
    "availability_zone": {"type": "str", "required": True},
    "size_gib": {"type": "int", "required": True},
    "volume_type": {"type": "str", "required": True},
    "iops": {"type": "int"},
    "throughput": {"type": "int"},
    "encrypted": {"type": "bool", "required": True},
    "tags": {"type": "dict", "required": True},
}


def create_request(params: dict[str, Any]) -> dict[str, Any]:
    """Return the request; what isn't given isn't sent."""
    tags = [{"Key": key, "Value": str(value)} for key, value in sorted(params["tags"].items())]
    request = {
        "ClientToken": params["client_token"],
        "AvailabilityZone": params["availability_zone"],
        "Size": params["size_gib"],
        "VolumeType": params["volume_type"],
        "Iops": params.get("iops"),
        "Throughput": params.get("throughput"),
        "Encrypted": params["encrypted"],
        "TagSpecifications": [{"ResourceType": "volume", "Tags": tags}],
    }
    return {key: value for key, value in request.items() if value is not None}


def main() -> None:
    """Create."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    if not module.params["tags"]:
        module.fail_json(msg="tags must not be empty: a volume without them couldn't be found again")
    if module.check_mode:
        module.exit_json(changed=True, volume={})
    answer = call(module, module.client("ec2").create_volume, **create_request(module.params))
    module.exit_json(changed=True, volume=described(answer))


if __name__ == "__main__":
    main()
