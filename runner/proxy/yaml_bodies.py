"""Puts marks into YAML by its text, as `bodies` does with JSON. Pure.

PyYAML finds the places, the API server alone reads the scalars: the two disagree on `y`, `1e3` and `1:30`. What can't
be done in place (anchors, aliases and merge keys in metadata) is refused, and the result is read again before use.

Two readings are all that a body costs, by libyaml where it is there. Size, depth and number of values are bounded: a
reading that lasts takes the interpreter's lock from the event loop again and again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from runner.proxy.bodies import Choose, UnreadableBody
from runner.proxy.ownership import Marks

_NULL = "tag:yaml.org,2002:null"
_MERGE = "<<"
_BOM = "\ufeff"
_LARGEST = 512 * 1024
"""Bytes, of which large texts cost next to nothing. JSON is read a hundred times faster, and may be larger."""
_MOST_VALUES = 50_000
"""Keys count, too. Measured: 1 s for reading both times, on two busy cores."""
_DEEPEST = 100
"""Levels; a schema in a CustomResourceDefinition may have fifty."""


class _Bounded:
    """The part of a loader that is called for each value before and after its parts, of both libraries' kinds."""

    _depth = 0
    _values = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Begin a value."""
        self._depth += 1
        self._values += 1
        if self._depth > _DEEPEST:
            raise UnreadableBody(f"it is nested too deeply: more than {_DEEPEST} levels")
        if self._values > _MOST_VALUES:
            raise UnreadableBody(f"it has more than {_MOST_VALUES} keys and values: send it as JSON")

    def ascend_resolver(self) -> None:
        """End it."""
        self._depth -= 1


_LOADER: Any = type("_Loader", (_Bounded, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), {})
"""libyaml's where PyYAML was built with it, some ten times faster."""


@dataclass(frozen=True, kw_only=True)
class _Edit:
    """A new text in the place of an old one, which may be empty."""

    start: int
    end: int
    new: str


