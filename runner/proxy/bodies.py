"""Puts marks into a request's body without parsing it to values and back: only the marks' own bytes change. Pure.

So numbers, the order of keys, repeated keys and unknown fields reach the API server as the client wrote them. JSON is
done here; YAML, whose scalars two libraries never read alike, in `yaml_bodies`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.proxy.ownership import Marks

_DECODER = json.JSONDecoder(parse_int=float)  # read to find their ends, never written: no limit of digits
_BLANKS = re.compile(r"[ \t\n\r]*")
_GZIP = b"\x1f\x8b"
_WBITS_OF_GZIP = 31
_ENCODING, _EXACT = "utf-8", "surrogateescape"

Choose = Callable[[str], Marks]
"""Gives the marks, for the namespace that a body names (empty: it names none)."""


class UnreadableBody(ValueError):
    """A body that no marks can be put into; the text says why."""


def marked_json(body: bytes, choose: Choose) -> bytes:
    """Return *body*, a JSON object, with the marks.

    Raises:
        UnreadableBody: it is no JSON object, or its metadata isn't one.
    """
    text = body.decode(_ENCODING, _EXACT)
    try:
        return _marked(text, choose).encode(_ENCODING, _EXACT)
    except RecursionError as error:
        raise UnreadableBody("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise UnreadableBody(f"it is no JSON: {error}") from error


def unpacked(body: bytes, *, limit: int) -> bytes:
    """Return *body* without gzip, where it is packed.

    Raises:
        UnreadableBody: it is broken, or unpacks to more than *limit* bytes.
    """
    if not body.startswith(_GZIP):
        return body
    unpacker = zlib.decompressobj(_WBITS_OF_GZIP)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise UnreadableBody(f"it can't be unpacked: {error}") from error
    if len(plain) > limit:
        raise UnreadableBody(f"it unpacks to more than {limit} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise UnreadableBody("its gzip data ends too early or goes on after the end")
    return plain


def is_json(body: bytes) -> bool:
    """Tell whether *body* looks like a JSON object, which is YAML too."""
    return body.lstrip(b" \t\n\r").startswith(b"{")


@dataclass(frozen=True, kw_only=True)
class _Value:
    """A JSON value and where it stands in the text."""

    value: Any
    start: int
    end: int


def _marked(text: str, choose: Choose) -> str:
    start = _skip(text, 0)
    members, end = _members(text, start)
    if _skip(text, end) != len(text):
        raise UnreadableBody(f"something follows the JSON object (char {end})")
    metadata = members.get("metadata") or _Value(value=None, start=start, end=start)
    found = metadata.value
    if found is not None and not isinstance(found, dict):
        raise UnreadableBody("its metadata is no object")
    marks = choose(str((found or {}).get("namespace") or ""))
    if not marks:
        return text
    if found is None:
        return _put(text, start, members={"metadata": json.dumps(_fresh(marks))})
    return text[: metadata.start] + _with_marks(text[metadata.start : metadata.end], marks) + text[metadata.end :]


def _fresh(marks: Marks) -> Mapping[str, Any]:
    references = {} if marks.reference is None else {"ownerReferences": [marks.reference]}
    return {**references, **({"annotations": marks.annotations} if marks.annotations else {})}


def _with_marks(metadata: str, marks: Marks) -> str:
    """Return *metadata*, the text of an object, with *marks*."""
    members, _ = _members(metadata, 0)
    changes: dict[str, str] = {}
    if marks.reference is not None:
        changes |= _reference(metadata, members.get("ownerReferences"), reference=marks.reference)
    if marks.annotations:
        old = members.get("annotations")
        if old is not None and old.value is not None and not isinstance(old.value, dict):
            raise UnreadableBody("its metadata.annotations are no object")
        text = metadata[old.start : old.end] if old is not None and old.value is not None else "{}"
        changes["annotations"] = _put(text, 0, members={k: json.dumps(v) for k, v in marks.annotations.items()})
    return _put(metadata, 0, members=changes)


def _reference(metadata: str, old: _Value | None, *, reference: Mapping[str, Any]) -> dict[str, str]:
    """Return the new list of owner references, as a change; none where *reference*'s owner is in it."""
    new = json.dumps(reference)
    if old is None or old.value is None or old.value == []:
        return {"ownerReferences": f"[{new}]"}
    if not isinstance(old.value, list):
        raise UnreadableBody("its metadata.ownerReferences are no list")
    if any(isinstance(entry, dict) and entry.get("uid") == reference["uid"] for entry in old.value):
        return {}
    return {"ownerReferences": f"{metadata[old.start : old.end - 1]}, {new}]"}


def _put(text: str, start: int, *, members: Mapping[str, str]) -> str:
    """Return *text*, whose object at *start* gets *members*: replaced where they are, else in front."""
    for key, new in members.items():
        present, _ = _members(text, start)
        old = present.get(key)
        if old is not None:
            text = text[: old.start] + new + text[old.end :]
        else:
            comma = ", " if present else ""
            text = f"{text[: start + 1]}{json.dumps(key)}: {new}{comma}{text[start + 1 :]}"
    return text


def _members(text: str, start: int) -> tuple[dict[str, _Value], int]:
    """Return the members of the object at *start*, and where it ends; of a repeated key the last one counts."""
    if text[start : start + 1] != "{":
        raise UnreadableBody(f"it is no JSON object (char {start})")
    members: dict[str, _Value] = {}
    position = _skip(text, start + 1)
    if text[position : position + 1] == "}":
        return members, position + 1
    while True:
        key, position = _DECODER.raw_decode(text, position)
        position = _expected(":", text, position=position)
        value, end = _DECODER.raw_decode(text, position)
        if not isinstance(key, str):
            raise UnreadableBody(f"a key of its JSON is no string (char {position})")
        members[key] = _Value(value=value, start=position, end=end)
        after = _skip(text, end)
        if text[after : after + 1] == "}":
            return members, after + 1
        position = _expected(",", text, position=end)


def _expected(mark: str, text: str, *, position: int) -> int:
    """Return where the text goes on behind *mark* and the blanks around it."""
    position = _skip(text, position)
    if text[position : position + 1] != mark:
        raise UnreadableBody(f"its JSON lacks a {mark!r} (char {position})")
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position
