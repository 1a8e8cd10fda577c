"""Paths to fields of an object, as `watchDependentStatus` has them: `status.conditions[type=Ready].status`.

    status.availableReplicas                 names with dots between them
    status.addresses[0].ip                   an item of a list by its number
    status.conditions[type=Ready].status     the first item of a list whose field has that value
    status.capacity[example.com/gpu]         a key that has dots itself

Other brackets, such as `conditions[Ready]`, would find nothing and are refused. Pure. `parse_field` is used where
watches.yaml is checked, and where dependents are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FieldPath = tuple[str, ...]
"""The steps of a path; those in brackets keep their opening one, so that the two kinds are told apart."""

_CHOICE = r"\d+|[^\[\]=]+=[^\[\]]*|[^\[\]=]*\.[^\[\]=]*"
"""Between brackets: a number, `name=value`, or a key with a dot."""
_STEP = re.compile(rf"\.(?P<name>[^.\[\]]+)|(?P<bracket>\[(?:{_CHOICE}))\]")


def parse_field(text: str) -> FieldPath:
    """Return the steps of *text*; raise `ValueError` where it is no path."""
    steps: list[str] = []
    dotted, position = f".{text}", 0
    while position < len(dotted):
        found = _STEP.match(dotted, position)
        if found is None:
            raise ValueError(f'"{text}" is no field')
        steps.append(found["name"] or found["bracket"])
        position = found.end()
    return tuple(steps)


def value_at(obj: Mapping[str, Any], path: FieldPath) -> Any:
    """Return what *obj* has at *path*; None where there is nothing."""
    value: Any = obj
    for step in path:
        value = _chosen(value, step[1:]) if step.startswith("[") else _member(value, step)
    return value


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _chosen(value: Any, choice: str) -> Any:
    """Return the item of a list, or the member of an object, that the text between two brackets names."""
    if not isinstance(value, list):
        return _member(value, choice)
    name, equals, wanted = choice.partition("=")
    if equals:
        return next((item for item in value if isinstance(item, Mapping) and str(item.get(name)) == wanted), None)
    number = int(choice) if choice.isdecimal() else len(value)
    return value[number] if number < len(value) else None
