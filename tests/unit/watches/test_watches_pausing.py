"""The brake of one object."""

from __future__ import annotations

import pytest

from runner.watches.pausing import PAUSED_ANNOTATION, is_paused


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((word, True) for word in ("true", "True", "1", "yes", "", "on", "ture", "FALSCH")),
        *((word, False) for word in ("false", "False", "FALSE", "f", "F", "0", None)),
    ],
)
def test_any_value_but_false_is_a_brake(value: str | None, *, expected: bool) -> None:
    """Who puts the brake on in a hurry may misspell it; only a false, as Go reads it, or none lets runs go on."""
    annotations = {} if value is None else {PAUSED_ANNOTATION: value}
    assert is_paused({"metadata": {"annotations": annotations}}) is expected


def test_an_object_without_annotations_is_not_paused() -> None:
    """Nothing has to be there."""
    assert not is_paused({})
    assert not is_paused({"metadata": {"annotations": None}})
