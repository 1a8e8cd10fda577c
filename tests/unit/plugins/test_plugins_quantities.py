"""Kubernetes quantities as exact amounts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.aws_operator.core.plugins.module_utils.quantities import (
    LARGEST,
    QuantityError,
    amount,
    amounts,
    less,
    parse,
    shown,
    total,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+2", 2),
        ("-2", -2),
        (3, 3),
        (0.1, Fraction(1, 10)),
        ("250m", Fraction(1, 4)),
        ("100u", Fraction(1, 10_000)),
        ("7n", Fraction(7, 10**9)),
        ("2k", 2000),
        ("2M", 2_000_000),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
    ],
)
def test_every_notation_is_exact(text: object, value: Fraction) -> None:
    """Every notation of the API is read without any rounding."""
    assert parse(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1gi", "1K", "1e", "1e+", "1.2.3", "0x10", "1Gim", "\u0661", "9" * 65, None, True]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    """What the API wouldn't take is refused with the text and a remedy."""
    with pytest.raises(QuantityError, match=r"is no quantity; write a number with a unit"):
        parse(text)


@pytest.mark.parametrize(
    ("name", "text", "whole"),
    [
        ("cpu", "1", 1000),
        ("cpu", "0.1", 100),
        ("cpu", "1n", 1),
        ("memory", "28Gi", 28 * 2**30),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "2", 2),
        ("memory", "1e64", LARGEST),
        ("memory", "1e9999", LARGEST),
        ("memory", "1e-9999", 1),
    ],
)
def test_amounts_are_whole_and_rounded_up(name: str, text: str, whole: int) -> None:
    """Cores count in thousandths, all else in its own unit, rounded up and cut at the largest number."""
    assert amount(name, text) == whole


def test_amounts_add_and_subtract_by_name() -> None:
    """Sums have every resource, a remainder only those that the whole has."""
    assert total([amounts({"cpu": "1"}), amounts({"cpu": "500m", "memory": "1Ki"})]) == {"cpu": 1500, "memory": 1024}
    assert less({"cpu": 1000}, {"cpu": 1500, "memory": 1}) == {"cpu": -500}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 1500, "1500m cpu"),
        ("cpu", 2000, "2 cpu"),
        ("memory", 28 * 2**30, "28Gi memory"),
        ("memory", 3 * 2**29, "1.5Gi memory"),
        ("memory", 100, "100 memory"),
        ("pods", 1, "1 pods"),
    ],
)
def test_amounts_are_shown_with_a_unit(name: str, value: int, text: str) -> None:
    """A person reads the greatest unit that gives at least one."""
    assert shown(name, value) == text
