"""What a status says at one moment, and how its conditions moved from one to the next. Pure; used by `world`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Conditions = Mapping[str, Mapping[str, Any]]

_RECENT = 2.5
"""Seconds: whole ones are written, and the news takes a moment."""


def conditions(obj: Mapping[str, Any]) -> Conditions:
    """Return the conditions of *obj* by type."""
    found = (obj.get("status") or {}).get("conditions") or []
    return {entry["type"]: entry for entry in found if isinstance(entry, Mapping) and "type" in entry}


def is_under_way(obj: Mapping[str, Any]) -> bool:
    """Tell whether the status says that a run is going on."""
    running = conditions(obj).get("Running", {})
    return running.get("status") == "True" and running.get("reason") == "Running"


def is_terminal(obj: Mapping[str, Any], *, want: str = "") -> bool:
    """Tell whether the status says that a run has ended, with the condition *want* true where it is given."""
    found = conditions(obj)
    outcomes = [want] if want else ["Successful", "Failure"]
    return not is_under_way(obj) and any(found.get(one, {}).get("status") == "True" for one in outcomes)


def summary(obj: Mapping[str, Any]) -> str:
    """Return the conditions in a line, sorted by type."""
    found = conditions(obj)
    parts = (f"{type_}={one.get('status')}({one.get('reason', '')})" for type_, one in sorted(found.items()))
    return ", ".join(parts) or "(no condition)"


def flips(versions: Sequence[tuple[Mapping[str, Any], float]]) -> dict[str, bool]:
    """Return per type whether `lastTransitionTime` moved exactly when `status` did, for types that had a chance to.

    Args:
        versions: the object and when (in seconds since 1970) that version of it was seen.
    """
    verdicts: dict[str, bool] = {}
    for (earlier, _), (later, at) in itertools.pairwise(versions):
        before, after = conditions(earlier), conditions(later)
        for type_ in before.keys() & after.keys():
            flipped = before[type_].get("status") != after[type_].get("status")
            old, new = before[type_].get("lastTransitionTime"), after[type_].get("lastTransitionTime")
            if flipped or old != new:
                right = flipped and _is_recent(new, at)
                verdicts[type_] = verdicts.get(type_, True) and right
    return dict(sorted(verdicts.items()))


def _is_recent(time: Any, at: float) -> bool:
    """Tell whether *time* is about *at*: a time that didn't move may still be right, as seconds are whole."""
    try:
        return abs(datetime.fromisoformat(str(time)).timestamp() - at) < _RECENT
    except ValueError:
        return False
