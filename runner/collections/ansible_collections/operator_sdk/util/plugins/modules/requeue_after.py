#!/usr/bin/python
"""Ask the operator for the next run after a period; the runtime reads the result of this task."""

from __future__ import annotations

import re

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: requeue_after
short_description: Ask the operator to reconcile the object again after a period
version_added: "0.4.0"
description:
  - The run goes on to its end. Then the object is reconciled again after the period of the last such task.
  - The period replaces the watch's own one until the next run.
options:
  time:
    description: Hours, minutes and seconds, such as C(1h30m) or C(5s).
    type: str
    required: true
author:
  - The ansible-operator-runner authors
"""

EXAMPLES = r"""
- name: Look again in half a minute
  operator_sdk.util.requeue_after:
    time: 30s
"""

RETURN = r"""
period:
  description: The period as it was given.
  returned: success
  type: str
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"time": {"type": "str", "required": True}}, supports_check_mode=True)
    period = module.params["time"]
    if not re.match(r"^[hms0-9]*$", period):
        module.fail_json(msg=f"invalid time input: {period!r}; use hours, minutes and seconds, as in 1h30m or 5s")
    module.exit_json(changed=False, period=period)


if __name__ == "__main__":
    main()
