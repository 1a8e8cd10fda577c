"""Requests that EC2 refuses before it looks anything up: ids that are none."""

from __future__ import annotations

import re

from runner.localdev.ec2.answers import Refusal
from runner.localdev.ec2.aws_request import Call

_INSTANCE_KEY = re.compile(r"^InstanceId(\.\d+)?$")
_INSTANCE_ID = re.compile(r"^i-([0-9a-f]{8}|[0-9a-f]{17})$")


def malformed_id(call: Call) -> Refusal | None:
    """Return the refusal of an instance id that cannot be one, the empty id included."""
    if call.service != "ec2":
        return None
    for key, value in call.params.items():
        if _INSTANCE_KEY.match(key) and not _INSTANCE_ID.match(str(value)):
            return Refusal(code="InvalidInstanceID.Malformed", message=f'Invalid id: "{value}"')
    return None
