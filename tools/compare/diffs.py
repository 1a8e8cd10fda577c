"""Compares two observations leaf by leaf, and sorts the differences by what explains them. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tools.compare.normalise import UNSAFE_MARK

ABSENT = "(absent)"
_UNEXPLAINED = ("", "")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One leaf that is not the same."""

    path: str
    """Keys from the top, with slashes."""
    peer: Any
    ours: Any


@dataclass(frozen=True, kw_only=True)
class Known:
    """A difference that is wanted."""

    row: str
    """How its row in docs/compatibility.md begins."""
    cases: str
    """A shell pattern for names of cases."""
    paths: str
    """A shell pattern for paths; `*` spans slashes."""
    why: str = ""
    """What the row doesn't say."""
    marked: bool = False
    """Only where both have one text, which ours marks as unsafe."""
    both: bool = False
    """Only where both have something there."""

    def covers(self, difference: Difference, *, case: str) -> bool:
        """Tell whether *difference* in *case* is this one."""
        if self.marked and difference.ours != f"{UNSAFE_MARK}{difference.peer}":
            return False
        if self.both and ABSENT in {str(difference.peer), str(difference.ours)}:
            return False
        fits_case = fnmatch.fnmatchcase(case, self.cases)
        return fits_case and fnmatch.fnmatchcase(difference.path, self.paths)


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Differences with what explains them; None: nothing does."""

    known: Known | None
    differences: tuple[Difference, ...]


def compare(peer: Any, ours: Any) -> list[Difference]:
    """Return every leaf in which *peer* and *ours* differ, in order of paths."""
    left, right = dict(_leaves(peer)), dict(_leaves(ours))
    paths = [*left, *(path for path in right if path not in left)]
    found = [Difference(path=path, peer=left.get(path, ABSENT), ours=right.get(path, ABSENT)) for path in paths]
    return [one for one in found if not _same(one.peer, one.ours)]


def explain(differences: Sequence[Difference], *, case: str, known: Sequence[Known]) -> list[Explained]:
    """Sort *differences* under the first of *known* that covers each; the unexplained ones come first.

    Rules of one row and reason are one explanation.
    """
    groups: dict[tuple[str, str], Explained] = {_UNEXPLAINED: Explained(known=None, differences=())}
    groups |= {(one.row, one.why): Explained(known=one, differences=()) for one in reversed(known)}
    for difference in differences:
        rule = next((one for one in known if one.covers(difference, case=case)), None)
        key = _UNEXPLAINED if rule is None else (rule.row, rule.why)
        groups[key] = replace(groups[key], differences=(*groups[key].differences, difference))
    first, *others = groups.values()
    return [group for group in (first, *reversed(others)) if group.differences]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield paths and values; an empty map or list is a leaf itself."""
    members: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        members = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        members = [(str(at), item) for at, item in enumerate(value)]
    if not members:
        yield path, value
    for key, item in members:
        yield from _leaves(item, f"{path}/{key}" if path else key)


def _same(left: Any, right: Any) -> bool:
    """Tell whether two leaves are one JSON value: Python takes True for 1."""
    return type(left) is type(right) and bool(left == right)
