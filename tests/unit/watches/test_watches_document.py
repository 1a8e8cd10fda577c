"""YAML as go-yaml 2 reads it; the expected values are what the peer's library returned."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runner.watches.document import json_of, read_document, text_of
from runner.watches.problems import Place, WatchesError

PLACE = Place(file="watches.yaml")


def read(text: str) -> Any:
    """Return *text* as JSON data."""
    root, _ = read_document(text, place=PLACE)
    assert root is not None
    return json_of(root, place=PLACE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((word, True) for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")),
        *((word, False) for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        ("1", 1),
        ("+1", 1),
        ("1_000", 1000),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("0b11", 3),
        ("09", 9),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e-3", 0.001),
        ("12:30:45", "12:30:45"),
        ("2020-01-01", "2020-01-01"),
        ("1.2.3", "1.2.3"),
        ("tRUE", "tRUE"),
        ('"yes"', "yes"),
        ("'1'", "1"),
        ("!!str 5", "5"),
        ('!!int "5"', 5),
        ("!vault x", "x"),
    ],
)
def test_a_plain_scalar_has_the_type_that_the_peer_gives_it(text: str, expected: object) -> None:
    """Booleans are YAML 1.1's, octal works, dates and base-60 numbers stay text."""
    value = read(f"a: {text}\n")["a"]

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(("text", "expected"), [("5.0", 5), ("1e3", 1000), ("5.", 5)])
def test_a_float_without_a_fraction_reaches_roles_as_a_whole_number(text: str, expected: int) -> None:
    """The peer's JSON writes 5.0 as 5."""
    value = read(f"[{text}]")[0]

    assert value == expected
    assert type(value) is int


def test_keys_become_text() -> None:
    """JSON has only string keys: numbers and booleans are written as JSON writes them."""
    assert read("{1: a, true: b, 1.5: c, n: d}") == {"1": "a", "true": "b", "1.5": "c", "false": "d"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.2345678, "1.2345678"), (1.10, "1.1"), (5.0, "5"), (-0.0, "-0"), (0.1, "0.1"), (100000.0, "100000"),
        (1e6, "1e+06"), (1234567.0, "1.234567e+06"), (20240101.5, "2.0240102e+07"), (16777217.0, "1.6777216e+07"),
        (1e-4, "0.0001"), (1e-5, "1e-05"), (1e21, "1e+21"), (1e300, "+Inf"), (-1e300, "-Inf"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_a_number_becomes_gos_shortest_text(value: float, expected: str) -> None:
    """The texts are what Go's FormatFloat gave for 32 bits, in which the peer's library writes them."""
    assert text_of(value) == expected


def test_merged_keys_give_way_to_own_ones_and_earlier_sources_win() -> None:
    """`<<` behaves as in the peer, for one mapping and for a list of them."""
    text = "{base: &b {k: 1}, one: {<<: *b, k: 2}, list: {<<: [*b, {k: 3, m: 4}]}}"

    assert read(text) == {"base": {"k": 1}, "one": {"k": 2}, "list": {"k": 1, "m": 4}}


def test_the_last_of_equal_keys_counts() -> None:
    """A repeated key overwrites the earlier one."""
    assert read("{a: 1, a: 2}") == {"a": 2}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\na: .nan", "watches.yaml, line 2: .nan is no number that JSON can carry; quote it"),
        ("a: -.inf", "watches.yaml, line 1: -.inf is no number that JSON can carry; quote it"),
        ("\n~: 1", "watches.yaml, line 2: a key is empty; write a name as the key"),
        ("[a]: 1", "watches.yaml, line 1: a key is a list; write a name as the key"),
        (
            "a: !!int x",
            "watches.yaml, line 1: cannot decode 'x' as int; correct the value or leave out the tag !!int",
        ),
        (
            "a: !!bool x",
            "watches.yaml, line 1: cannot decode 'x' as bool; correct the value or leave out the tag !!bool",
        ),
        ("\na: &a\n  b: *a", "watches.yaml, line 2: an alias contains itself; write the value out instead"),
        ("\na: &a\n  <<: *a", "watches.yaml, line 2: an alias contains itself; write the value out instead"),
        (
            "<<: 1",
            "watches.yaml, line 1: map merge requires map or sequence of maps as the value; point << at a mapping",
        ),
    ],
)
def test_a_value_that_json_cannot_carry_is_refused(text: str, sentence: str) -> None:
    """The error names the line, the value and the remedy."""
    with pytest.raises(WatchesError) as caught:
        read(text)

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "- a\n- [b\n",
            (
                "watches.yaml, line 3, column 1: not valid YAML: while parsing a flow sequence, "
                "expected ',' or ']', but got '<stream end>'; correct the syntax there or just above"
            ),
        ),
        (
            "- a: 1\n\tb: 2\n",
            (
                "watches.yaml, line 2, column 1: not valid YAML: while scanning for the next token, "
                "found character '\\t' that cannot start any token; correct the syntax there or just above"
            ),
        ),
        (
            "- *gone\n",
            (
                "watches.yaml, line 1, column 3: not valid YAML: found undefined alias 'gone'; "
                "correct the syntax there or just above"
            ),
        ),
        (
            "a: 1\nb: \x07\n",
            "watches.yaml, line 2: not valid YAML: the control character U+0007 is not allowed; delete it",
        ),
        ("[" * 700, "watches.yaml: not valid YAML: nested too deeply; flatten it"),
    ],
)
def test_a_syntax_error_is_told_with_line_and_column(text: str, sentence: str) -> None:
    """What is no YAML is refused where it stands."""
    with pytest.raises(WatchesError) as caught:
        read_document(text, place=PLACE)

    assert str(caught.value) == sentence


def test_a_second_document_is_found_but_not_read() -> None:
    """The peer reads the first document only; the line of the next one is reported."""
    root, second = read_document("a: 1\n---\nb: 2\n", place=PLACE)

    assert root is not None
    assert json_of(root, place=PLACE) == {"a": 1}
    assert second == 3
