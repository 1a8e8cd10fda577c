"""What holds for the conversion of every name that a JSON object can have, on many names of a fixed seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator

from runner.execution.parameters import parameters_for
from runner.execution.snake_case import to_snake
from runner.testing.executor import run_request

SAMPLES = 6_000
_WORDS = ["HTTP", "URL", "IP", "s", "S", "HTTPs", "IPs", "k8s", "x1", "Key", "key", "_", "__", "-", " ", ".", "/", "9"]
_ODD = "äÉßẞİıſΣσςǅ日本語😀\u0301\u200d\u00a0\u2028\ud800\udfff\x00\x01\n\t\x7f\u0660\u2167$@{}%'\"\\"
_ASCII = "".join(chr(code) for code in range(0x20, 0x7F))
_MORE_WORDS = re.compile(r"[A-Za-z][0-9]+[A-Za-z][0-9]+")


def _names(count: int) -> Iterator[str]:
    """Give pieces of real names, odd characters, printable ASCII, and any code point at all, in all mixtures."""
    chance = random.Random(20260101)  # noqa: S311 - a test's samples must be the same each time
    for _ in range(count):
        pieces: list[Callable[[], str]] = [
            lambda: chance.choice(_WORDS),
            lambda: chance.choice(_ODD),
            lambda: chance.choice("aA12_"),
            lambda: chance.choice(_ASCII),
            lambda: chr(chance.randrange(0x110000)),
        ]
        weights = chance.choice([
            (8, 1, 4, 4, 0),
            (1, 8, 2, 2, 1),
            (0, 0, 8, 1, 0),
            (0, 0, 0, 1, 0),
            (0, 0, 0, 0, 1),
            (3, 3, 3, 3, 3),
        ])
        yield "".join(piece() for piece in chance.choices(pieces, weights, k=chance.randrange(13)))


def test_every_name_is_converted() -> None:
    """No name raises: not an empty or blank one, no control character, no lone surrogate, no other script (P1)."""
    for name in _names(SAMPLES):
        assert isinstance(to_snake(name), str), ascii(name)


def test_a_converted_name_holds_no_separators_but_underscores() -> None:
    """No blank, no dash and no capital is left; only a blank name stays as it is."""
    for name in _names(SAMPLES):
        snake = to_snake(name)
        if name.strip(" "):
            assert not set(snake) & set(" -"), ascii(name)
            assert all(char == char.lower() for char in snake), ascii(name)
        else:
            assert snake == name


def test_a_converted_name_stays_where_no_digits_are_left_to_separate() -> None:
    """Converting again changes a result only where letter-digits-letter-digits is left in it, as with the peer (P1)."""
    # That is the whole class: non-overlapping occurrences are separated once, so `a1b2c3` becomes `a_1_b2c3`, in which
    # another one is left; every other result is its own conversion.
    changed = 0
    for name in _names(SAMPLES):
        snake = to_snake(name)
        again = to_snake(snake)
        assert (again == snake) == (_MORE_WORDS.search(snake) is None), ascii(name)
        changed += again != snake
    assert changed > 10, "the samples hold none of the other class"
    assert (to_snake("a1b2c3"), to_snake("a_1_b2c3")) == ("a_1_b2c3", "a_1_b_2_c3")


def test_converting_comes_to_an_end() -> None:
    """Converted again and again, each name reaches a form that stays."""
    for name in _names(SAMPLES // 10):
        for _ in range(20):
            if to_snake(name) == name:
                break
            name = to_snake(name)  # noqa: PLW2901 - the next form of it
        assert to_snake(name) == name


def test_every_object_becomes_variables() -> None:
    """A spec of any keys, nested too, becomes JSON that can be written and read, the same one each time (P1, P2)."""
    names = list(_names(1_000))
    for start in range(0, len(names), 25):
        keys = names[start : start + 25]
        spec = {key: {inner: [key] for inner in keys[:3]} for key in keys}
        request = run_request(spec=spec)
        first, second = parameters_for(request), parameters_for(run_request(spec=dict(reversed(spec.items()))))
        assert first.variables == second.variables
        assert json.loads(json.dumps(first.variables).encode()) == first.variables
