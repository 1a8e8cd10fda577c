"""Puts marks into YAML by its text, as `bodies` does with JSON. Pure.

PyYAML finds the places, the API server alone reads the scalars: the two disagree on `y`, `1e3` and `1:30`. What can't
be done in place (anchors, aliases and merge keys in metadata) is refused, and the result is read again before use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from runner.proxy.bodies import Choose, UnreadableBody
from runner.proxy.ownership import Marks

_NULL = "tag:yaml.org,2002:null"
_MERGE = "<<"


def marked_yaml(body: bytes, choose: Choose) -> bytes:
    """Return *body*, one YAML mapping, with the marks.

    Raises:
        UnreadableBody: it is no such thing, or its metadata is written in a way that is not understood here.
    """
    try:
        text = body.decode()
        marks = choose(_namespace(_metadata(text)))
        new = _checked(text, marks) if marks else text
    except RecursionError as error:
        raise UnreadableBody("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise UnreadableBody(f"it is no UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        raise UnreadableBody(f"it is no YAML object: {_reason(error)}") from error
    return new.encode()


def _checked(text: str, marks: Marks) -> str:
    """Return *text* with *marks*, which a parser has found in it."""
    try:
        new = _with_marks(text, marks)
        found = _has(_metadata(new), marks)
    except yaml.YAMLError:  # the text itself was read before: it is our change that broke it
        found = False
    if not found:
        raise UnreadableBody("its YAML is written in a way that the proxy can't extend: send it as JSON")
    return new


def _with_marks(text: str, marks: Marks) -> str:
    if _member(_root(text), "metadata") is None:
        text = _put(text, _root(text), key="metadata", new="{}")
    if marks.reference is not None:
        text = _with_reference(text, reference=marks.reference)
    for key, value in marks.annotations.items():
        if _member(_own_metadata(text), "annotations") is None:
            text = _put(text, _own_metadata(text), key="annotations", new="{}")
        annotations = _mapping(_member(_own_metadata(text), "annotations"), text=text, what="annotations")
        text = _put(text, annotations, key=key, new=json.dumps(value))
    return text


def _with_reference(text: str, *, reference: Mapping[str, Any]) -> str:
    new, metadata = json.dumps(reference), _own_metadata(text)
    old = _member(metadata, "ownerReferences")
    if old is None:
        return _put(text, metadata, key="ownerReferences", new=f"[{new}]")
    if not isinstance(old, yaml.SequenceNode):
        raise UnreadableBody("its metadata.ownerReferences are no list")
    _check_own(old, text=text, what="ownerReferences")
    if any(isinstance(entry, dict) and entry.get("uid") == reference["uid"] for entry in _value(old)):
        return text
    start = old.start_mark.index
    if text[start] == "[":
        separator = ", " if old.value else ""
        return f"{text[: start + 1]}{new}{separator}{text[start + 1 :]}"
    return f"{text[:start]}- {new}\n{' ' * old.start_mark.column}{text[start:]}"


def _put(text: str, mapping: yaml.MappingNode, *, key: str, new: str) -> str:
    """Return *text*, whose *mapping* gets *key*: in the place of the old value, else in front."""
    found = [value for name, value in mapping.value if name.value == key]
    if found:
        old = found[-1]
        start, end = old.start_mark.index, old.end_mark.index
        glue = "" if text[start:end].rstrip() == text[start:end] else f"\n{' ' * old.end_mark.column}"
        return f"{text[:start]} {new}{glue}{text[end:]}"
    if mapping.flow_style:
        start = mapping.start_mark.index + 1
        separator = ", " if mapping.value else ""
        return f"{text[:start]}{json.dumps(key)}: {new}{separator}{text[start:]}"
    first = mapping.value[0][0].start_mark
    return f"{text[: first.index]}{json.dumps(key)}: {new}\n{' ' * first.column}{text[first.index :]}"


def _root(text: str) -> yaml.MappingNode:
    """Return the one document of *text*; empty ones after it don't count."""
    documents = [*yaml.compose_all(text, Loader=yaml.SafeLoader)]
    if any(other.tag != _NULL for other in documents[1:]):
        raise UnreadableBody("it has several YAML documents, of which the API server would read the first: send one")
    return _mapping(documents[0] if documents else None, text=text, what="it")


def _own_metadata(text: str) -> yaml.MappingNode:
    """Return the metadata as it stands in *text*."""
    return _mapping(_member(_root(text), "metadata"), text=text, what="metadata")


def _metadata(text: str) -> yaml.MappingNode:
    """Return the metadata, an empty mapping where there is none."""
    found = _member(_root(text), "metadata")
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
