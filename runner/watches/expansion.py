"""Replaces `$NAME` and `${NAME}` in the text of watches.yaml, before it is read as YAML.

Go's `os.Expand` with the peer's twist: a variable that is not set stays, written as `${NAME}`. There is no escape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(
    r"\$(?:"
    r"\{(?P<braced>[^}]*)\}"
    r"|(?P<unclosed>\{)"
    r"|(?P<bare>[*#$@!?0-9-]|[A-Za-z_][A-Za-z0-9_]*)"  # a special character or digit is a whole name
    r")"
)


def expand(text: str, *, environ: Mapping[str, str]) -> str:
    """Return *text* with every reference to a set variable replaced; `${}` and an unclosed `${` are dropped."""

    def replace(match: re.Match[str]) -> str:
        name = match["braced"] or match["bare"]
        return environ.get(name, f"${{{name}}}") if name else ""

    return _REFERENCE.sub(replace, text)
