"""The smallest patch that brings a status and its `Ready` where they have to be. Pure; for kinds that are one AWS thing

`lastUpdatedAt` moves only with something else than `lastCheckedAt`, so `changed` here is also what a role reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.conditions import Condition, dated
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import render


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The `Ready` condition without its time."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Update:
    """What to write."""

    status: Mapping[str, Any]
    conditions: Sequence[Mapping[str, Any]]
    changed: bool
    """Whether anything but `lastCheckedAt` moves."""
    settled: bool
    """Whether the next look can wait for `checkInterval`."""


def not_ready(reason: str, message: str) -> Ready:
    """Return what keeps an object from being as its spec says."""
    return Ready(status="False", reason=reason, message=message)


def update(
    obj: Mapping[str, Any],
    *,
    now: datetime,
    fields: Mapping[str, Any],
    ready: Ready,
    settled: bool,
    checked: bool = True,
) -> Update:
    """Return what to write so that the status of *obj* has *fields* and *ready*; None or empty takes a field away."""
    old = obj.get("status") or {}
    wanted = {**fields, "observedGeneration": obj["metadata"].get("generation")}
    # An empty text and an absent field are the same; only what differs is sent, so that nothing else is overwritten.
    patch = {key: value or None for key, value in wanted.items() if (value or None) != (old.get(key) or None)}
    wanted_ready = Condition(type="Ready", **asdict(ready))
    (condition,) = dated([wanted_ready], before=old.get("conditions") or [], now=now)
    changed = bool(patch) or condition not in (old.get("conditions") or [])
    if checked:
        patch["lastCheckedAt"] = render(now)
    if changed:
        patch["lastUpdatedAt"] = render(now)
    return Update(status=patch, conditions=[condition], changed=changed, settled=settled)
