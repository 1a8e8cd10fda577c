"""Go's duration grammar; the expected values are what Go's own functions returned."""

from __future__ import annotations

from datetime import timedelta
from typing import SupportsIndex

import pytest

from runner.watches.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2s", timedelta(seconds=2)),
        ("1h2m4s", timedelta(hours=1, minutes=2, seconds=4)),
        ("300ms", timedelta(milliseconds=300)),
        ("1.5h", timedelta(hours=1, minutes=30)),
        (".5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("+5s", timedelta(seconds=5)),
        ("-1s", timedelta(seconds=-1)),
        ("1us", timedelta(microseconds=1)),
        ("1\u00b5s", timedelta(microseconds=1)),
        ("1\u03bcs", timedelta(microseconds=1)),
        ("2m1m", timedelta(minutes=3)),
        ("0", timedelta()),
        ("-0", timedelta()),
        ("0s", timedelta()),
        ("000000000000000000000000001s", timedelta(seconds=1)),
        ("0.0000000000000000000000000000001s", timedelta()),
    ],
)
def test_a_go_duration_is_understood(text: str, expected: timedelta) -> None:
    """Every form that Go accepts has Go's value (field case Q2)."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("xx", 'time: invalid duration "xx"'),
        ("", 'time: invalid duration ""'),
        (" 5s", 'time: invalid duration " 5s"'),
        ("-", 'time: invalid duration "-"'),
        ("--1s", 'time: invalid duration "--1s"'),
        (".s", 'time: invalid duration ".s"'),
        ("\u0661s", 'time: invalid duration "\\xd9\\xa1s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1.2.3s", 'time: missing unit in duration "1.2.3s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1x3m9s", 'time: unknown unit "x" in duration "1x3m9s"'),
        ("1s ", 'time: unknown unit "s " in duration "1s "'),
        ("1h-2m", 'time: unknown unit "h-" in duration "1h-2m"'),
        ("1m\n", 'time: unknown unit "m\\x0a" in duration "1m\\x0a"'),
        ('5"', 'time: unknown unit "\\"" in duration "5\\""'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
        ("3000000h1x", 'time: invalid duration "3000000h1x"'),
        ("-3000000h1x", 'time: invalid duration "-3000000h1x"'),
    ],
)
def test_what_go_refuses_is_refused_with_gos_sentence(text: str, sentence: str) -> None:
    """A wrong duration raises ValueError with the sentence that Go has for it (field case Q2)."""
    with pytest.raises(ValueError, match=r"^time: ") as caught:
        parse_duration(text)

    assert str(caught.value) == sentence


def test_thousands_of_digits_are_refused_like_any_other_duration() -> None:
    """A number that Python would not convert gets Go's sentence too."""
    text = "9" * 5000 + "s"

    with pytest.raises(ValueError, match=r"^time: invalid duration") as caught:
        parse_duration(text)

    assert str(caught.value) == f'time: invalid duration "{text}"'


class _Counting(str):
    """A text that counts the characters that are copied out of it."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, key: SupportsIndex | slice) -> _Counting:
        piece = _Counting(super().__getitem__(key))
        _Counting.copied += len(piece)
        return piece


@pytest.mark.parametrize("sign", ["", "-"])
def test_the_work_of_reading_grows_with_the_text_only(sign: str) -> None:
    """No part of a long text is copied for each of its numbers: an annotation may hold a hundred thousand."""
    text = _Counting(f"{sign}{'1h' * 1000}")
    _Counting.copied = 0

    assert abs(parse_duration(text)) == timedelta(hours=1000)
    assert _Counting.copied <= 2 * len(text)


def test_a_duration_below_a_microsecond_does_not_become_never() -> None:
    """What is not zero stays longer than zero, because zero means never."""
    assert parse_duration("1ns") == timedelta(microseconds=1)
    assert parse_duration("-1ns") == timedelta(microseconds=-1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(hours=10), "10h0m0s"),
        (timedelta(minutes=5), "5m0s"),
        (timedelta(seconds=10), "10s"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(milliseconds=300), "300ms"),
        (timedelta(microseconds=1), "1\u00b5s"),
        (timedelta(hours=1, seconds=0.25), "1h0m0.25s"),
        (timedelta(seconds=-90), "-1m30s"),
        (timedelta(), "0s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(value: timedelta, expected: str) -> None:
    """The text is Go's, and reading it gives the value again."""
    assert format_duration(value) == expected
    assert parse_duration(expected) == value
