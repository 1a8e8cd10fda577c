"""Events of a run: what `outcome` needs of the stream, one event at a time, so that no run is held in memory.

Events are ansible-runner's: `event` names the kind, `event_data` says the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from runner.execution.executor import PlayStats
from runner.watches.durations import parse_duration

_REQUEUE_ACTIONS = frozenset({"operator_sdk.util.requeue_after", "requeue_after"})
_ITEMS_FAILED = "One or more items failed"

Event = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TaskFailure:
    """One task that failed on one host, and was not ignored; a block may still have rescued it."""

    host: str
    task: str
    message: str


@dataclass(kw_only=True)
class EventSummary:
    """Grows by `add`; read it once the run has ended."""

    failures: list[TaskFailure] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    stats: PlayStats | None = None
    requeue_after: timedelta | None = None
    requeue_problem: str = ""
    """Why the last requested period cannot be used."""
    ended_with: TaskFailure | None = None
    """The failure after which no task ran on any host."""
    last_task: str = ""
    """The name of the task that began last; several hosts may be at it."""
    _items: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take the next event of the stream."""
        kind = str(event.get("event", ""))
        data = event.get("event_data") or {}
        if kind.startswith("runner_") or kind in {"playbook_on_task_start", "playbook_on_include"}:
            self.ended_with = None
        if kind == "playbook_on_task_start":
            self.last_task = str(data.get("task") or "")
        if kind == "playbook_on_stats":
            self.stats = stats_of(event)
        elif kind == "runner_item_on_failed":
            self._items.setdefault(_task_key(data), []).append(_item_message(data))
        elif kind == "runner_on_failed":
            self._add_failure(data)
        elif kind == "runner_on_unreachable":
            self.unreachable.append(f"host {data.get('host')} is unreachable: {_message(data)}")
        elif kind in {"runner_on_ok", "runner_item_on_ok"} and _asks_for_requeue(data):
            self._add_requeue(data)

    def _add_failure(self, data: Mapping[str, Any]) -> None:
        items = self._items.pop(_task_key(data), [])
        if data.get("ignore_errors"):
            return
        message = _message(data)
        if items and message == _ITEMS_FAILED:
            message = f"{message}: {'; '.join(items)}"
        failure = TaskFailure(host=str(data.get("host")), task=str(data.get("task")), message=message)
        self.failures.append(failure)
        self.ended_with = failure

    def _add_requeue(self, data: Mapping[str, Any]) -> None:
        result = data.get("res")
        if not isinstance(result, Mapping) or "results" in result:
            return  # skipped, or a loop: its items were read one by one
        try:
            self.requeue_after, self.requeue_problem = _requested_period(result), ""
        except ValueError as error:
            self.requeue_after, self.requeue_problem = None, f'task "{data.get("task")}": {error}'


def _asks_for_requeue(data: Mapping[str, Any]) -> bool:
    return not _REQUEUE_ACTIONS.isdisjoint({data.get("task_action"), data.get("resolved_action")})


def _requested_period(result: Mapping[str, Any]) -> timedelta:
    if "period" not in result:
        raise ValueError("requeue_after gave no period; take no_log away from it")
    return parse_period(str(result["period"]))


def parse_period(text: str) -> timedelta:
    """Return the duration that *text* says in Go's grammar, such as `1h30m` or `5s`.

    Raises:
        ValueError: it is no such duration; the text is a sentence for the condition.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        sentence = f'requeue_after cannot use the period "{text}"; write it as in 1h30m or 5s'
        raise ValueError(sentence) from error


def stats_of(event: Event) -> PlayStats:
    """Read a `playbook_on_stats` event."""
    data = event.get("event_data") or {}

    def count(name: str) -> int:
        return int((data.get(name) or {}).get("localhost", 0))

    return PlayStats(
        failures=dict(data.get("failures") or {}),
        unreachable=dict(data.get("dark") or {}),
        ok=count("ok"),
        changed=count("changed"),
        skipped=count("skipped"),
        failed=count("failures"),
        completion=_as_the_peer_prints(str(event.get("created", ""))),
    )


def _as_the_peer_prints(created: str) -> str:
    """Trim the fraction's trailing zeros, and end with `+00:00`."""
    moment = created.removesuffix("+00:00").removesuffix("Z")
    whole, dot, fraction = moment.partition(".")
    fraction = fraction[:8].rstrip("0")
    return f"{whole}{dot if fraction else ''}{fraction}+00:00" if whole else ""


def _task_key(data: Mapping[str, Any]) -> tuple[str, str]:
    return str(data.get("task_uuid")), str(data.get("host"))


def _item_message(data: Mapping[str, Any]) -> str:
    """Return the message of one failed loop item, with the label that Ansible itself prints."""
    result = data.get("res")
    message = _message(data)
    if not isinstance(result, Mapping) or "censored" in result:
        return message
    label = result.get("_ansible_item_label", result.get("item"))
    return f"(item={_text(label)}) {message}"


def _message(data: Mapping[str, Any]) -> str:
    """Return what a task said about its failure; Ansible's own sentence where `no_log` hides that."""
    result = data.get("res")
    if not isinstance(result, Mapping):
        return _without_message(data)
    if "censored" in result:
        return str(result["censored"])
    message = _text(result.get("msg", "")) or _text(result.get("reason", "")) or _without_message(data)
    crash = str(result.get("module_stderr") or "").strip()
    return f"{message}\n{crash.splitlines()[-1]}" if crash else message


def _without_message(data: Mapping[str, Any]) -> str:
    return f'task "{data.get("task")}" failed without a message'


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return "" if value is None else json.dumps(value)
