#!/usr/bin/python
"""DescribeInstances by filters, without retries of its own: the run never waits minutes for an AWS that fails."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ec2_describe
short_description: Describe EC2 instances by filters
description:
  - Gives what M(amazon.aws.ec2_instance_info) gives, without its ten retries with growing pauses, which keep a worker
    for minutes. botocore's own retries are bounded by O(aws_config).
  - A refused call ends with RV(error_code), RV(request_id) and RV(message).
version_added: 0.1.0
author: The authors of ansible-operator-runner
options:
  filters:
    description: EC2's filters; each has a value or a list of values. Neither they nor a list must be empty.
    type: dict
    required: true
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
"""

EXAMPLES = r"""
- name: Describe
  aws_operator.core.ec2_describe:
    filters:
      "tag:ansible-operator.io/uid": 6f1c0a52-8f0e-4a3e-9b1c-0d6c4f0f7a11
"""

RETURN = r"""
instances:
  description: The instances with snake-cased keys, and their tags as a mapping.
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

from ansible_collections.amazon.aws.plugins.module_utils.modules import (  # noqa: E402 - the documentation is first
    AnsibleAWSModule,
)
from ansible_collections.aws_operator.core.plugins.module_utils.aws_calls import (  # noqa: E402
    boto3_filters,
    call,
    described,
    is_boundless,
)


def main() -> None:
    """Describe."""
    module = AnsibleAWSModule(argument_spec={"filters": {"type": "dict", "required": True}}, supports_check_mode=True)
    filters = boto3_filters(module.params["filters"])
    if is_boundless(filters):
        module.fail_json(msg="filters must not be empty: the machines of everybody are nobody's business here")
    pages = module.client("ec2").get_paginator("describe_instances")
    answer = call(module, lambda **request: pages.paginate(**request).build_full_result(), Filters=filters)
    found = [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]
    module.exit_json(changed=False, instances=[described(instance) for instance in found])


if __name__ == "__main__":
    main()
