"""Filters of the role `aws_common`: the parts of a status that are the same for every kind.

Results are marked unsafe: whatever a user wrote into a spec is never read as a template, on any ansible-core.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.aws_operator.core.plugins.module_utils.failures import failure_of
from ansible_collections.aws_operator.core.plugins.module_utils.plain_data import plain
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render
from ansible_collections.aws_operator.core.plugins.module_utils.updates import not_ready, update

_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")
_SPENT_BY_ANOTHER_REQUEST = "IdempotentParameterMismatch"


def aws_region(obj: Mapping[str, Any]) -> Any:
    """Return the region that the spec names, or that of the zone it names; empty where it names neither."""
    spec = plain(obj).get("spec") or {}
    zone = _ZONE.match(str(spec.get("availabilityZone") or ""))
    return wrap_var(str(spec.get("region") or (zone.group(0) if zone else "")))


def aws_failed_update(obj: Mapping[str, Any], result: Mapping[str, Any]) -> Any:
    """Return the status to write where a task failed with *result*, and the Event that tells it."""
    given, failure, now = plain(obj), failure_of(plain(result)), datetime.now(UTC)
    fields = {}
    if failure.error_code == _SPENT_BY_ANOTHER_REQUEST:
        fields = {"missingSince": (given.get("status") or {}).get("missingSince") or render(now)}
    ready = not_ready(failure.reason, failure.message)
    written = update(given, now=now, fields=fields, ready=ready, settled=False, checked=False)
    event = {"type": "Warning", "reason": failure.reason, "message": failure.message}
    return wrap_var({**asdict(written), "events": [event]})


def aws_waiting_update(obj: Mapping[str, Any], *, reason: str, message: str) -> Any:
    """Return the status to write while something has to be waited for, with an Event where the reason is new."""
    given = plain(obj)
    ready = not_ready(reason, message)
    written = update(given, now=datetime.now(UTC), fields={}, ready=ready, settled=False)
    conditions = (given.get("status") or {}).get("conditions") or []
    known = any(item.get("type") == "Ready" and item.get("reason") == reason for item in conditions)
    events = [] if known else [{"type": "Warning", "reason": reason, "message": message}]
    return wrap_var({**asdict(written), "events": events})


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "aws_failed_update": aws_failed_update,
            "aws_region": aws_region,
            "aws_waiting_update": aws_waiting_update,
        }
