"""Structured logs: a constant sentence plus bound keys, one record a line on standard error.

The shape is the peer's (zap below controller-runtime): `level`, `ts`, `logger`, `msg`, the keys, `error`,
`stacktrace`. Bind keys once per object or run with `Logger.bind`; a bound logger is a new value. Whatever is bound, a
record gets written: logging never raises.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any

from runner.errors import OperatorError

_LEVELS = {"debug": -1, "info": 0, "warn": 1, "error": 2, "panic": 4, "nothing": 9}
"""zap's numbers; verbosities of 2 and more are negative too. `nothing` is above all."""
BUGS = "bugs"
"""In the place of a stack level: a stack only for an error that is no `OperatorError`, which nobody expected."""
_HEADER = ("level", "ts", "logger", "msg")
_DEEPEST = 32
_MOST_FRAMES = 40
_write_lock = threading.Lock()

Sink = Callable[[Mapping[str, Any]], None]
"""Takes one record."""


def level_number(level: str) -> int:
    """Return zap's number for *level*: a name, or a verbosity such as `2` for Level(-2)."""
    return _LEVELS[level] if level in _LEVELS else -int(level)


def timestamp(encoding: str, *, nanoseconds: int) -> str | float | int:
    """Return a moment, in nanoseconds since 1970, as `--zap-time-encoding` wants it; always UTC."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    match encoding:
        case "epoch":
            return seconds + fraction / 1e9  # exact to the microsecond, unlike one division
        case "millis":
            return nanoseconds // 1_000_000 + nanoseconds % 1_000_000 / 1e6
        case "nano" | "nanos":
            return nanoseconds
    whole = datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if encoding == "iso8601":
        return f"{whole}.{fraction // 1_000_000:03}Z"
    if encoding == "rfc3339nano":
        return f"{whole}{f'.{fraction:09}'.rstrip('0').rstrip('.')}Z"
    return f"{whole}Z"


def json_sink(record: Mapping[str, Any]) -> None:
    """Write *record* as one line of JSON to standard error, without spaces, as the peer does."""
    _write(_json(record, separators=(",", ":")))


def console_sink(record: Mapping[str, Any]) -> None:
    """Write *record* as zap's console format: time, level, logger, sentence and keys between tabs, then the stack."""
    rest = {key: value for key, value in record.items() if key not in {*_HEADER, "stacktrace"}}
    columns = [str(record["ts"]), str(record["level"]).upper(), str(record.get("logger", "")), str(record["msg"])]
    line = "\t".join([*(column.replace("\n", "\\n") for column in columns if column)])
    if rest:
        line += "\t" + _json(rest, separators=(", ", ": "))
    stack = record.get("stacktrace")
    _write(f"{line}\n{stack}" if stack else line)


SINKS: Mapping[str, Sink] = {"json": json_sink, "console": console_sink}
"""By the name that `--zap-encoder` gives them."""


@dataclass(frozen=True, kw_only=True)
class _Output:
    """Where records go and how; the same for all loggers that come from one."""

    sink: Sink
    threshold: int
    stack_from: int
    stack_of_bugs: bool
    time_encoding: str


class Logger:
    """An immutable logger: name, level, keys and a sink."""

    def __init__(
        self,
        name: str = "",
        *,
        level: str = "info",
        sink: Sink = json_sink,
        keys: Mapping[str, Any] | None = None,
        stacktrace_level: str = "nothing",
        time_encoding: str = "rfc3339",
    ) -> None:
        """Log to *sink* what is of *level* or above.

        Args:
            name: the part of the program that speaks.
            level: `error`, `warn`, `info`, `debug`, or the highest verbosity as a number, such as `2`.
            sink: gets every record.
            keys: part of every record.
            stacktrace_level: records of this level and above carry a stack; `nothing` for none, or `BUGS`.
            time_encoding: one of zap's names, see `timestamp`.
        """
        self._name = name
        self._keys = dict(keys or {})
        self._output = _Output(
            sink=sink,
            threshold=level_number(level),
            stack_from=level_number("nothing" if stacktrace_level == BUGS else stacktrace_level),
            stack_of_bugs=stacktrace_level == BUGS,
            time_encoding=time_encoding,
        )

    def named(self, name: str) -> Logger:
        """Return the same logger under another *name*."""
        return self._like(name=name, keys=self._keys)

    def bind(self, **keys: Any) -> Logger:
        """Return a logger that adds *keys* to each record."""
        return self._like(name=self._name, keys={**self._keys, **keys})

    def debug(self, sentence: str, **keys: Any) -> None:
        """Log what only a developer of this package wants to know."""
        self._log("debug", sentence, keys=keys)

    def info(self, sentence: str, **keys: Any) -> None:
        """Log what an operator of a cluster wants to know."""
        self._log("info", sentence, keys=keys)

    def warning(self, sentence: str, **keys: Any) -> None:
        """Log what works, and what somebody should think about."""
        self._log("warn", sentence, keys=keys)

    def error(self, sentence: str, **keys: Any) -> None:
        """Log what somebody must look at; an `error` key that is an exception is written as its text."""
        self._log("error", sentence, keys=keys)

    def _log(self, level: str, sentence: str, *, keys: Mapping[str, Any]) -> None:
        number = _LEVELS[level]
        output = self._output
        if number < output.threshold:
            return
        record: dict[str, Any] = {"level": level, "ts": timestamp(output.time_encoding, nanoseconds=time.time_ns())}
        if self._name:
            record["logger"] = self._name
        record["msg"] = sentence
        merged = {**self._keys, **keys}
        error = merged.pop("error", None)
        record.update({f"{key}_" if key in _HEADER else key: value for key, value in merged.items()})
        if error is not None:
            record["error"] = error
        if number >= output.stack_from or (level == "error" and output.stack_of_bugs and _is_bug(error)):
            record["stacktrace"] = _stack(error)
        output.sink(record)

    def _like(self, *, name: str, keys: Mapping[str, Any]) -> Logger:
        made = Logger(name, keys=keys)
        made._output = self._output
        return made


