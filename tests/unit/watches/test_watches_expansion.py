"""Environment references in the text of watches.yaml; the expected values are what Go's os.Expand returned."""

from __future__ import annotations

import pytest

from runner.watches.expansion import expand

ENVIRON = {"SETV": "val", "EMPTY": "", "X:-d": "literal", "MULTI\nLINE": "two"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$SETV ${SETV}", "val val"),
        ("role: $SETV.x", "role: val.x"),
        ("${EMPTY}|$EMPTY", "|"),
        ("$UNSET-x", "${UNSET}-x"),
        ("${UNSET}", "${UNSET}"),
        ("$SETVx", "${SETVx}"),
        ("$$", "${$}"),
        ("cost $5", "cost ${5}"),
        ("cost $50", "cost ${5}0"),
        ("$1a $-", "${1}a ${-}"),
        ("^foo$", "^foo$"),
        ("a$ b", "a$ b"),
        ("$(X)", "$(X)"),
        ("$é", "$é"),
        (r"\$SETV", r"\val"),
        ("${Y:-d}", "${Y:-d}"),
        ("${X:-d}", "literal"),
        ("${ SETV }", "${ SETV }"),
        ("${MULTI\nLINE}", "two"),
        ("a${}b", "ab"),
        ("${}}", "}"),
        ("${", ""),
        ("${SETV", "SETV"),
        ("${SETV}${", "val"),
        ("# $SETV: $SETV", "# val: val"),
        ("", ""),
    ],
)
def test_references_are_replaced_as_the_peer_replaces_them(text: str, expected: str) -> None:
    """Set variables are replaced everywhere, unset ones are kept with braces, malformed ones vanish."""
    assert expand(text, environ=ENVIRON) == expected


def test_what_a_variable_holds_is_not_expanded_again() -> None:
    """A value with a `$` in it arrives as it is."""
    assert expand("$A", environ={"A": "$B", "B": "no"}) == "$B"
