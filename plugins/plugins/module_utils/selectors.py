"""Label selectors, node selector terms, taints and tolerations, as the API defines them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Labels = Mapping[str, str]
Taint = Mapping[str, Any]
REPELLING = ("NoSchedule", "NoExecute")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def matches_labels(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether a label selector selects *labels*; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return exact and all(_requirement(item, labels) for item in selector.get("matchExpressions") or [])


def matches_node(selector: Mapping[str, Any], labels: Labels, *, name: str) -> bool:
    """Return whether one of a node selector's terms takes a node; a term without any requirement takes none.

    *name* is empty for a node that doesn't exist yet: no field names it.
    """
    return any(_term(term, labels, name=name) for term in selector.get("nodeSelectorTerms") or [])


def required_affinity(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the node selector of a pod's required node affinity, None where it has none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")


def missing_labels(spec: Mapping[str, Any], labels: Labels) -> Labels:
    """Return what of a pod's `nodeSelector` the node's labels don't have."""
    return {key: value for key, value in (spec.get("nodeSelector") or {}).items() if labels.get(key) != value}


def is_selected(spec: Mapping[str, Any], labels: Labels, *, name: str) -> bool:
    """Return whether a pod's node selector and required node affinity take a node."""
    required = required_affinity(spec)
    return not missing_labels(spec, labels) and (required is None or matches_node(required, labels, name=name))


def untolerated(
    taints: Iterable[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the first taint that keeps a pod with *tolerations* away."""
    for taint in taints:
        if taint.get("effect") in REPELLING and not any(_tolerates(item, taint) for item in tolerations):
            return taint
    return None


def shown_taint(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def shown_labels(labels: Labels) -> str:
    """Return equalities as kubectl writes them."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def shown_terms(selector: Mapping[str, Any]) -> str:
    """Return a node selector for a person."""
    return " or ".join(_shown_term(term) for term in selector.get("nodeSelectorTerms") or []) or "no term"


def _shown_term(term: Mapping[str, Any]) -> str:
    items = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
    return " and ".join(_shown_requirement(item) for item in items) or "an empty term"


def _shown_requirement(item: Mapping[str, Any]) -> str:
    values = item.get("values") or []
    tail = f" {values[0]}" if item.get("operator") in {"Gt", "Lt"} and values else f" [{','.join(values)}]"
    return f"{item.get('key', '')} {item.get('operator', '')}{tail if values else ''}"


def _term(term: Mapping[str, Any], labels: Labels, *, name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    named = {"metadata.name": name}
    return all(_requirement(item, labels) for item in expressions) and all(_requirement(item, named) for item in fields)


def _requirement(item: Mapping[str, Any], labels: Labels) -> bool:
    operator, value = item.get("operator"), labels.get(item.get("key") or "")
    values = [str(each) for each in item.get("values") or []]
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return _compared(operator, value, values=values)


def _compared(operator: object, value: str | None, *, values: Sequence[str]) -> bool:
    """Return the outcome of `Gt` and `Lt`; what is no whole number, or an unknown operator, never matches."""
    if len(values) != 1 or not _WHOLE.fullmatch(value or "") or not _WHOLE.fullmatch(values[0]):
        return False
    mine, bound = int(value or ""), int(values[0])
    return (operator == "Gt" and mine > bound) or (operator == "Lt" and mine < bound)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Return whether one toleration covers *taint*; no key means every key, no effect every effect."""
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    if toleration.get("key") not in {None, "", taint.get("key")}:
        return False
    if toleration.get("operator") == "Exists":
        return True
    equal = toleration.get("operator") in {None, "", "Equal"}
    return equal and bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
