"""The kinds of values that flags and variables take, in the syntax of Go's pflag and strconv.

Each parser takes the text and raises `ValueError` with what is wrong; `flags` puts the flag's name in front.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runner.observe.address import split_address
from runner.watches.durations import parse_duration

_TRUE = frozenset(["1", "t", "T", "TRUE", "true", "True"])
_FALSE = frozenset(["0", "f", "F", "FALSE", "false", "False"])
_HIGHEST_PORT = 65535
_HIGHEST_VERBOSITY = 127
"""zap keeps its levels in 8 bits."""
_INTEGER = re.compile(r"[-+]?(?:0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])+|[1-9](?:_?[0-9])*|0)\Z")
_QUANTITY = re.compile(
    r"\+?(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
    r"(?:[eE](?P<exponent>[-+]?[0-9]{1,2})|(?P<suffix>[KMGTPE]i|[mkMGTPE]))?"
)
_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Decimal(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
}
_BEYOND = 2**63
"""The first number that Go's int cannot hold."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of value: its name in the help text and its parser."""

    name: str
    parse: Callable[[str], Any]
    choices: tuple[str, ...] = ()
    """What completion offers."""
    is_path: bool = False
    """Whether completion offers files."""


def parse_boolean(text: str) -> bool:
    """Return the boolean that Go's ParseBool would."""
    if text not in _TRUE | _FALSE:
        raise ValueError("not a boolean; write true or false")
    return text in _TRUE


def parse_integer(text: str) -> int:
    """Return a whole number of 64 bits, in decimal or as 0x, 0o (or 0) and 0b, with `_` where Go allows it."""
    if not _INTEGER.match(text):
        raise ValueError("not a whole number; write one such as 8")
    plain = text.replace("_", "")
    digits = plain.lstrip("+-")
    octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
    beyond = digits[0] != "0" and len(digits) > len(str(_BEYOND))  # thousands, which Python would not convert
    if beyond or not -_BEYOND <= (number := int(plain, 8 if octal else 0)) < _BEYOND:
        raise ValueError("value out of range: it doesn't fit in 64 bits")
    return number


def parse_count(text: str) -> int:
    """Return a whole number that is not negative."""
    number = parse_integer(text)
    if number < 0:
        raise ValueError("must not be negative; 0 is no limit")
    return number


def parse_quantity(text: str) -> int:
    """Return the whole number of a Kubernetes quantity, rounded up: 64Mi, 1.5Gi, 500M, 1e9.

    The official client's parser lies in a package that takes half a second and 30 MiB to import.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError("not a quantity; write bytes as in 256Mi, 1.5Gi or 500M, or 0 to switch it off")
    exponent, suffix = int(found["exponent"] or 0), found["suffix"] or ""
    value = Decimal(found["number"]).scaleb(exponent) * _SUFFIXES[suffix]
    if value >= _BEYOND:
        raise ValueError("value out of range: it doesn't fit in 64 bits")
    return math.ceil(value)


def parse_port(text: str) -> int:
    """Return a TCP port."""
    port = parse_integer(text)
    if not 0 <= port <= _HIGHEST_PORT:
        raise ValueError(f"not a port; write a number from 0 to {_HIGHEST_PORT}")
    return port


def parse_address(text: str) -> str:
    """Return *text* if a server can listen there: `host:port`, `:port`, or `0` for nowhere."""
    split_address(text)
    return text


def parse_log_level(text: str) -> str:
    """Return the level of our logger for zap's: a name, or a number above 0, as zap has them below debug."""
    names = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}  # errors are never hidden
    if text.lower() in names:
        return names[text.lower()]
    if re.fullmatch(r"\+?0*[1-9][0-9]{0,17}", text, flags=re.ASCII):
        return str(min(int(text), _HIGHEST_VERBOSITY))
    raise ValueError(f'invalid log level "{text}"; write debug, info, error or a number above 0')


def one_of(kind: str, *names: str) -> Kind:
    """Return a kind of value that is one of *names*, in any case; *kind* is what the help calls it."""

    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"unknown; write one of {', '.join(names)}")
        return text.lower()

    return Kind(name=kind, parse=parse, choices=names)


STRING = Kind(name="STRING", parse=str)
PATH = Kind(name="PATH", parse=str, is_path=True)
BOOLEAN = Kind(name="[=true|false]", parse=parse_boolean)
INTEGER = Kind(name="INT", parse=parse_integer)
COUNT = Kind(name="INT", parse=parse_count)
QUANTITY = Kind(name="QUANTITY", parse=parse_quantity)
DURATION = Kind(name="DURATION", parse=parse_duration)
PORT = Kind(name="PORT", parse=parse_port)
ADDRESS = Kind(name="ADDRESS", parse=parse_address)
LOG_LEVEL = Kind(name="LEVEL", parse=parse_log_level, choices=("debug", "info", "error"))
