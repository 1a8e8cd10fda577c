#!/usr/bin/python
"""DescribeInstanceTypes and DescribeSubnets: what machines of these types have, and where these subnets are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_offers
short_description: Describe EC2 instance types and subnets by name
description:
  - Gives cores, memory and architectures of instance types, and the zones of subnets, in one task. No module of
    amazon.aws describes types, and M(amazon.aws.ec2_vpc_subnet_info) repeats a refused call for minutes.
  - What AWS doesn't know is left out of the answer. A refused call ends with RV(error_code), RV(request_id) and
    RV(message).
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  instance_types:
    description: Names of instance types; none isn't asked for.
    type: list
    elements: str
    default: []
  subnet_ids:
    description: Subnets by id; none isn't asked for.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Ask what a machine has
  aws_operator.core.ec2_offers:
    instance_types:
      - m5.large
"""

RETURN = r"""
instance_types:
  description: Each with C(instance_type), C(cpu), C(memory_mib) and C(architectures).
  returned: success
  type: list
  elements: dict
subnets:
  description: Each with C(subnet_id) and C(availability_zone).
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
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import boto3_filters, call  # noqa: E402

_SPEC = {
    "instance_types": {"type": "list", "elements": "str", "default": []},
    "subnet_ids": {"type": "list", "elements": "str", "default": []},
}


def described(module: Any, client: Any, *, operation: str, filters: dict[str, Any]) -> dict[str, Any]:
    """Return all pages of a Describe; filters, unlike lists of names, leave out what AWS doesn't know."""
    pages = client.get_paginator(operation)
    wanted = boto3_filters(filters)
    answer: dict[str, Any] = call(
        module, lambda **request: pages.paginate(**request).build_full_result(), Filters=wanted
    )
    return answer


def types(module: Any, client: Any) -> list[dict[str, Any]]:
    """Return what the instance types have."""
    names = module.params["instance_types"]
    if not names:
        return []
    answer = described(module, client, operation="describe_instance_types", filters={"instance-type": names})
    return [
        {
            "instance_type": item["InstanceType"],
            "cpu": item["VCpuInfo"]["DefaultVCpus"],
            "memory_mib": item["MemoryInfo"]["SizeInMiB"],
            "architectures": item.get("ProcessorInfo", {}).get("SupportedArchitectures", []),
        }
        for item in answer["InstanceTypes"]
    ]


def subnets(module: Any, client: Any) -> list[dict[str, Any]]:
    """Return where the subnets are."""
    names = module.params["subnet_ids"]
    if not names:
        return []
    answer = described(module, client, operation="describe_subnets", filters={"subnet-id": names})
    return [
        {"subnet_id": item["SubnetId"], "availability_zone": item["AvailabilityZone"]} for item in answer["Subnets"]
    ]


def main() -> None:
    """Describe."""
    module = AnsibleAWSModule(argument_spec=_SPEC, supports_check_mode=True)
    client = module.client("ec2")
    module.exit_json(changed=False, instance_types=types(module, client), subnets=subnets(module, client))


if __name__ == "__main__":
    main()
