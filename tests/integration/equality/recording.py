"""What one run left, as texts that can be compared: `record(...)` takes it down, `differences(...)` compares two.

A recording holds everything that a reader could look at: the outcome, each event in its order, the listing of the
whole root with kinds and modes, the content of each file, what still runs. Only what `masks` names is made equal.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from runner.execution.executor import Outcome
from runner.execution.processes import processes_of
from tests.integration.equality.masks import Masks
from tests.integration.execution.runner_output import whole

_MOST_LINES = 80
_WITNESS = "witness"
_NOT_COMPARED = ("content", _WITNESS)
"""The folders of a root that are no results: what runs are given, and how the probe module's process was started."""
_BYTECODE = "__pycache__"


_PLACES = frozenset({"counter", "start_line", "end_line"})
_ASKING = frozenset({"runner_on_async_poll", "runner_retry"})
_ATTEMPTS = re.compile(r'"attempts": \d+, ')
_SAID_WHEN_ASKING = ("ASYNC POLL on ", "FAILED - RETRYING: ")


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One run, as named texts."""

    name: str
    texts: Mapping[str, str] = field(repr=False)
    drawn: Sequence[Any] = ()
    """The random values that the credentials module drew."""
    keys: Sequence[str] = ()
    """The access keys that it found."""
    witnessed: frozenset[str] = frozenset()
    """The command lines of the processes that the probe module ran in: a forked one has its server's."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that is over, and where its traces are."""

    name: str
    ident: str
    root: Path
    """Everything that the run wrote is below it: home, output, run directory."""
    scratch: Path | None
    """The run's scratch folder, which should be gone."""
    outcome: Outcome | str
    """How it ended; a text where it could not be run."""
    seen: Sequence[Mapping[str, Any]]
    """The events that the observers got."""
    names: Mapping[str, str] = field(default_factory=dict)
    """See `Masks.names`."""
    unordered: bool = False
    """Several hosts at once: the order of their events among each other is nobody's promise."""
    asking: bool = False
    """It asks for something until it is there: how often depends on how busy the machine is."""


def record(ran: Ran) -> Recording:
    """Take down *ran*; nothing of it is changed."""
    masks = Masks(root=ran.root, ident=ran.ident, scratch=ran.scratch, names=ran.names)
    told = sorted(_events(ran), key=lambda event: int(event.get("counter", 0)))
    events = _comparable(told, ran=ran)
    written = [_text(masks.event(event), ordered=not ran.unordered) for event in events]
    texts = {"outcome": _text(masks.value(_outcome(ran.outcome)))}
    texts |= {f"event {number:04}": text for number, text in enumerate(written)}
    seen = [_text(masks.event(event), ordered=not ran.unordered) for event in _comparable(ran.seen, ran=ran)]
    if seen != written:
        texts["observers"] = "\n".join(seen)
    listing = []
    for path, kind in sorted(_tree(ran.root), key=lambda entry: masks.path(entry[0].relative_to(ran.root))):
        name = masks.path(path.relative_to(ran.root))
        of_event = "/job_events/" in name
        if not (of_event and (ran.asking or ran.unordered)):
            listing.append(f"{kind} {name}{_target(path, masks)}")
        if kind.startswith("-") and not of_event:
            texts[f"file {name}"] = _file(path, masks=masks, ran=ran, events=told)
    texts["listing"] = "\n".join(listing)
    left = ran.scratch is not None and ran.scratch.exists()
    names = _tree(ran.scratch) if ran.scratch is not None and left else iter(())
    found = [masks.text(str(path)) for path, _ in names]
    texts["scratch"] = "\n".join(sorted(set(found) if ran.asking else found))  # a job that is too late may leave one
    texts["processes"] = "\n".join(sorted(masks.text(_command(pid)) for pid in processes_of(ran.ident)))
    witnessed = frozenset(path.read_text() for path in (ran.root / _WITNESS).iterdir())
    results = [event.get("event_data", {}).get("res") or {} for event in events]
    return Recording(
        name=ran.name,
        texts=texts,
        witnessed=witnessed,
        drawn=[value for result in results for value in result.get("random", [])],
        keys=[result["key"] for result in results if "random" in result],
    )


