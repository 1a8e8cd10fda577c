"""Durations as Go writes them: `1h30m`, `300ms`, `1.5h`, `0`.

The grammar of `time.ParseDuration` and the form of `Duration.String`, because watches.yaml, annotations, flags and
`requeue_after` all speak it. Used by the loader, by `runner.cli.flags` and by the stages that read annotations.
"""

from __future__ import annotations

import re
from datetime import timedelta

PERIOD_ANNOTATION = "ansible.sdk.operatorframework.io/reconcile-period"
"""On an object: its own reconcile period, in this grammar."""

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"(?P<whole>[0-9]*)(?P<point>\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")
_LARGEST = 2**63 - 1
"""Nanoseconds that Go's Duration can hold, about 292 years."""


def parse_duration(text: str) -> timedelta:
    """Return the duration that *text* says, to the microsecond; what is not zero never becomes zero.

    Raises:
        ValueError: with Go's sentence, for example `time: invalid duration "xx"`.
    """
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return timedelta()
    if not rest:
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    # Go's limit of the sum is the most negative value; what is too much ends the reading, however long the text is
    nanoseconds = position = 0
    while position < len(rest) and nanoseconds <= _LARGEST + 1:
        term, position = _term(rest, position=position, text=text)
        nanoseconds += term
    if nanoseconds > _LARGEST + negative:  # the most negative value has no positive twin
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    microseconds = nanoseconds // 1_000 or (1 if nanoseconds else 0)
    return timedelta(microseconds=-microseconds if negative else microseconds)


def format_duration(value: timedelta) -> str:
    """Return *value* in the form that Go prints: `10h0m0s`, `1.5s`, `300ms`, `0s`."""
    microseconds = value // timedelta(microseconds=1)
    sign, microseconds = ("-" if microseconds < 0 else ""), abs(microseconds)
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:
        return f"{sign}{microseconds}\u00b5s"
    if microseconds < 1_000_000:
        return f"{sign}{_decimal(microseconds, places=3)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, places=6)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _term(rest: str, *, position: int, text: str) -> tuple[int, int]:
    """Return the nanoseconds of the number with its unit at *position*, and where the next one begins."""
    match = _TERM.match(rest, position)
    assert match is not None  # noqa: S101 - every part of the pattern may be empty
    whole, fraction, unit = match["whole"], match["fraction"] or "", match["unit"]
    too_long = len(whole.lstrip("0")) > len(str(_LARGEST))
    if too_long or not (whole or fraction):
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    if not unit:
        raise ValueError(f"time: missing unit in duration {_quoted(text)}")
    if unit not in _NANOSECONDS:
        raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
    scale = _NANOSECONDS[unit]
    fraction = fraction[:18]  # finer than a nanosecond of an hour
    nanoseconds = int(whole.lstrip("0") or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
    return nanoseconds, match.end()


def _decimal(value: int, *, places: int) -> str:
    """Return value / 10**places without trailing zeros."""
    whole, fraction = divmod(value, 10**places)
    return f"{whole}.{fraction:0{places}d}".rstrip("0").rstrip(".")


def _quoted(text: str) -> str:
    """Return *text* quoted as Go's time package does: bytes outside of printable ASCII in hexadecimal."""
    quoted = ""
    for byte in text.encode("utf-8", "surrogateescape"):
        if chr(byte) in {'"', "\\"}:
            quoted += "\\" + chr(byte)
        else:
            quoted += chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
    return f'"{quoted}"'
