"""Conditions as the API conventions want them: validation, merging by type, comparison.

The sentences are those of the public collection: roles compare them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

STATES = ("True", "False", "Unknown")
OPTIONS = {
    "type": {"type": "str", "required": True},
    "status": {"type": "str", "required": True, "choices": list(STATES)},
    "reason": {"type": "str"},
    "message": {"type": "str"},
    "lastHeartbeatTime": {"type": "str"},
    "lastTransitionTime": {"type": "str"},
}
"""What a condition may have, as the options of a module's argument."""
_CAMEL_CASE = re.compile(r"[A-Za-z]+\Z")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?([+-]\d\d:\d\d|Z)\Z")


def validated(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *conditions* without what was not given; raise ValueError for what the conventions don't allow."""
    return [_validated(condition) for condition in conditions]


def _validated(condition: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in condition.items() if value is not None}
    if given.get("reason") and not _CAMEL_CASE.match(given["reason"]):
        raise ValueError("Condition 'reason' must be a single, CamelCase word")
    for key in ("lastHeartbeatTime", "lastTransitionTime"):
        if given.get(key) and not _RFC3339.match(given[key]):
            raise ValueError(f"'{key}' must be an RFC3339 compliant datetime string")
    return given


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *old* with each condition of *new* in the place of the one of its type, or at the end.

    One that says nothing new stays as it is, its time included.
    """
    result = list(old)
    for condition in new:
        places = [place for place, known in enumerate(result) if known.get("type") == condition.get("type")]
        if not places:
            result.append(condition)
        elif _says_more(condition, than=result[places[0]]):
            result[places[0]] = condition
    return result


def _says_more(new: Mapping[str, Any], *, than: Mapping[str, Any]) -> bool:
    """Tell whether *new* differs in more than lastTransitionTime, which says when, not what."""
    return any(than.get(key) != value for key, value in new.items() if key != "lastTransitionTime")


def contains(whole: Any, part: Any, *, whole_lists: bool = False) -> bool:
    """Tell whether everything in *part* is in *whole* already; null stands for a key that is not there.

    Args:
        whole: what is there.
        part: what is wanted.
        whole_lists: a list must be equal; else it is enough that it has all wanted items.
    """
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(
            contains(whole.get(key), value, whole_lists=whole_lists and key != "conditions")
            for key, value in part.items()
        )
    if isinstance(whole, list) and isinstance(part, list) and not whole_lists:
        return all(item in whole for item in part)
    return bool(whole == part)
