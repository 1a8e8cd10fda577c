"""Reads YAML as the peer's library does (go-yaml 2 below `sigs.k8s.io/yaml`), keeping the line of every node.

Below the loader: text to nodes, nodes to JSON values. YAML 1.1 booleans (`yes`, `off`, `y`), octal `0777`; but no
dates and no base-60 numbers, which stay strings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from ctypes import c_float
from typing import Any

import yaml

from runner.watches.problems import Place

_TAG = "tag:yaml.org,2002:"
NULL, BOOL, INT, FLOAT = f"{_TAG}null", f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float"
_MERGE = f"{_TAG}merge"
_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
Scalar = str | int | float | bool
"""What a scalar that is not null may be."""
_EXPONENT_FROM = 1e21
_EXPONENT_OF_TEXT_FROM = 6
_SPECIAL_FLOATS = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}


class _Loader(yaml.SafeLoader):
    """A composer whose plain scalars get go-yaml's types; it never constructs Python objects."""


_Loader.yaml_implicit_resolvers = {}  # none of PyYAML's own


def _resolve(tag: str, pattern: str) -> None:
    _Loader.add_implicit_resolver(tag, re.compile(f"(?:{pattern})\\Z"), [None])


_resolve(_MERGE, "<<")
_resolve(NULL, "|~|null|Null|NULL")
_resolve(BOOL, "|".join(_TRUE | _FALSE))
_resolve(INT, r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0[0-7_]*|[1-9][0-9_]*)")
_resolve(FLOAT, r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_resolve(FLOAT, r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def read_document(text: str, *, place: Place) -> tuple[yaml.Node | None, int | None]:
    """Return the first document's root, and the line where a second one begins, if there is one."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        root = loader.get_node() if loader.check_node() else None
        follower = loader.get_node() if loader.check_node() else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = place.at(mark.line + 1, column=mark.column + 1) if mark else place
        detail = ", ".join(part for part in (error.context, error.problem) if part)
        raise where.error(f"not valid YAML: {detail}", remedy="correct the syntax there or just above") from error
    except yaml.reader.ReaderError as error:
        where = place.at(text.count("\n", 0, error.position) + 1)
        character = error.character if isinstance(error.character, int) else ord(error.character)
        wrong = f"not valid YAML: the control character U+{character:04X} is not allowed"
        raise where.error(wrong, remedy="delete it") from error
    except RecursionError as error:
        raise place.error("not valid YAML: nested too deeply", remedy="flatten it") from error
    finally:
        if loader is not None:
            loader.dispose()
    return root, line_of(follower) if follower is not None else None


def line_of(node: yaml.Node) -> int:
    """Return the line on which *node* begins, counted from 1."""
    return int(node.start_mark.line) + 1


def pairs_of(
    node: yaml.MappingNode, *, place: Place, within: tuple[yaml.Node, ...] = ()
) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return a mapping's keys and values; what `<<` merges in comes first, so that the mapping's own keys win."""
    inside = _enter(node, within=within, place=place)
    own: list[tuple[yaml.Node, yaml.Node]] = []
    merged: list[tuple[yaml.Node, yaml.Node]] = []
    for key, value in node.value:
        if key.tag != _MERGE:
            own.append((key, value))
            continue
        for source in _merge_sources(value, place=place.at(line_of(key))):
            merged += pairs_of(source, place=place, within=inside)
    return merged + own


def scalar_of(node: yaml.ScalarNode, *, place: Place) -> Scalar | None:
    """Return a scalar's value."""
    text = str(node.value)
    try:
        match node.tag:
            case tag if tag == NULL:
                return None
            case tag if tag == BOOL:
                return _boolean(text)
            case tag if tag == INT:
                return _integer(text)
            case tag if tag == FLOAT:
                return _SPECIAL_FLOATS[text.lower()] if text.lower() in _SPECIAL_FLOATS else float(text)
    except ValueError as error:
        kind = node.tag.removeprefix(_TAG)
        raise place.at(line_of(node)).error(
            f"cannot decode {text!r} as {kind}", remedy=f"correct the value or leave out the tag !!{kind}"
        ) from error
    return text


def json_of(node: yaml.Node, *, place: Place, within: tuple[yaml.Node, ...] = ()) -> Any:
    """Return *node* as JSON data: keys are strings, numbers are finite."""
    inside = _enter(node, within=within, place=place)
    if isinstance(node, yaml.MappingNode):
        return {
            key_of(key, place=place): json_of(value, place=place, within=inside)
            for key, value in pairs_of(node, place=place)
        }
    if isinstance(node, yaml.SequenceNode):
        return [json_of(item, place=place, within=inside) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)  # noqa: S101 - PyYAML composes three kinds of node
    value = scalar_of(node, place=place)
    if isinstance(value, float) and not math.isfinite(value):
        raise place.at(line_of(node)).error(f"{node.value} is no number that JSON can carry", remedy="quote it")
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXPONENT_FROM:
        return int(value)  # Go's JSON writes 5.0 as 5, so roles see a whole number
    return value


def key_of(node: yaml.Node, *, place: Place) -> str:
    """Return a mapping's key as text, as JSON needs it."""
    value = scalar_of(node, place=place) if isinstance(node, yaml.ScalarNode) else None
    if value is None:
        raise place.at(line_of(node)).error(f"a key is {kind_of(node)}", remedy="write a name as the key")
    return text_of(value)


def text_of(value: Scalar) -> str:
    """Return a scalar as the text that the peer makes of it: `true`, `1`, `1.1` (for 1.10), `1.234567e+06`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _shortest(value) if isinstance(value, float) else str(value)


def kind_of(node: yaml.Node) -> str:
    """Return what *node* is in a person's words, with its value where that is short."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    kinds = {NULL: "empty", BOOL: "a boolean", INT: "a number", FLOAT: "a number"}
    kind = kinds.get(node.tag, "a string")
    return kind if kind == "empty" else f'the {kind.removeprefix("a ")} "{node.value}"'


def _enter(node: yaml.Node, *, within: tuple[yaml.Node, ...], place: Place) -> tuple[yaml.Node, ...]:
    """Return *within* and *node*; refuse a node that an alias put inside of itself."""
    if any(node is outer for outer in within):
        raise place.at(line_of(node)).error("an alias contains itself", remedy="write the value out instead")
    return (*within, node)


def _merge_sources(value: yaml.Node, *, place: Place) -> Iterable[yaml.MappingNode]:
    """Return the mappings that `<<` names, the weakest first."""
    candidates = reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]
    for candidate in candidates:
        if not isinstance(candidate, yaml.MappingNode):
            raise place.error("map merge requires map or sequence of maps as the value", remedy="point << at a mapping")
        yield candidate


def _boolean(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise ValueError(text)
    return text in _TRUE


def _shortest(value: float) -> str:
    """Return Go's `strconv.FormatFloat(value, 'g', -1, 32)`: the fewest digits that mean *value* in 32 bits.

    Not in 64: the peer's library writes every number that is to be text so.
    """
    single = c_float(value).value
    if not math.isfinite(single):
        return "NaN" if math.isnan(single) else f"{single:+}".title()
    texts = (f"{single:.{digits}e}" for digits in range(9))
    text = next(text for text in texts if c_float(float(text)).value == single)
    mantissa, exponent = text.split("e")
    power, fraction = int(exponent), len(mantissa.partition(".")[2])
    return f"{float(text):.{max(fraction - power, 0)}f}" if -4 <= power < _EXPONENT_OF_TEXT_FROM else text


def _integer(text: str) -> int:
    plain = text.replace("_", "")
    digits = plain.lstrip("+-")
    octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
    return int(plain, 8 if octal else 0)
