"""Conditions as the API conventions want them: validation, merging by type, comparison."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

FIELDS = ("type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime")
STATES = ("True", "False", "Unknown")
_CAMEL_CASE = re.compile(r"^[A-Za-z]+$")
_RFC3339 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(\.\d+)?([+-]\d\d:\d\d|Z)$")


def validated(conditions: Any) -> list[dict[str, Any]]:
    """Return *conditions* with booleans as text; raise ValueError for what the conventions don't allow."""
    if not isinstance(conditions, list) or not all(isinstance(condition, dict) for condition in conditions):
        raise ValueError("`conditions` must be a list of objects")
    return [_validated(dict(condition)) for condition in conditions]


def _validated(condition: dict[str, Any]) -> dict[str, Any]:
    unknown = [key for key in condition if key not in FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]} is not a valid field for a condition, accepted fields are {', '.join(FIELDS)}")
    if isinstance(condition.get("status"), bool):
        condition["status"] = str(condition["status"])
    for key in ("type", "status"):
        if not condition.get(key):
            raise ValueError(f"Condition `{key}` must be set")
    if condition["status"] not in STATES:
        raise ValueError(f"Condition `status` must be one of {', '.join(STATES)}, not {condition['status']}")
    if condition.get("reason") and not _CAMEL_CASE.match(condition["reason"]):
        raise ValueError("Condition `reason` must be a single, CamelCase word")
    for key in ("lastHeartbeatTime", "lastTransitionTime"):
        if condition.get(key) and not _RFC3339.match(condition[key]):
            raise ValueError(f"`{key}` must be a RFC3339 compliant datetime string")
    return condition


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *old* with each condition of *new* in the place of the one of its type, or at the end."""
    result = list(old)
    for condition in new:
        places = [place for place, known in enumerate(result) if known.get("type") == condition["type"]]
        if places:
            result[places[0]] = condition
        else:
            result.append(condition)
    return result


def without_times(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of *status* without the conditions' lastTransitionTime, which says when, not what."""
    result = copy.deepcopy(status)
    for condition in result.get("conditions") or []:
        condition.pop("lastTransitionTime", None)
    return result


def contains(whole: Any, part: Any) -> bool:
    """Tell whether everything in *part* is in *whole* already; null stands for a key that is not there."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(contains(whole.get(key), value) for key, value in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return all(item in whole for item in part)
    return whole == part
