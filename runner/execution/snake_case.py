"""The peer's snake-case conversion of names, to the letter: `parameters` applies it to every key of a spec.

Roles in the field refer to the names that this algorithm makes, the odd ones too (`podCIDRs` becomes `pod_cid_rs`),
so each step below is the peer's own (internal/ansible/paramconv/paramconv.go) and none may be repaired.
"""

from __future__ import annotations

import re

_WORDS = ("HTTP", "URL", "IP")
_DIGITS_BETWEEN = re.compile(r"([A-Za-z])([0-9]+)([A-Za-z])([0-9]+)")
_SEPARATORS = " _-"


def to_snake(name: str) -> str:
    """Return *name* as the peer converts it; an empty or blank name, on which the peer crashes, stays as it is."""
    text = _DIGITS_BETWEEN.sub(r"\1 \2 \3\4", name).strip(" ")
    if not text:
        return name
    leads_upper = "A" <= text[0] <= "Z"
    for word in _WORDS:
        text = _set_apart(text, word)
    segments = ["".join(_lower(char) for char in segment) for segment in _segments(text)]
    joined = "_".join(segments)
    return f"_{joined}" if leads_upper and segments[0] not in {"http", "url", "ip"} else joined


def _set_apart(text: str, word: str) -> str:
    """Put underscores around the first *word* in *text*; a plural's `s` goes with it."""
    at = text.find(word)
    if at < 0:
        return text
    before, after = text[:at], text[at + len(word) :]
    if not after:
        return f"{before}_{word}"
    if after == "s":
        return f"{before}_{word}S"
    plural = after.startswith("s")
    middle = f"{word}S_{after[1:]}" if plural else f"{word}_{after}"
    return f"{before}_{middle}" if at else middle


def _segments(text: str) -> list[str]:
    """Cut *text* at separators and where the case flips."""
    segments: list[str] = []
    current = ""
    for char, following in zip(text, [*text[1:], ""], strict=True):
        if current and _flips(char, following):
            if char.isupper():
                segments.append(current)
                current = char
            else:
                segments.append(current + char)
                current = ""
        elif char in _SEPARATORS:
            segments.append(current)
            current = ""
        else:
            current += char
    return [*segments, current]


def _lower(char: str) -> str:
    """Return the small letter as Go has it: character by character, and never two for one."""
    return "i" if char == "\u0130" else char.lower()


def _flips(char: str, following: str) -> bool:
    """Tell whether the two are ASCII letters of different case."""
    both = char + following
    return len(both) == 2 and both.isascii() and both.isalpha() and char.isupper() != following.isupper()
