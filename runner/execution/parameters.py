"""Spec to variables: what a run of Ansible is told about its object, between `inputs` and the API's view of it.

Everything in an object was written by whoever may write such objects, the variables of a watch by the operator's
author: only the latter may be templates where the watch says `markUnsafe`. Ansible reads
`{"__ansible_unsafe": text}` as text that is never a template, but only as long as it can read the whole file as
JSON: a key such as `__ansible_type`, or very deep nesting, makes it fall back to YAML, in which the marks mean
nothing. So reserved keys are dropped and depth is limited here, and `inputs` writes JSON that isn't YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.errors import ExecutionError
from runner.execution.connection_variables import is_connection_variable
from runner.execution.executor import RunRequest
from runner.execution.snake_case import to_snake
from runner.kube.objects import GVK, name_of, namespace_of

_UNSAFE = "__ansible_unsafe"
_RESERVED_PREFIX = "__ansible_"
MAX_DEPTH = 100
"""Ansible's own reader gives up somewhere above 200."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The extra variables of one run, and what a person should know about how they came about."""

    variables: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """Sentences to log; they name keys, never values."""


def parameters_for(request: RunRequest) -> Parameters:
    """Return the variables for *request*, later ones winning: spec, meta, whole object, watch vars, finalizer vars.

    Raises:
        ExecutionError: the object is nested too deeply for Ansible.
    """
    watch, obj = request.watch, request.obj
    _refuse_too_deep(obj)
    notes: list[str] = []
    whole = _without_reserved({**obj, "spec": _spec_of(obj)}, notes=notes)
    spec = whole["spec"]
    own = _convert(spec, where="spec", notes=notes) if watch.snake_case_parameters else dict(spec)
    own = _without_connection(own, notes=notes)
    key = object_variable(watch.gvk)
    variables = {
        **(_unsafe(own) if watch.mark_unsafe else own),
        "ansible_operator_meta": {"name": name_of(obj), "namespace": namespace_of(obj)},
        key: _unsafe(whole) if watch.mark_unsafe else _unsafe_parts(whole),
        f"{key}_spec": _unsafe(spec) if watch.mark_unsafe else spec,
        **watch.vars,
    }
    if request.finalizing and watch.finalizer is not None:
        variables.update(watch.finalizer.vars)
    return Parameters(variables=variables, notes=tuple(notes))


def object_variable(gvk: GVK) -> str:
    """Return the name of the variable that holds the whole object: `_group_kind`, `__kind` for the core group."""
    return f"_{gvk.group}_{gvk.kind.lower()}".replace(".", "_").replace("-", "_")


def _spec_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _refuse_too_deep(obj: Mapping[str, Any]) -> None:
    level: list[Any] = [obj]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise ExecutionError(
        f"{obj.get('kind')} {name_of(obj)} is nested more than {MAX_DEPTH} levels deep, which Ansible cannot read as "
        "variables; flatten the object"
    )


def _children(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return [child for child in value.values() if isinstance(child, Mapping | list)]
    return [child for child in value if isinstance(child, Mapping | list)] if isinstance(value, list) else []


def _without_reserved(value: Any, *, notes: list[str], where: str = "") -> Any:
    """Return a copy of *value* without the keys that Ansible's reader of variables takes for its own marks."""
    if isinstance(value, list):
        return [_without_reserved(item, notes=notes, where=f"{where}[]") for item in value]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        path = f"{where}.{key}".lstrip(".")
        if key.startswith(_RESERVED_PREFIX):
            notes.append(f"{path} is left out: names starting with {_RESERVED_PREFIX} are Ansible's own")
        else:
            kept[key] = _without_reserved(item, notes=notes, where=path)
    return kept


def _convert(value: Any, *, where: str, notes: list[str]) -> Any:
    """Return *value* with every key in snake case, at every depth."""
    if isinstance(value, list):
        return [_convert(item, where=f"{where}[]", notes=notes) for item in value]
    if not isinstance(value, Mapping):
        return value
    winners = _winners(value, where=where, notes=notes)
    return {name: _convert(value[key], where=f"{where}.{key}", notes=notes) for name, key in winners.items()}


def _winners(mapping: Mapping[str, Any], *, where: str, notes: list[str]) -> dict[str, str]:
    """Return for each converted name the key that gives its value: the equal one, else the first in sorted order."""
    candidates: dict[str, list[str]] = {}
    for key in mapping:
        candidates.setdefault(to_snake(key), []).append(key)
    winners: dict[str, str] = {}
    for name, keys in candidates.items():
        winners[name] = name if name in keys else min(keys)
        if len(keys) > 1:
            listed = ", ".join(sorted(keys))
            notes.append(f"{where}: {listed} are all called {name} in snake case; {winners[name]} is used")
    return winners


def _without_connection(variables: Mapping[str, Any], *, notes: list[str]) -> dict[str, Any]:
    """Drop what would change where and as whom Ansible runs: extra variables beat the inventory."""
    kept = {name: value for name, value in variables.items() if not is_connection_variable(name)}
    notes.extend(
        f"spec: {name} is left out: a spec may not set Ansible's connection variables"
        for name in sorted(variables.keys() - kept.keys())
    )
    return kept


def _unsafe_parts(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Mark status and metadata even where the spec stays a template.

    A failed task's message may hold braces; it comes back in status.conditions, and would fail each later run.
    """
    marked = {part: _unsafe(whole[part]) for part in ("metadata", "status") if part in whole}
    return {**whole, **marked}


def _unsafe(value: Any) -> Any:
    """Return *value* with every string marked as no template; keys, numbers, booleans and null stay."""
    if isinstance(value, str):
        return {_UNSAFE: value}
    if isinstance(value, Mapping):
        return {key: _unsafe(item) for key, item in value.items()}
    return [_unsafe(item) for item in value] if isinstance(value, list) else value
