"""Paths to fields: how they are written, and what they find."""

from __future__ import annotations

from typing import Any

import pytest

from runner.watches.fields import parse_field, value_at

OBJ = {
    "status": {
        "availableReplicas": 3,
        "addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
        "conditions": [{"type": "Ready", "status": "True"}, "odd", {"type": "example.com/Up", "status": "False"}],
        "capacity": {"example.com/gpu": "2"},
        "mixed": [{"count": 5}],
    }
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("status.availableReplicas", 3),
        ("status.addresses[1].ip", "10.0.0.2"),
        ("status.addresses[2].ip", None),
        ("status.conditions[type=Ready].status", "True"),
        ("status.conditions[type=example.com/Up].status", "False"),
        ("status.conditions[type=Gone].status", None),
        ("status.capacity[example.com/gpu]", "2"),
        ("status.mixed[count=5]", {"count": 5}),
        ("status.availableReplicas.deeper", None),
        ("status.availableReplicas[0]", None),
        ("status", OBJ["status"]),
        ("nothing.here", None),
    ],
)
def test_a_path_finds_its_value(text: str, value: Any) -> None:
    """Names, numbers, values of a list's items and keys with dots lead to a value, or to None where there is none."""
    assert value_at(OBJ, parse_field(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "status.", ".status", "a..b", "[0]", "a[", "a]", "a[]", "a[0", "a.[0]", "a[0]b", "a[[0]]"),
        *("a[Ready]", "a[-1]", "a[=Ready]"),
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """The error has the text as it was written."""
    with pytest.raises(ValueError, match="is no field"):
        parse_field(text)
