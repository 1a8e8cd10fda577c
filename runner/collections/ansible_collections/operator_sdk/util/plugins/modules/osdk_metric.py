#!/usr/bin/python
"""Send a metric to the operator, which shows it on its `/metrics`."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.urls import open_url

DOCUMENTATION = r"""
module: osdk_metric
short_description: Create or change a Prometheus metric of the operator
version_added: "0.4.0"
description:
  - Sends one operation on one metric to the operator, which shows the metric on its C(/metrics) page.
  - The first task that names a metric creates it at zero. Its kind cannot change afterwards.
  - Of several operations on a gauge one is carried out, the first of C(increment), C(decrement), C(add), C(subtract),
    C(set), C(set_to_current_time).
  - Metrics are lost when the operator restarts.
options:
  name:
    description: The name of the metric, as it is to appear on C(/metrics).
    type: str
    required: true
  description:
    description: The help text of the metric.
    type: str
    required: true
  address:
    description:
      - Where the operator takes metrics.
      - By default where the operator says that it does, in E(OPERATOR_USER_METRICS_ADDRESS); without that variable
        C(http://localhost:5050/metrics). Where it takes none, nothing is sent and the task warns.
    type: str
  counter:
    description: The metric is a counter, which only goes up.
    type: dict
    suboptions:
      increment:
        description: Add one.
        type: bool
      add:
        description: Add this number, which is not negative.
        type: float
  gauge:
    description: The metric is a gauge, which goes up and down.
    type: dict
    suboptions:
      set:
        description: Set it to this number.
        type: float
      increment:
        description: Add one.
        type: bool
      decrement:
        description: Subtract one.
        type: bool
      add:
        description: Add this number.
        type: float
      subtract:
        description: Subtract this number.
        type: float
      set_to_current_time:
        description: Set it to the seconds since 1970.
        type: bool
  histogram:
    description: The metric is a histogram, which counts observations in buckets.
    type: dict
    suboptions:
      observe:
        description: Add one observation of this size.
        type: float
  summary:
    description: The metric is a summary, which counts and adds up observations.
    type: dict
    suboptions:
      observe:
        description: Add one observation of this size.
        type: float
author:
  - The ansible-operator-runner authors
"""

EXAMPLES = r"""
- name: Count the backups
  operator_sdk.util.osdk_metric:
    name: backups_total
    description: Backups that were made
    counter:
      increment: true

- name: Tell how large the last one was
  operator_sdk.util.osdk_metric:
    name: backup_bytes
    description: Size of the last backup
    gauge:
      set: "{{ backup.size }}"
"""

RETURN = r"""
msg:
  description: What was wrong, in the operator's words, or why nothing was sent.
  returned: failure, or where the operator takes no metrics
  type: str
status_code:
  description: The HTTP status of the operator's answer.
  returned: failure, if there was an answer
  type: int
"""

_TIMEOUT = 30
_VARIABLE = "OPERATOR_USER_METRICS_ADDRESS"
_DEFAULT = "http://localhost:5050/metrics"
_KINDS: dict[str, dict[str, str]] = {
    "counter": {"increment": "bool", "add": "float"},
    "gauge": {
        "set": "float",
        "increment": "bool",
        "decrement": "bool",
        "add": "float",
        "subtract": "float",
        "set_to_current_time": "bool",
    },
    "histogram": {"observe": "float"},
    "summary": {"observe": "float"},
}

ARGUMENTS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "description": {"type": "str", "required": True},
    "address": {"type": "str"},
    **{
        kind: {"type": "dict", "options": {name: {"type": form} for name, form in operations.items()}}
        for kind, operations in _KINDS.items()
    },
}


def request_body(params: dict[str, Any]) -> dict[str, Any]:
    """Return what is sent for the arguments; operations that were not given are nulls in it."""
    chosen = {kind: params[kind] for kind in _KINDS if params.get(kind) is not None}
    return {"name": params["name"], "description": params["description"], **chosen}


def send(address: str, body: dict[str, Any]) -> tuple[int, str]:
    """Send *body*; return status and text of the answer; raise OSError or ValueError where there is none."""
    local = urlsplit(address).hostname in {"localhost", "127.0.0.1", "::1"}
    try:
        answer = open_url(
            address,
            method="POST",
            data=json.dumps(body),
            headers={"Content-Type": "application/json"},
            timeout=_TIMEOUT,
            use_proxy=not local,
        )
    except HTTPError as error:
        return error.code, to_text(error.read())
    return answer.getcode(), to_text(answer.read())


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS)
    address = module.params["address"] or os.environ.get(_VARIABLE, _DEFAULT)
    if not address:
        sentence = "the metric was not sent: the operator takes none, see --user-metrics-bind-address"
        module.warn(sentence)
        module.exit_json(changed=False, msg=sentence)
    try:
        status, text = send(address, request_body(module.params))
    except (URLError, OSError, ValueError) as error:
        module.fail_json(
            msg=f"cannot send the metric to {address}: {error}; is --user-metrics-bind-address that address?"
        )
    if status != 200:
        module.fail_json(msg=text, status_code=status)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
