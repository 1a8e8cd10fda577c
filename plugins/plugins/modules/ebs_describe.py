#!/usr/bin/python
"""DescribeVolumes by filters, without retries of its own: the run never waits minutes for an AWS that fails."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ebs_describe
short_description: Describe EBS volumes by filters
description:
  - Gives what M(amazon.aws.ec2_vol_info) gives, without its ten retries with growing pauses, and on demand how far
    AWS is with the last change of each volume.
  - A refused call ends with RV(error_code), RV(request_id) and RV(message).
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  filters:
    description: EC2's filters; each has a value or a list of values. Neither they nor a list must be empty.
    type: dict
    required: true
  modifications:
    description: Whether to ask for the last change of each volume too.
    type: bool
    default: false
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Describe
  aws_operator.core.ebs_describe:
    filters:
      "tag:ansible-operator.io/uid": 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
volumes:
  description: The volumes with snake-cased keys, their tags as a mapping, and V(modification) where asked for.
  returned: success
  type: list
  elements: dict
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
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import (  # noqa: E402
    boto3_filters,
    call,
    described,
    is_boundless,
    known,
)


def last_modification(module: Any, client: Any, *, volume_id: str) -> dict[str, Any]:
    """Return how far AWS is with the last change, empty where the volume was never changed."""
    answer = known(
        module,
        client.describe_volumes_modifications,
        "InvalidVolumeModification.NotFound",
        Filters=[{"Name": "volume-id", "Values": [volume_id]}],
    )
    found = sorted((answer or {}).get("VolumesModifications") or [], key=lambda one: str(one.get("StartTime") or ""))
    return described(found[-1]) if found else {}


def main() -> None:
    """Describe."""
    spec = {"filters": {"type": "dict", "required": True}, "modifications": {"type": "bool", "default": False}}
    module = AnsibleAWSModule(argument_spec=spec, supports_check_mode=True)
    filters = boto3_filters(module.params["filters"])
    if is_boundless(filters):
        module.fail_json(msg="filters must not be empty: the volumes of everybody are nobody's business here")
    client = module.client("ec2")
    pages = client.get_paginator("describe_volumes")
    answer = call(module, lambda **request: pages.paginate(**request).build_full_result(), Filters=filters)
    volumes = [described(volume) for volume in answer["Volumes"]]
    if module.params["modifications"]:
        volumes = [
            {**volume, "modification": last_modification(module, client, volume_id=volume["volume_id"])}
            for volume in volumes
        ]
    module.exit_json(changed=False, volumes=volumes)


if __name__ == "__main__":
    main()
