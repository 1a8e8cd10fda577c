"""Conditions of a status: written so that their times move only with their status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render

_LONGEST_REASON = 400


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition without its time."""

    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    reason: str
    """One word for a program."""
    message: str
    """A sentence for a person."""


def condition(name: str, *, holds: bool, reason: str, message: str) -> Condition:
    """Return a condition that is true or false."""
    return Condition(type=name, status="True" if holds else "False", reason=reason, message=message)


def cut(text: str) -> str:
    """Return a reason as short as a list of a status can hold many of."""
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}… (cut)"


def dated(
    conditions: Iterable[Condition], *, before: Iterable[Mapping[str, Any]], now: datetime
) -> list[dict[str, str]]:
    """Return conditions to write: one whose status is that of *before* keeps its time."""
    old = {item.get("type"): item for item in before}
    return [_dated(item, old.get(item.type) or {}, now=now) for item in conditions]


def _dated(item: Condition, before: Mapping[str, Any], *, now: datetime) -> dict[str, str]:
    same = before.get("status") == item.status and before.get("lastTransitionTime")
    return {**asdict(item), "lastTransitionTime": before["lastTransitionTime"] if same else render(now)}
