"""Structured logs: a constant sentence plus bound keys, one JSON object a line on standard error.

The shape is the peer's (zap's production encoder): `level`, `ts`, `logger`, `msg`, then the keys.
Bind keys once per object or run with `Logger.bind`; a bound logger is a new value.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

_LEVELS = {"debug": 10, "info": 20, "error": 40}
_write_lock = threading.Lock()

Sink = Callable[[Mapping[str, Any]], None]
"""Takes one record."""


def json_sink(record: Mapping[str, Any]) -> None:
    """Write *record* as one line of JSON to standard error; a value that JSON doesn't know is written as text."""
    line = json.dumps(record, default=str, ensure_ascii=False)
    with _write_lock:
        print(line, file=sys.stderr, flush=True)


class Logger:
    """An immutable logger: name, level, keys and a sink."""

    def __init__(
        self, name: str = "", *, level: str = "info", sink: Sink = json_sink, keys: Mapping[str, Any] | None = None
    ) -> None:
        """Log records of *level* (`debug`, `info`, `error`) and above to *sink*."""
        self._name = name
        self._level = level
        self._sink = sink
        self._keys = dict(keys or {})

    def named(self, name: str) -> Logger:
        """Return the same logger under another *name*."""
        return Logger(name, level=self._level, sink=self._sink, keys=self._keys)

    def bind(self, **keys: Any) -> Logger:
        """Return a logger that adds *keys* to each record."""
        return Logger(self._name, level=self._level, sink=self._sink, keys={**self._keys, **keys})

    def debug(self, sentence: str, **keys: Any) -> None:
        """Log what only a developer of this package wants to know."""
        self._log("debug", sentence, keys=keys)

    def info(self, sentence: str, **keys: Any) -> None:
        """Log what an operator of a cluster wants to know."""
        self._log("info", sentence, keys=keys)

    def error(self, sentence: str, **keys: Any) -> None:
        """Log what somebody must look at; an `error` key that is an exception is written as its text."""
        self._log("error", sentence, keys=keys)

    def _log(self, level: str, sentence: str, *, keys: Mapping[str, Any]) -> None:
        if _LEVELS[level] < _LEVELS[self._level]:
            return
        stamp = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._sink({"level": level, "ts": stamp, "logger": self._name, "msg": sentence, **self._keys, **keys})


class RecordingSink:
    """Keeps records for tests and for the demo's narration."""

    def __init__(self) -> None:
        """Start with none."""
        self.records: list[Mapping[str, Any]] = []

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Keep *record*."""
        self.records.append(record)

    def sentences(self) -> list[str]:
        """Return the messages in their order."""
        return [str(record["msg"]) for record in self.records]
