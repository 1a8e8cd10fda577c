"""One mapping of watches.yaml whose keys are known: typed reading of its fields.

Between the YAML nodes of `document` and the loader. Keys match without regard to case, `null` means unset, scalars
become text where text is wanted, and nothing else is converted: the rules of the peer's JSON decoding.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import yaml

from runner.kube.objects import GVK
from runner.watches.document import Scalar, json_of, key_of, kind_of, line_of, pairs_of, scalar_of, text_of
from runner.watches.durations import parse_duration
from runner.watches.problems import Place, WatchesError

_WORKERS = "; set --max-concurrent-reconciles or the variable MAX_CONCURRENT_RECONCILES_<KIND>_<GROUP>"
_BEYOND = 2**63
"""The first number that Go's int cannot hold."""
_ELSEWHERE = {
    "maxworkers": _WORKERS,
    "workers": _WORKERS,
    "maxconcurrentreconciles": _WORKERS,
    "ansibleverbosity": "; set --ansible-verbosity or the variable ANSIBLE_VERBOSITY_<KIND>_<GROUP>",
    "namespaces": "; set the variable WATCH_NAMESPACE",
}
"""What people look for in the file and find elsewhere, in lower case."""


class Section:
    """The fields of one mapping; *notes* collects what is odd but no error."""

    def __init__(
        self, node: yaml.MappingNode, *, place: Place, known: Collection[str], notes: list[str], prefix: str = ""
    ) -> None:
        """Look up every key of *node*; note the unknown ones."""
        self._prefix = prefix
        self._notes = notes
        self.place = place.at(line_of(node))
        self._nodes = self._lookup(node, known=known)

    def __contains__(self, name: str) -> bool:
        """Tell whether the field is given and not null."""
        return name in self._nodes

    def text(self, name: str) -> str:
        """Return a string field, empty where it is unset; numbers and booleans become text."""
        return _text(self._nodes[name], place=self.at(name), notes=self._notes) if name in self else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(_text(item, place=self.at(name), notes=self._notes) for item in self._items(name))

    def gvk(self) -> GVK:
        """Return the fields `group`, `version` and `kind`, empty where they are unset."""
        return GVK(self.text("group"), self.text("version"), self.text("kind"))

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return a boolean field."""
        value = self._scalar(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            wrong = f"must be a boolean, not {kind_of(self._nodes[name])}"
            raise self.error(name, wrong, remedy="write true or false, without quotes")
        return value

    def integer(self, name: str) -> int:
        """Return a whole number, 0 where it is unset."""
        value = self._scalar(name)
        if value is None:
            return 0
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool | str) or not whole:
            wrong = f"must be a whole number, not {kind_of(self._nodes[name])}"
            raise self.error(name, wrong, remedy="write digits, without quotes")
        if not -_BEYOND <= value < _BEYOND:
            raise self.error(name, "must fit in 64 bits", remedy="write a smaller number")
        return int(value)

    def duration(self, name: str) -> timedelta | None:
        """Return a duration field, None where it is unset."""
        value = self._scalar(name)
        if value is None:
            return None
        remedy = 'write a Go duration such as "30s", "5m" or "1h30m"'
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {kind_of(self._nodes[name])}", remedy=remedy)
        try:
            return parse_duration(value)
        except ValueError as error:
            raise self.error(name, str(error), remedy=remedy) from error

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a field that holds free JSON data under string keys."""
        if name not in self:
            return {}
        node = self._nodes[name]
        if not isinstance(node, yaml.MappingNode):
            raise self.error(name, f"must be a mapping, not {kind_of(node)}", remedy="write `name: value` lines below")
        value: dict[str, Any] = json_of(node, place=self.at(name))
        return value

    def string_map(self, name: str) -> dict[str, str]:
        """Return a mapping of strings to strings."""
        if name not in self:
            return {}
        node = self._nodes[name]
        if not isinstance(node, yaml.MappingNode):
            raise self.error(name, f"must be a mapping, not {kind_of(node)}", remedy="write `name: value` lines below")
        place = self.at(name)
        return {
            key_of(key, place=place): _text(value, place=place, notes=self._notes)
            for key, value in pairs_of(node, place=place)
        }

    def section(self, name: str, *, known: Collection[str]) -> Section | None:
        """Return a nested mapping of known keys, None where it is unset."""
        return self._nested(self._nodes[name], name=name, known=known) if name in self else None

    def sections(self, name: str, *, known: Collection[str]) -> list[Section]:
        """Return a list of nested mappings of known keys."""
        return [self._nested(item, name=name, known=known) for item in self._items(name)]

    def at(self, name: str) -> Place:
        """Return the place of a field: its own line if it is given, else that of the mapping."""
        place = self.place.in_field(self._prefix + name)
        return place.at(line_of(self._nodes[name])) if name in self else place

    def error(self, name: str, wrong: str, *, remedy: str) -> WatchesError:
        """Return the error to raise about a field."""
        return self.at(name).error(wrong, remedy=remedy)

    def note(self, name: str, sentence: str) -> None:
        """Keep a note about a field."""
        self._notes.append(f"line {self.at(name).line}: {sentence}")

    def _lookup(self, node: yaml.MappingNode, *, known: Collection[str]) -> dict[str, yaml.Node]:
        names = {name.lower(): name for name in known}
        found: dict[str, tuple[str, yaml.Node]] = {}
        for key_node, value in pairs_of(node, place=self.place):
            key = key_of(key_node, place=self.place)
            name = names.get(key.lower())
            if name is None:
                self._note_unknown(key, line=line_of(key_node), names=names)
                continue
            earlier = found.get(name)
            if earlier is None or key == name or earlier[0] != name:  # the exact spelling wins, then the last one
                found[name] = (key, value)
        return {name: value for name, (_, value) in found.items() if not _is_null(value)}

    def _note_unknown(self, key: str, *, line: int, names: Mapping[str, str]) -> None:
        near = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.8)
        hint = _ELSEWHERE.get(key.lower(), "")
        if near:
            hint = f"; did you mean {self._prefix}{names[near[0]]}?"
        self._notes.append(f"line {line}: unknown key {self._prefix}{key} is ignored{hint}")

    def _scalar(self, name: str) -> Scalar | None:
        if name not in self:
            return None
        node = self._nodes[name]
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(name, f"must be a single value, not {kind_of(node)}", remedy="write it on one line")
        return scalar_of(node, place=self.at(name))

    def _items(self, name: str) -> list[yaml.Node]:
        if name not in self:
            return []
        node = self._nodes[name]
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(name, f"must be a list, not {kind_of(node)}", remedy="begin each item with `- `")
        items: list[yaml.Node] = node.value
        return items

    def _nested(self, node: yaml.Node, *, name: str, known: Collection[str]) -> Section:
        place = self.at(name).at(line_of(node))
        if not isinstance(node, yaml.MappingNode):
            remedy = f"write its keys ({', '.join(known)}) below it"
            raise place.error(f"must be a mapping, not {kind_of(node)}", remedy=remedy)
        return Section(node, place=place, known=known, notes=self._notes, prefix=f"{self._prefix}{name}.")


def _text(node: yaml.Node, *, place: Place, notes: list[str]) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise place.at(line_of(node)).error(f"must be a string, not {kind_of(node)}", remedy="write it on one line")
    value = scalar_of(node, place=place)
    if value is None:
        return ""
    text = text_of(value)
    if text != node.value:
        notes.append(f'line {line_of(node)}: {place.field} {node.value} is read as "{text}"; quote it to keep it')
    return text


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and scalar_of(node, place=Place(file="")) is None
