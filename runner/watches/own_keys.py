"""Reads the keys of an entry that are ours and unknown to the peer: checked at the start like all the others.

Called by the loader.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from runner.watches.fields import parse_field
from runner.watches.model import DependentStatus
from runner.watches.section import Section

_EXECUTORS = ("cold", "warm")
STATUS_KEYS = ("group", "version", "kind", "fields")
_FIELD_REMEDY = (
    "it must begin with `status.` and have single dots between names; a list item is `[0]` or `[type=Ready]`, "
    "a key with dots `[example.com/gpu]`"
)


def read_executor(entry: Section) -> str:
    """Return how the runs of an entry start: `cold` or `warm`; empty where the flag decides."""
    name = entry.text("executor")
    if name and name not in _EXECUTORS:
        raise entry.error("executor", f'"{name}" is no executor', remedy=f"write {' or '.join(_EXECUTORS)}")
    return name


def read_run_timeout(entry: Section) -> timedelta:
    """Return the longest that a run of an entry may take; zero for no limit."""
    limit = entry.duration("runTimeout") or timedelta()
    if limit < timedelta():
        raise entry.error("runTimeout", "must not be negative", remedy='write a limit such as "15m", or 0s for none')
    return limit


def read_dependent_status(entry: Section) -> tuple[DependentStatus, ...]:
    """Return the status fields of dependents whose change matters."""
    return tuple(_dependent(item) for item in entry.sections("watchDependentStatus", known=STATUS_KEYS))


def _dependent(section: Section) -> DependentStatus:
    gvk = section.gvk()
    for name, value in (("version", gvk.version), ("kind", gvk.kind)):
        if not value:
            raise section.error(name, "must not be empty", remedy=f"add the {name} of the dependents")
    fields = section.texts("fields")
    if not fields:
        raise section.error("fields", "must not be empty", remedy="list fields such as status.readyReplicas")
    for path in fields:
        if not _is_of_status(path):
            raise section.error("fields", f'"{path}" is no field of a status', remedy=_FIELD_REMEDY)
    return DependentStatus(gvk=gvk, fields=fields)


def _is_of_status(path: str) -> bool:
    try:
        return parse_field(path)[0] == "status"
    except ValueError:
        return False


def read_handlers(entry: Section, *, folders: Sequence[Path]) -> Path | None:
    """Return the file of Python handlers that an entry names; a relative path starts from one of *folders*."""
    name = entry.text("handlers")
    if not name:
        return None
    candidates = list(dict.fromkeys((folder / name).resolve() for folder in folders))
    if candidates[0].suffix != ".py":
        raise entry.error("handlers", f'"{name}" is no Python file', remedy="name one, as in handlers/thing.py")
    for path in candidates:
        if path.is_file():
            return path
    looked = " or ".join(map(str, candidates))
    raise entry.error("handlers", f"{looked} was not found", remedy="create it or correct the path")