def differences(cold: Recording, warm: Recording) -> list[str]:
    """Return lines that show where *warm* is not what *cold* is; none where they are the same."""
    lines: list[str] = []
    for name in dict.fromkeys(chain(cold.texts, warm.texts)):
        one, other = cold.texts.get(name), warm.texts.get(name)
        if one != other:
            lines += [f"== {cold.name}: {name}", *_lines(one, other)]
    return lines[:_MOST_LINES]


def _lines(one: str | None, other: str | None) -> Iterator[str]:
    """Yield the lines of a small diff; a text that is missing has none."""
    found = difflib.unified_diff((one or "").splitlines(), (other or "").splitlines(), "cold", "warm", n=1, lineterm="")
    yield from (_cut(line) for line in found)
    if one is None or other is None:
        yield f"(only {'warm' if one is None else 'cold'} has it)"


def _cut(line: str) -> str:
    return line if len(line) < 2000 else f"{line[:900]} [...] {line[-900:]}"


def _events(ran: Ran) -> Iterator[Mapping[str, Any]]:
    for path in ran.root.glob("runner/**/job_events/*.json"):
        if path.parent.parent.name == ran.ident:
            yield json.loads(path.read_text())


def _comparable(events: Sequence[Mapping[str, Any]], *, ran: Ran) -> Sequence[Mapping[str, Any]]:
    """Return what can be compared of *events*."""
    if ran.asking:
        return [_asked(_anywhere(event)) for event in events if event.get("event") not in _ASKING]
    return _by_host(events) if ran.unordered else events


def _anywhere(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *event* without its number and its lines."""
    return {key: value for key, value in event.items() if key not in _PLACES}


def _asked(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *event* without how often it was asked for."""
    result = event.get("event_data", {}).get("res")
    if not isinstance(result, dict):
        return event
    data = {**event["event_data"], "res": {name: value for name, value in result.items() if name != "attempts"}}
    return {**event, "stdout": _ATTEMPTS.sub("", event["stdout"]), "event_data": data}


def _by_host(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return *events* in an order that doesn't depend on which of several hosts was quicker, without line numbers."""
    groups: list[list[Mapping[str, Any]]] = [[]]
    for event in events:
        if not event.get("event_data", {}).get("host"):
            groups.append([])
        groups[-1].append(_anywhere(event))
    return [event for group in groups for event in sorted(group, key=_host)]


def _host(event: Mapping[str, Any]) -> tuple[str, str]:
    data = event.get("event_data", {})
    return (str(data.get("host", "")), str(data.get("task", "")))


def _outcome(outcome: Outcome | str) -> Any:
    if isinstance(outcome, str):
        return {"error": outcome}
    found = asdict(outcome)
    for name in ("started", "finished", "warm"):
        found.pop(name)
    if found["stats"]:
        found["stats"].pop("completion")
    return {**found, "artifacts": str(outcome.artifacts), "requeue_after": str(outcome.requeue_after)}


def _tree(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each path below *root* with its kind and mode, but for content as it was given and caches of bytecode."""
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        if here == root:
            folders[:] = [name for name in folders if name not in _NOT_COMPARED]
        folders[:] = [name for name in folders if name != _BYTECODE]
        for name in chain(folders, files):
            yield here / name, stat.filemode((here / name).lstat().st_mode)


def _target(path: Path, masks: Masks) -> str:
    return f" -> {masks.text(str(path.readlink()))}" if path.is_symlink() else ""


def _file(path: Path, *, masks: Masks, ran: Ran, events: Sequence[Mapping[str, Any]]) -> str:
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"
    if path.name == "stdout" and path.parent.name == ran.ident:
        text = whole(text, events=events)
    text = masks.text(text)
    if path.name != "stdout" or not (ran.unordered or ran.asking):
        return text
    lines = [
        _ATTEMPTS.sub("", line) if ran.asking else line
        for line in text.splitlines()
        if not any(words in line for words in _SAID_WHEN_ASKING)
    ]
    return "\n".join(sorted(lines) if ran.unordered else lines)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "(gone)"


def _text(value: Any, *, ordered: bool = True) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str, sort_keys=not ordered)
