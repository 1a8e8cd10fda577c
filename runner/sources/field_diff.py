"""The differences between two states of one object, field by field, in the words of a person who reads YAML.

    spec.template.spec.containers[name=webapp].image
    metadata.labels["app.kubernetes.io/name"]
    spec.template.spec.containers[name=webapp].args[2]

Pure. What may be shown of the values is decided by `runner.sources.masking`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runner.kube.objects import metadata

Path = tuple[str, ...]
"""Names of fields, and `[...]` for an element of a list."""

_PLAIN = re.compile(r"[A-Za-z0-9_$-]+\Z")
_SERVERS_OWN = {
    "resourceVersion",
    "generation",
    "managedFields",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
}


class Absent:
    """In the place of a value that is not there; `null` is a value."""

    def __repr__(self) -> str:
        """Return the word for it."""
        return "absent"


ABSENT = Absent()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field that is not as it was."""

    path: Path
    desired: Any
    actual: Any

    @property
    def field(self) -> str:
        """Return the path as one word."""
        return text_of(self.path)


def differences(desired: Mapping[str, Any], actual: Mapping[str, Any]) -> list[Difference]:
    """Return where *actual* is not as *desired*, without the status and what the API server itself keeps."""
    return list(_in_mappings((), desired=_wish(desired), actual=_wish(actual)))


def text_of(path: Path) -> str:
    """Return *path* as one word: dots between plain names, brackets for others."""
    words = [part if part.startswith("[") else f".{part}" if _PLAIN.match(part) else f'["{part}"]' for part in path]
    return "".join(words).removeprefix(".")


def _wish(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    kept = {key: value for key, value in metadata(obj).items() if key not in _SERVERS_OWN}
    # each label, annotation and finalizer is a field of its own, also the first one
    whole: dict[str, Any] = {"labels": {}, "annotations": {}, "finalizers": []}
    kept = {**kept, **{key: kept.get(key) or empty for key, empty in whole.items()}}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": kept}


def _between(path: Path, *, desired: Any, actual: Any) -> Iterator[Difference]:
    if isinstance(desired, Mapping) and isinstance(actual, Mapping):
        yield from _in_mappings(path, desired=desired, actual=actual)
    elif isinstance(desired, list) and isinstance(actual, list):
        yield from _in_lists(path, desired=desired, actual=actual)
    elif type(desired) is not type(actual) or desired != actual:  # True == 1 in Python
        yield Difference(path=path, desired=desired, actual=actual)


def _in_mappings(path: Path, *, desired: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    for key in [*desired, *(key for key in actual if key not in desired)]:
        before, after = desired.get(key, ABSENT), actual.get(key, ABSENT)
        if _empty(before) and _empty(after):
            continue
        yield from _between((*path, str(key)), desired=before, actual=after)


def _in_lists(path: Path, *, desired: list[Any], actual: list[Any]) -> Iterator[Difference]:
    before, after = _by_name(desired), _by_name(actual)
    if before is None or after is None:
        before, after = _by_index(desired), _by_index(actual)
    yield from _in_elements(path, desired=before, actual=after)
    common = [[name for name in names if name in before and name in after] for names in (before, after)]
    if common[0] != common[1]:
        yield Difference(path=(*path, "[order]"), desired=", ".join(common[0]), actual=", ".join(common[1]))


def _in_elements(path: Path, *, desired: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    for key in [*desired, *(key for key in actual if key not in desired)]:
        yield from _between((*path, f"[{key}]"), desired=desired.get(key, ABSENT), actual=actual.get(key, ABSENT))


def _by_name(elements: list[Any]) -> dict[str, Any] | None:
    """Return the elements by `name=...`; None where one has no name, or two have the same."""
    named = {f"name={element['name']}": element for element in elements if _has_name(element)}
    return named if len(named) == len(elements) else None


def _by_index(elements: list[Any]) -> dict[str, Any]:
    return {str(index): element for index, element in enumerate(elements)}


def _has_name(element: Any) -> bool:
    return isinstance(element, Mapping) and isinstance(element.get("name"), str)


def _empty(value: Any) -> bool:
    """Tell whether *value* is none: an absent list, mapping or null and an empty one are the same."""
    return value is ABSENT or value in (None, [], {})