class _Libraries(logging.Handler):
    """Writes the records of libraries: aiohttp's, asyncio's, the Kubernetes client's, Python's warnings."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*; its traceback is for a developer only, as strangers can provoke some by the hundred."""
        try:
            sentence = record.getMessage()
        except (TypeError, ValueError, KeyError):
            sentence = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        keys = {} if error is None else {"error": _text(error)}
        logger = self._logger.named(record.name)
        if record.levelno >= logging.ERROR:
            logger.error(sentence, **keys)
        elif record.levelno >= logging.WARNING:
            logger.warning(sentence, **keys)
        else:
            logger.debug(sentence, **keys)
        if error is not None:
            logger.debug("The traceback of the last record", traceback="".join(traceback.format_exception(error)))


@contextlib.contextmanager
def records_of_libraries(logger: Logger) -> Iterator[None]:
    """Send what libraries log from `warning` on, and Python's warnings, through *logger* instead of standard error."""
    handler = _Libraries(logger)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.removeHandler(handler)


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


def _write(text: str) -> None:
    """Write a line at once; a standard error that is gone is no reason to end an operator."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    # A lone surrogate becomes \udc80, which is what JSON calls it; a character that the terminal lacks, \uXXXX.
    line = _escaped(text, encoding=encoding) + "\n"
    with _write_lock, contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line)
        sys.stderr.flush()


def _escaped(text: str, *, encoding: str) -> str:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return "".join(character if character.isascii() else json.dumps(character)[1:-1] for character in text)
    return text


def _json(value: Mapping[str, Any], *, separators: tuple[str, str]) -> str:
    """Return *value* as JSON, whatever is in it; quick for what is JSON already."""
    try:
        return json.dumps(value, default=_text, ensure_ascii=False, allow_nan=False, separators=separators)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_plain(value), ensure_ascii=False, separators=separators)


def _plain(value: Any, depth: int = 0) -> Any:
    """Return *value* with everything that JSON does not know as text, and cut where it is too deep or goes round."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else _text(key): _plain(item, depth + 1) for key, item in dict(value).items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value - value == 0:  # neither infinite nor no number
        return value
    return _text(value)


def _text(value: object) -> Any:
    """Return the text of *value*; sets as lists; the name of its type where it has no text."""
    if isinstance(value, set | frozenset | Mapping):
        return _plain(value)
    try:
        return str(value) or type(value).__name__
    except Exception:  # noqa: BLE001 - foreign code in a __str__ must not break a line of the log
        return f"<{type(value).__name__}>"


def _is_bug(error: object) -> bool:
    return isinstance(error, BaseException) and not isinstance(error, OperatorError)


def _stack(error: object) -> str:
    """Return functions and places, the innermost first: of *error* if it was raised, else of who logs."""
    frames = _frames_of(error) if isinstance(error, BaseException) and error.__traceback__ else _frames_here()
    named = [
        f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}\n\t{frame.f_code.co_filename}:{line}"
        for frame, line in frames
    ]
    return "\n".join(named[:_MOST_FRAMES])


def _frames_of(error: BaseException) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_tb(error.__traceback__))[::-1]


def _frames_here() -> Iterator[tuple[FrameType, int]]:
    """Return the frames of the caller, without those of this module."""
    return ((frame, line) for frame, line in traceback.walk_stack(None) if frame.f_code.co_filename != __file__)
