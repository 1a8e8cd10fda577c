#!/usr/bin/python
"""RunInstances with the caller's client token: one attempt is one instance, however often it's asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_launch
short_description: Launch one EC2 instance, idempotent by client token
description:
  - Calls RunInstances once with the given client token and tags. AWS answers the same token and parameters with the
    same instance, so a call whose answer was lost can be repeated.
  - A refused call ends with RV(error_code), RV(request_id) and RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  client_token:
    description: What makes the call idempotent; at most 64 characters.
    type: str
    required: true
  image_id:
    description: The AMI.
    type: str
    required: true
  instance_type:
    description: For example V(t3.micro).
    type: str
    required: true
  tags:
    description: Tags of the instance and its volumes, set by the call that creates them. Must not be empty.
    type: dict
    required: true
  storage:
    description: Block devices; what is left out comes from the image.
    type: list
    elements: dict
    default: []
    suboptions:
      device_name:
        description: For example V(/dev/xvda).
        type: str
        required: true
      size_gib:
        description: Size in GiB.
        type: int
      volume_type:
        description: EBS volume type.
        type: str
      iops:
        description: Provisioned IOPS.
        type: int
      throughput:
        description: Provisioned throughput in MiB/s.
        type: int
      encrypted:
        description: Whether the volume is encrypted.
        type: bool
      delete_on_termination:
        description: Whether the volume goes with the instance.
        type: bool
  iam_instance_profile:
    description: Name or ARN.
    type: str
  key_name:
    description: Key pair.
    type: str
  subnet_id:
    description: Subnet.
    type: str
  security_group_ids:
    description: Security groups by id.
    type: list
    elements: str
    default: []
  associate_public_ip:
    description: Whether the instance gets a public address; what the subnet says where left out.
    type: bool
  user_data:
    description: What cloud-init gets.
    type: str
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Launch
  aws_operator.core.ec2_launch:
    client_token: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11-1
    image_id: ami-0123456789abcdef0
    instance_type: t3.micro
    tags:
      ansible-operator.io/uid: 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
instance:
  description: The instance as RunInstances answered, with the keys that M(amazon.aws.ec2_instance_info) uses.
  returned: success
  type: dict
client_token:
  description: The token that was sent.
  returned: success
  type: str
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
from ansible_collections.aws_operator.core.plugins.module_utils.launch import run_instances_request  # noqa: E402

_STORAGE = {
    "device_name": {"type": "str", "required": True},
    "size_gib": {"type": "int"},
    "volume_type": {"type": "str"},
    "iops": {"type": "int"},
    "throughput": {"type": "int"},
    "encrypted": {"type": "bool"},
    "delete_on_termination": {"type": "bool"},
}


def argument_spec() -> dict[str, Any]:
    """Return the module's arguments."""
    return {
        "client_token": {"type": "str", "required": True, "no_log": False},
        "image_id": {"type": "str", "required": True},
        "instance_type": {"type": "str", "required": True},
        "tags": {"type": "dict", "required": True},
        "storage": {"type": "list", "elements": "dict", "default": [], "options": _STORAGE},
        "iam_instance_profile": {"type": "str"},
        "key_name": {"type": "str", "no_log": False},
        "subnet_id": {"type": "str"},
        "security_group_ids": {"type": "list", "elements": "str", "default": []},
        "associate_public_ip": {"type": "bool"},
        "user_data": {"type": "str", "no_log": True},
    }


def main() -> None:
    """Launch."""
    module = AnsibleAWSModule(argument_spec=argument_spec(), supports_check_mode=True)
    token = module.params["client_token"]
    if not module.params["tags"]:
        module.fail_json(msg="tags must not be empty: an instance without them couldn't be found again")
    if module.check_mode:
        module.exit_json(changed=True, client_token=token, instance={})
    answer = call(module, module.client("ec2").run_instances, **run_instances_request(module.params))
    module.exit_json(changed=True, client_token=token, instance=described(answer["Instances"][0]))


if __name__ == "__main__":
    main()