def marked_yaml(body: bytes, choose: Choose) -> bytes:
    """Return *body*, one YAML mapping, with the marks.

    Raises:
        UnreadableBody: it is no such thing, or its metadata is written in a way that is not understood here, or it is
            too large.
    """
    if len(body) > _LARGEST:
        raise UnreadableBody(f"YAML of more than {_LARGEST // 1024} KiB takes too long to read: send it as JSON")
    try:
        whole = body.decode()
        text = whole.removeprefix(_BOM)  # the libraries don't agree whether it counts
        root = _root(text)
        marks = choose(_namespace(_metadata(root, text=text)))
        new = _checked(text, root=root, marks=marks) if marks else text
    except RecursionError as error:
        raise UnreadableBody("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise UnreadableBody(f"it is no UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        raise UnreadableBody(f"it is no YAML object: {_reason(error)}") from error
    return (whole[: len(whole) - len(text)] + new).encode()


def _checked(text: str, *, root: yaml.MappingNode, marks: Marks) -> str:
    """Return *text* with *marks*, which a parser has found in it."""
    new = text
    for edit in sorted(_edits(text, root=root, marks=marks), key=lambda edit: edit.start, reverse=True):
        new = new[: edit.start] + edit.new + new[edit.end :]
    try:
        found = _has(_metadata(_root(new), text=new), marks)
    except yaml.YAMLError:  # the text itself was read before: it is our change that broke it
        found = False
    if not found:
        raise UnreadableBody("its YAML is written in a way that the proxy can't extend: send it as JSON")
    return new


def _edits(text: str, *, root: yaml.MappingNode, marks: Marks) -> list[_Edit]:
    if _member(root, "metadata") is None:
        references = {} if marks.reference is None else {"ownerReferences": [marks.reference]}
        annotations = {"annotations": marks.annotations} if marks.annotations else {}
        return _put(text, root, members={"metadata": json.dumps({**references, **annotations})})
    metadata = _metadata(root, text=text)
    edits: list[_Edit] = []
    members: dict[str, str] = {}
    if marks.reference is not None:
        if (old := _member(metadata, "ownerReferences")) is None:
            members["ownerReferences"] = json.dumps([marks.reference])
        else:
            edits += _extended(old, text=text, reference=marks.reference)
    if marks.annotations:
        if (old := _member(metadata, "annotations")) is None:
            members["annotations"] = json.dumps(marks.annotations)
        else:
            new = {key: json.dumps(value) for key, value in marks.annotations.items()}
            edits += _put(text, _mapping(old, text=text, what="annotations"), members=new)
    return edits + _put(text, metadata, members=members)


def _extended(old: yaml.Node, *, text: str, reference: Mapping[str, Any]) -> list[_Edit]:
    """Return how *reference* comes into the list *old*; nothing where its owner is in it."""
    if not isinstance(old, yaml.SequenceNode):
        raise UnreadableBody("its metadata.ownerReferences are no list")
    _check_own(old, text=text, what="ownerReferences")
    if any(isinstance(entry, dict) and entry.get("uid") == reference["uid"] for entry in _value(old)):
        return []
    new, start = json.dumps(reference), old.start_mark.index
    if text[start] == "[":
        separator = ", " if old.value else ""
        return [_Edit(start=start + 1, end=start + 1, new=f"{new}{separator}")]
    return [_Edit(start=start, end=start, new=f"- {new}\n{' ' * old.start_mark.column}")]


def _put(text: str, mapping: yaml.MappingNode, *, members: Mapping[str, str]) -> list[_Edit]:
    """Return how *mapping* gets *members*: each in the place of the old value, else in front."""
    old = {str(name.value): value for name, value in mapping.value}  # the last one of a repeated key counts
    replaced = [_replaced(text, old[key], new=new) for key, new in members.items() if key in old]
    fresh = [f"{json.dumps(key)}: {new}" for key, new in members.items() if key not in old]
    return replaced + ([_in_front(mapping, fresh=fresh)] if fresh else [])


def _replaced(text: str, old: yaml.Node, *, new: str) -> _Edit:
    start, end = old.start_mark.index, old.end_mark.index
    glue = "" if text[start:end].rstrip() == text[start:end] else f"\n{' ' * old.end_mark.column}"
    return _Edit(start=start, end=end, new=f" {new}{glue}")


def _in_front(mapping: yaml.MappingNode, *, fresh: Sequence[str]) -> _Edit:
    if mapping.flow_style:
        start, separator = mapping.start_mark.index + 1, ", "
        return _Edit(start=start, end=start, new=separator.join(fresh) + (separator if mapping.value else ""))
    first = mapping.value[0][0].start_mark
    separator = f"\n{' ' * first.column}"
    return _Edit(start=first.index, end=first.index, new=separator.join(fresh) + separator)


def _root(text: str) -> yaml.MappingNode:
    """Return the one document of *text*; empty ones after it don't count."""
    documents = [*yaml.compose_all(text, Loader=_LOADER)]
    if any(other.tag != _NULL for other in documents[1:]):
        raise UnreadableBody("it has several YAML documents, of which the API server would read the first: send one")
    return _mapping(documents[0] if documents else None, text=text, what="it")


def _metadata(root: yaml.MappingNode, *, text: str) -> yaml.MappingNode:
    """Return the metadata, an empty mapping where there is none."""
    found = _member(root, "metadata")
    return yaml.MappingNode("", [], flow_style=True) if found is None else _mapping(found, text=text, what="metadata")


def _mapping(node: yaml.Node | None, *, text: str, what: str) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode):
        raise UnreadableBody(f"{what} is no YAML mapping")
    _check_own(node, text=text, what=what)
    if any(name.value == _MERGE for name, _ in node.value):
        raise UnreadableBody(f"{what} has a merge key (<<): write out what it stands for")
    return node


def _check_own(node: yaml.Node, *, text: str, what: str) -> None:
    """Refuse a value that stands elsewhere in the document too: a change here would change that."""
    if text[node.start_mark.index] in "&!":
        raise UnreadableBody(f"{what} has a YAML anchor or tag: write it without")


def _member(mapping: yaml.MappingNode, key: str) -> yaml.Node | None:
    """Return the value of *key*, None where it isn't there or null."""
    found: list[tuple[yaml.Node, yaml.Node]] = [entry for entry in mapping.value if entry[0].value == key]
    if not found or found[-1][1].tag == _NULL:
        return None
    name, value = found[-1]
    if value.start_mark.index < name.start_mark.index:
        raise UnreadableBody(f"{key} is a YAML alias: write out what it stands for")
    return value


def _namespace(metadata: yaml.MappingNode) -> str:
    found = _member(metadata, "namespace")
    return str(found.value) if isinstance(found, yaml.ScalarNode) else ""


def _has(metadata: yaml.MappingNode, marks: Marks) -> bool:
    """Tell whether *metadata* has the marks, read by a parser rather than taken for granted."""
    references = _value(_member(metadata, "ownerReferences")) or []
    annotations = _value(_member(metadata, "annotations")) or {}
    uids = [entry.get("uid") for entry in references if isinstance(entry, dict)]
    wants = [] if marks.reference is None else [marks.reference["uid"]]
    return all(uids.count(uid) == 1 for uid in wants) and marks.annotations.items() <= annotations.items()


def _value(node: yaml.Node | None) -> Any:
    return None if node is None else yaml.SafeLoader("").construct_document(node)


def _reason(error: yaml.YAMLError) -> str:
    """Return the problem and its place, without the excerpt of the body that PyYAML adds."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or type(error).__name__
    mark = getattr(error, "problem_mark", None)
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)
