"""Takes out of an observation what differs between any two runs: times, UIDs, ids of runs, names of a side, paths.

Pure: JSON values in, JSON values out. Between `world`, which observes, and `diffs`, which compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

UNSAFE = "__ansible_unsafe"
UNSAFE_MARK = "(unsafe) "
"""Stands before a text that Ansible was told never to take for a template."""

_PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b(localhost|127\.0\.0\.1):\d{4,5}\b"), "HOST:PORT"),
    (re.compile(r"\b\d{15,20}\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "HEX"),
)
_NUMBERED = frozenset({"resourceVersion", "uid"})


def normalise(value: Any, *, names: Mapping[str, str]) -> Any:
    """Return *value* with what differs by nature replaced by words in capitals.

    Args:
        value: any JSON value.
        names: what to call texts of one side, such as its folder; the longest are replaced first.
    """
    ordered = sorted(names.items(), key=lambda item: len(item[0]), reverse=True)
    return _normalise(value, ordered)


def _normalise(value: Any, names: Sequence[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, list):
        return [_normalise(item, names) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {UNSAFE}:
        return f"{UNSAFE_MARK}{_normalise(value[UNSAFE], names)}"
    return {_text(key, names): _member(item, key=key, names=names) for key, item in value.items()}


def _member(item: Any, *, key: str, names: Sequence[tuple[str, str]]) -> Any:
    if key == "managedFields" and isinstance(item, list):
        return sorted({_writer(entry) for entry in item})
    if key == "conditions" and isinstance(item, list):
        return _conditions(item, names)
    if key in _NUMBERED:
        wrapped = isinstance(item, Mapping) and set(item) == {UNSAFE}
        return f"{UNSAFE_MARK}{key.upper()}" if wrapped else key.upper()
    return _normalise(item, names)


def _text(text: str, names: Sequence[tuple[str, str]]) -> str:
    for found, name in names:
        text = text.replace(found, name)
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text


def _writer(entry: Any) -> str:
    """Return who wrote fields and how; which fields is long, and no contract."""
    if not isinstance(entry, Mapping):
        return str(entry)
    parts = (_plain(entry.get(key, "")) for key in ("manager", "operation", "subresource"))
    return " ".join(part for part in parts if part)


def _plain(value: Any) -> str:
    return str(value[UNSAFE]) if isinstance(value, Mapping) and UNSAFE in value else str(value)


def _conditions(found: Sequence[Any], names: Sequence[tuple[str, str]]) -> Any:
    """Return conditions by their type, and their order apart."""
    by_type = {}
    order = []
    for at, entry in enumerate(found):
        type_ = _plain(entry.get("type", at)) if isinstance(entry, Mapping) else str(at)
        order.append(type_)
        by_type[type_] = _normalise(entry, names)
    return {"order": order, **by_type}
