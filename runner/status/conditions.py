"""The conditions Running, Successful, Failure and Paused as pure functions: conditions found in, wanted out.

Shapes, reasons and messages are the peer's; better than the peer: `lastTransitionTime` moves exactly when `status`
flips, ours keep their place in the list, and whatever else is in the list or in our entries survives. An input that
nobody should have written (no list, entries that are no objects, odd times) is repaired or carried along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from runner.kube.objects import Object
from runner.kube.texts import cut_message

RUNNING = "Running"
SUCCESSFUL = "Successful"
FAILURE = "Failure"
OURS = (RUNNING, SUCCESSFUL, FAILURE)
PAUSED = "Paused"
"""Ours where it has our reason: roles may have one of that name for something else."""
_PAUSED_REASON = "AnnotationSet"

MESSAGE_LIMIT = 8192


class Counts(Protocol):
    """Numbers of a play's recap for localhost."""

    @property
    def ok(self) -> int:
        """Tasks that went well."""
        ...

    @property
    def changed(self) -> int:
        """Tasks that changed something."""
        ...

    @property
    def skipped(self) -> int:
        """Tasks that were skipped."""
        ...

    @property
    def failed(self) -> int:
        """Tasks that failed."""
        ...

    @property
    def completion(self) -> str:
        """When the recap was made."""
        ...


class Ended(Protocol):
    """How a run ended, as far as conditions show it."""

    @property
    def success(self) -> bool:
        """Whether it went well."""
        ...

    @property
    def failures(self) -> Sequence[str]:
        """Messages for a person."""
        ...

    @property
    def stats(self) -> Counts | None:
        """The recap, None where the play never reached it."""
        ...


def is_ours(entry: object) -> bool:
    """Tell whether *entry* of a list of conditions is one that the operator writes."""
    return isinstance(entry, dict) and (entry.get("type") in OURS or _is_our_pause(entry))


def conditions_found(obj: Mapping[str, Any]) -> list[Any]:
    """Return status.conditions of *obj* exactly as they are; empty where there is no list."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    return list(found) if isinstance(found, list) else []


def mark_running(found: object, now: datetime) -> list[Any]:
    """Return the conditions of an object whose run starts: a known failure stays, a success and a pause are over."""
    wanted = _Conditions(found, now)
    wanted.entries = [entry for entry in wanted.entries if not _is_our_pause(entry)]
    wanted.lower(SUCCESSFUL)
    wanted.set(RUNNING, status=True, reason="Running", message="Running reconciliation")
    return wanted.entries


def mark_done(
    found: object, outcome: Ended, *, generation: int, now: datetime, message_limit: int = MESSAGE_LIMIT
) -> list[Any]:
    """Return the conditions after a run.

    Args:
        found: the conditions on the object.
        outcome: how the run ended.
        generation: the generation that the run was for; 0 for kinds that have none.
        now: the end of the run.
        message_limit: bytes of the Failure message.
    """
    wanted = _Conditions(found, now)
    result = _ansible_result(outcome.stats)
    if outcome.success:
        wanted.set(RUNNING, status=True, reason="Successful", message="Awaiting next reconciliation", extra=result)
        wanted.set(
            SUCCESSFUL,
            status=True,
            reason="Successful",
            message="Last reconciliation succeeded",
            extra=_observed(generation),
        )
        wanted.set(FAILURE, status=False)
    else:
        message = cut_message("\n".join(outcome.failures), limit=message_limit)
        wanted.lower(RUNNING)
        wanted.set(FAILURE, status=True, reason="Failed", message=message, extra=result)
        wanted.set(SUCCESSFUL, status=False, extra=_observed(generation))
    return wanted.entries


def mark_error(found: object, message: str, *, now: datetime, message_limit: int = MESSAGE_LIMIT) -> list[Any]:
    """Return the conditions of an object that cannot be run: a bad annotation, a run that could not start."""
    wanted = _Conditions(found, now)
    wanted.lower(RUNNING)
    wanted.lower(SUCCESSFUL)
    wanted.set(FAILURE, status=True, reason="Failed", message=cut_message(message, limit=message_limit))
    return wanted.entries


def mark_paused(found: object, message: str, *, now: datetime) -> list[Any]:
    """Return the conditions of an object whose runs a person stopped; what the last run left stays."""
    wanted = _Conditions(found, now)
    wanted.set(PAUSED, status=True, reason=_PAUSED_REASON, message=message)
    return wanted.entries


def _is_our_pause(entry: object) -> bool:
    return isinstance(entry, dict) and (entry.get("type"), entry.get("reason")) == (PAUSED, _PAUSED_REASON)


class _Conditions:
    """A copy of the conditions found, under change."""

    def __init__(self, found: object, now: datetime) -> None:
        self.entries: list[Any] = _without_duplicates(found if isinstance(found, list) else [])
        self._now = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def set(
        self, type_: str, *, status: bool, reason: str = "", message: str = "", extra: Mapping[str, Any] | None = None
    ) -> None:
        """Set what is ours in the condition *type_*, in its place or at the end; fields that we don't know stay."""
        at = self._index(type_)
        old: Object = {} if at is None else self.entries[at]
        kept = {key: value for key, value in old.items() if key != "ansibleResult"}
        new = {
            **kept,
            "type": type_,
            "status": str(status),
            "lastTransitionTime": self._transition_time(old, status=str(status)),
            "reason": reason,
            "message": message,
            **(extra or {}),
        }
        if at is None:
            self.entries.append(new)
        else:
            self.entries[at] = new

    def lower(self, type_: str) -> None:
        """Set the condition *type_* to False if it is there, and leave its reason and message as they are."""
        at = self._index(type_)
        if at is None:
            return
        old = self.entries[at]
        self.entries[at] = {
            **old,
            "status": "False",
            "lastTransitionTime": self._transition_time(old, status="False"),
            "reason": _text(old.get("reason")),
            "message": _text(old.get("message")),
        }

    def _index(self, type_: str) -> int | None:
        matches = (i for i, entry in enumerate(self.entries) if isinstance(entry, dict) and entry.get("type") == type_)
        return next(matches, None)

    def _transition_time(self, old: Mapping[str, Any], *, status: str) -> str:
        time = old.get("lastTransitionTime")
        return time if old.get("status") == status and isinstance(time, str) and _is_time(time) else self._now


def _without_duplicates(found: Sequence[Any]) -> list[Any]:
    """Return *found* with the first entry only of each type of ours."""
    seen: set[str] = set()
    kept: list[Any] = []
    for entry in found:
        type_ = entry.get("type") if isinstance(entry, dict) else None
        if type_ in OURS and type_ in seen:
            continue
        if type_ in OURS:
            seen.add(str(type_))
        kept.append(entry)
    return kept


def _ansible_result(stats: Counts | None) -> Object:
    if stats is None:
        return {}
    return {
        "ansibleResult": {
            "ok": stats.ok,
            "changed": stats.changed,
            "skipped": stats.skipped,
            "failures": stats.failed,
            "completion": stats.completion,
        }
    }


def _observed(generation: int) -> Object:
    return {"observedGeneration": generation} if generation else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
