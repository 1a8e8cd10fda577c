#!/usr/bin/python
"""Start, stop, terminate or change exactly one instance by its id; never launches, never waits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_modify
short_description: Change one EC2 instance by its id
description:
  - Sends only the calls that were asked for; the caller has compared already.
  - Never waits for a state and never launches anything. A refused call ends with RV(error_code), RV(request_id) and
    RV(message), and isn't retried.
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  instance_id:
    description: The instance; anything that isn't an instance id is refused before AWS is asked.
    type: str
    required: true
  power:
    description: What to do with the instance, after the attributes were set.
    type: str
    choices: [start, stop, terminate]
  instance_type:
    description: The type to set; the instance has to be stopped.
    type: str
  security_group_ids:
    description: The security groups to set.
    type: list
    elements: str
  iam_instance_profile:
    description: Name or ARN of the instance profile to associate.
    type: str
  tags:
    description: Tags to set; others stay.
    type: dict
    default: {}
  remove_tags:
    description: Tags to take away, each only while it has the value given here.
    type: dict
    default: {}
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Stop
  aws_operator.core.ec2_modify:
    instance_id: i-0123456789abcdef0
    power: stop
"""

RETURN = r"""
state:
  description: The state that AWS answered with, empty where V(power) wasn't given.
  returned: success
  type: str
existed:
  description: Whether AWS knew the instance; an unknown one counts as terminated.
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
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import call, set_tags  # noqa: E402
from ansible_collections.aws_operator.core.plugins.module_utils.launch import profile_reference  # noqa: E402

_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
_POWER = {
    "start": ("start_instances", "StartingInstances"),
    "stop": ("stop_instances", "StoppingInstances"),
    "terminate": ("terminate_instances", "TerminatingInstances"),
}


def argument_spec() -> dict[str, Any]:
    """Return the module's arguments."""
    return {
        "instance_id": {"type": "str", "required": True},
        "power": {"type": "str", "choices": list(_POWER)},
        "instance_type": {"type": "str"},
        "security_group_ids": {"type": "list", "elements": "str"},
        "iam_instance_profile": {"type": "str"},
        "tags": {"type": "dict", "default": {}},
        "remove_tags": {"type": "dict", "default": {}},
    }


def set_attributes(module: Any, client: Any) -> None:
    """Set the type and the groups."""
    params, instance_id = module.params, module.params["instance_id"]
    if params["instance_type"]:
        value = {"Value": params["instance_type"]}
        call(module, client.modify_instance_attribute, InstanceId=instance_id, InstanceType=value)
    if params["security_group_ids"]:
        groups = params["security_group_ids"]
        call(module, client.modify_instance_attribute, InstanceId=instance_id, Groups=groups)


def set_profile(module: Any, client: Any) -> None:
    """Associate the profile, in place of one that is there."""
    instance_id, profile = module.params["instance_id"], profile_reference(module.params["iam_instance_profile"])
    filters = [{"Name": "instance-id", "Values": [instance_id]}, {"Name": "state", "Values": ["associated"]}]
    answer = call(module, client.describe_iam_instance_profile_associations, Filters=filters)
    current = answer["IamInstanceProfileAssociations"]
    if current:
        method, target = client.replace_iam_instance_profile_association, {"AssociationId": current[0]["AssociationId"]}
    else:
        method, target = client.associate_iam_instance_profile, {"InstanceId": instance_id}
    call(module, method, IamInstanceProfile=profile, **target)


def set_power(module: Any, client: Any) -> tuple[str, bool]:
    """Start, stop or terminate; return the state and whether the instance existed."""
    power = module.params["power"]
    if not power:
        return "", True
    name, key = _POWER[power]
    method = getattr(client, name)
    if power == "terminate":
        method = _or_gone(method)
    answer = call(module, method, InstanceIds=[module.params["instance_id"]])
    changed = answer.get(key) or []
    return (changed[0]["CurrentState"]["Name"], True) if changed else ("terminated", False)


def _or_gone(method: Any) -> Any:
    def terminate(**request: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = method(**request)
        except is_boto3_error_code("InvalidInstanceID.NotFound"):
            return {}
        return answer

    return terminate


def main() -> None:
    """Send what was asked for."""
    module = AnsibleAWSModule(argument_spec=argument_spec(), supports_check_mode=True)
    instance_id = module.params["instance_id"]
    if not _INSTANCE_ID.fullmatch(instance_id):
        module.fail_json(msg=f"{instance_id!r} is no instance id (i- and 8 to 17 hexadecimal digits)")
    if module.check_mode:
        module.exit_json(changed=True, state="", existed=True)
    client = module.client("ec2")
    set_attributes(module, client)
    if module.params["iam_instance_profile"]:
        set_profile(module, client)
    set_tags(module, client, resource=instance_id)
    state, existed = set_power(module, client)
    module.exit_json(changed=existed, state=state, existed=existed)


if __name__ == "__main__":
    main()
