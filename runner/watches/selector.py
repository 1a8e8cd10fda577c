"""Reads an entry's `selector`: a Kubernetes label selector, checked as the API server would check it."""

from __future__ import annotations

import re

from runner.kube.names import is_subdomain
from runner.watches.model import LabelRequirement
from runner.watches.section import Section

_KNOWN = ("matchLabels", "matchExpressions")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")


def is_qualified_name(text: str) -> bool:
    """Tell whether *text* may name a label or a finalizer: `name` or `dns.prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    return bool(_NAME.match(name)) and (not slash or is_subdomain(prefix))


def read_selector(entry: Section) -> tuple[LabelRequirement, ...]:
    """Return the requirements of an entry's selector, none where it has no selector.

    Raises:
        WatchesError: an operator, key or value that Kubernetes would refuse.
    """
    selector = entry.section("selector", known=_KNOWN)
    if selector is None:
        return ()
    requirements = []
    for key, value in selector.string_map("matchLabels").items():
        _check_key(key, section=selector, field="matchLabels")
        _check_value(value, section=selector, field="matchLabels")
        requirements.append(LabelRequirement(key=key, operator="In", values=(value,)))
    expressions = selector.sections("matchExpressions", known=("key", "operator", "values"))
    return (*requirements, *(_expression(expression) for expression in expressions))


def _expression(section: Section) -> LabelRequirement:
    key, operator, values = section.text("key"), section.text("operator"), section.texts("values")
    _check_key(key, section=section, field="key")
    if operator not in _OPERATORS:
        wrong = f'"{operator}" is not a valid label selector operator'
        raise section.error("operator", wrong, remedy=f"write one of {', '.join(_OPERATORS)}")
    if operator in {"In", "NotIn"} and not values:
        raise section.error("values", f"must not be empty for {operator}", remedy="list at least one value")
    if operator in {"Exists", "DoesNotExist"} and values:
        raise section.error("values", f"must be empty for {operator}", remedy="delete the values, or use In or NotIn")
    for value in values:
        _check_value(value, section=section, field="values")
    return LabelRequirement(key=key, operator=operator, values=values)


def _check_key(key: str, *, section: Section, field: str) -> None:
    if not is_qualified_name(key):
        raise section.error(field, f'"{key}" is not a label key', remedy="write name or dns.prefix/name")


def _check_value(value: str, *, section: Section, field: str) -> None:
    if value and not _NAME.match(value):
        remedy = "use at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
        raise section.error(field, f'"{value}" is not a label value', remedy=remedy)
