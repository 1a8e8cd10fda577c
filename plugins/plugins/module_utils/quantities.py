"""Kubernetes quantities, exact: `250m`, `28Gi`, `1.5`, `1e3`. Pure; everything that counts room stands on it.

Amounts are whole numbers, as kube-scheduler compares them: cpu in thousandths of a core, everything else in its own
unit (bytes, pods, devices), both rounded up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

Amounts = Mapping[str, int]
"""Resource name to amount."""

LARGEST = 2**63 - 1
"""What Kubernetes cuts greater amounts to."""

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]{1,4})"
)
_LONGEST = 64
_GREATEST_EXPONENT = 64
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
}


class QuantityError(ValueError):
    """A text that is no quantity."""


def parse(text: object) -> Fraction:
    """Return the exact value of a quantity, given as text or as a number."""
    given = str(text) if isinstance(text, str | int | float) and not isinstance(text, bool) else ""
    match = _FORM.fullmatch(given) if len(given) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{text!r} is no quantity; write a number with a unit, such as 250m, 1.5, 28Gi or 1e3")
    return Fraction(match["number"]) * _factor(match["suffix"])


def amount(name: str, quantity: object) -> int:
    """Return a quantity of the resource *name* as the scheduler compares it."""
    return rounded(name, parse(quantity))


def rounded(name: str, value: Fraction) -> int:
    """Return an exact value as a whole amount of the resource *name*."""
    scaled = value * 1000 if name == "cpu" else value
    return max(-LARGEST, min(LARGEST, math.ceil(scaled)))


def amounts(quantities: Mapping[str, object] | None) -> dict[str, int]:
    """Return a resource list (`status.allocatable`, for example) as amounts."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Add amounts up."""
    summed: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            summed[name] = summed.get(name, 0) + value
    return summed


def less(whole: Amounts, part: Amounts) -> dict[str, int]:
    """Return what is left of *whole*; a resource that it doesn't have stays absent."""
    return {name: value - part.get(name, 0) for name, value in whole.items()}


def shown(name: str, value: int) -> str:
    """Return an amount for a person: `1500m cpu`, `28Gi memory`."""
    if name == "cpu":
        return f"{value // 1000} cpu" if value % 1000 == 0 else f"{value}m cpu"
    if name in {"memory", "ephemeral-storage"} or name.startswith("hugepages-"):
        return f"{_bytes(value)} {name}"
    return f"{value} {name}"


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(_BINARY[suffix])
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    exponent = int(suffix[1:])
    return Fraction(10) ** max(-_GREATEST_EXPONENT, min(_GREATEST_EXPONENT, exponent))


def _bytes(value: int) -> str:
    """Return bytes with the greatest unit that gives at least 1, to one digit, rounded down."""
    for unit, factor in reversed(_BINARY.items()):
        if abs(value) >= factor:
            tenths = value * 10 // factor
            return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths / 10:.1f}{unit}"
    return str(value)
