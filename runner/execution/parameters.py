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
from runner.execution.connection_variables import dropped_keys
from runner.execution.executor import RunRequest
from runner.execution.snake_case import to_snake
from runner.kube.objects import GVK, name_of, namespace_of

_UNSAFE = "__ansible_unsafe"
_RESERVED_PREFIX = "__ansible_"
MAX_DEPTH = 100
"""Ansible's own reader gives up somewhere above 200."""
HANDLERS = "ansible_operator_handlers"
"""The variable with what the Python handlers of a watch publish."""
_NAMES_TOLD = 10
_NAME_LENGTH = 64


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The extra variables of one run, and what a person should know about how they came about."""

    variables: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """Sentences to log; they name keys, never values."""


def parameters_for(request: RunRequest, *, cluster_id: str = "") -> Parameters:
    """Return the variables for *request*, later ones winning: spec, meta, whole object, watch vars, finalizer vars.

    A *cluster_id* stands beside meta, and so does what handlers publish: a spec cannot set them, a watch may.

    Raises:
        ExecutionError: the object is nested too deeply for Ansible.
    """
    watch, obj = request.watch, request.obj
    _refuse_too_deep(obj)
    reserved, connection, colliding = _Names(), _Names(), _Names()
    whole = _without_reserved({**obj, "spec": _spec_of(obj)}, found=reserved)
    spec = whole["spec"]
    dropped = dict.fromkeys(dropped_keys(spec, snake_case=watch.snake_case_parameters))
    own = {name: value for name, value in spec.items() if name not in dropped}
    for name in dropped:
        connection.add(_below("spec", name))
    if watch.snake_case_parameters:
        own = _convert(own, where="spec", reserved=reserved, colliding=colliding)
    key = object_variable(watch.gvk)
    variables = {
        **(_unsafe(own) if watch.mark_unsafe else own),
        "ansible_operator_meta": {"name": name_of(obj), "namespace": namespace_of(obj)},
        **({"ansible_operator_cluster_id": cluster_id} if cluster_id else {}),
        **_of_handlers(request, reserved=reserved),
        key: _unsafe(whole) if watch.mark_unsafe else _unsafe_parts(whole),
        f"{key}_spec": _unsafe(spec) if watch.mark_unsafe else spec,
        **watch.vars,
    }
    if request.finalizing and watch.finalizer is not None:
        variables.update(watch.finalizer.vars)
    rules = {
        f"names starting with {_RESERVED_PREFIX}, in snake case too, are Ansible's own": reserved,
        "a spec may not set Ansible's connection variables": connection,
        "another key has the same name in snake case": colliding,
    }
    notes = (f"{', '.join(names.told())}: left out, as {rule}" for rule, names in rules.items() if names.told())
    return Parameters(variables=variables, notes=tuple(notes))


def _of_handlers(request: RunRequest, *, reserved: _Names) -> dict[str, Any]:
    """Return the variable with what handlers publish: made from objects of the cluster, so none of it is a template."""
    if request.watch.handlers is None:
        return {}
    if _is_too_deep(request.handlers):
        raise ExecutionError(
            f"what {request.watch.handlers} publishes is nested more than {MAX_DEPTH} levels deep, which Ansible "
            "cannot read as variables; flatten it"
        )
    return {HANDLERS: _unsafe(_without_reserved(request.handlers, found=reserved, where=HANDLERS))}


def left_out(spec: object, *, snake_case: bool) -> tuple[str, ...]:
    """Return what of *spec* reaches no run, for people: some keys by their path, as the author wrote them, sorted.

    The last item tells how many more there are. Of a spec that is nested too deeply nothing is told: nothing runs.
    """
    names = _Names()
    if not _is_too_deep(spec):
        for key in dropped_keys(spec, snake_case=snake_case):
            names.add(_below("", key))
        kept = _without_reserved(spec, found=names)
        if snake_case:
            _convert(kept, where="", reserved=names, colliding=_Names())
    return names.told()


def object_variable(gvk: GVK) -> str:
    """Return the name of the variable that holds the whole object: `_group_kind`, `__kind` for the core group."""
    return f"_{gvk.group}_{gvk.kind.lower()}".replace(".", "_").replace("-", "_")


def _spec_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


class _Names:
    """Names for people: some of them, each short, and how many more there are, however many an object holds."""

    def __init__(self) -> None:
        """Start with none."""
        self._shown: list[str] = []
        self._count = 0

    def add(self, name: str) -> None:
        """Show *name* if there is room for it."""
        self._count += 1
        if len(self._shown) < _NAMES_TOLD:
            self._shown.append(name)

    def told(self) -> tuple[str, ...]:
        """Return the names to show, sorted, and a last item about the others."""
        others = self._count - len(self._shown)
        return (*sorted(self._shown), *([f"and {others} more"] if others else []))


def _below(where: str, key: str) -> str:
    """Return the path of *key* at *where*, its middle left out where it is long: each is kept for a whole subtree."""
    path = f"{where}.{_cut(key)}" if where else _cut(key)
    return _cut(path)


def _cut(text: str) -> str:
    half = (_NAME_LENGTH - 3) // 2
    return text if len(text) <= _NAME_LENGTH else f"{text[:half]}...{text[-half:]}"


def _refuse_too_deep(obj: Mapping[str, Any]) -> None:
    if _is_too_deep(obj):
        raise ExecutionError(
            f"{obj.get('kind')} {name_of(obj)} is nested more than {MAX_DEPTH} levels deep, which Ansible cannot read "
            "as variables; flatten the object"
        )


def _is_too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return [child for child in value.values() if isinstance(child, Mapping | list)]
    return [child for child in value if isinstance(child, Mapping | list)] if isinstance(value, list) else []


def _without_reserved(value: Any, *, found: _Names, where: str = "") -> Any:
    """Return a copy of *value* without the keys that Ansible's reader of variables takes for its own marks.

    Their paths go into *found*.
    """
    if isinstance(value, list):
        return [_without_reserved(item, found=found, where=_cut(f"{where}[]")) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        path = _below(where, key)
        if key.startswith(_RESERVED_PREFIX):
            found.add(path)
        else:
            kept[key] = _without_reserved(item, found=found, where=path)
    return kept


def _convert(value: Any, *, where: str, reserved: _Names, colliding: _Names) -> Any:
    """Return *value* with every key in snake case, at every depth, and without those that become reserved by that."""
    if isinstance(value, list):
        below = _cut(f"{where}[]")
        return [_convert(item, where=below, reserved=reserved, colliding=colliding) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _convert(value[key], where=_below(where, key), reserved=reserved, colliding=colliding)
        for name, key in _winners(value, where=where, reserved=reserved, colliding=colliding).items()
    }


def _winners(mapping: Mapping[str, Any], *, where: str, reserved: _Names, colliding: _Names) -> dict[str, str]:
    """Return for each converted name the key that gives its value: the equal one, else the first in sorted order."""
    candidates: dict[str, list[str]] = {}
    for key in mapping:
        candidates.setdefault(to_snake(key), []).append(key)
    winners: dict[str, str] = {}
    for name, keys in candidates.items():
        if name.startswith(_RESERVED_PREFIX):
            for key in keys:
                reserved.add(_below(where, key))
            continue
        winners[name] = name if name in keys else min(keys)
        for key in keys:
            if key != winners[name]:
                colliding.add(f"{_below(where, key)} ({_cut(winners[name])} is used)")
    return winners


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
