"""Structured logs: the peer's shape, one JSON object a line on standard error."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import threading
import warnings
from pathlib import Path

import pytest

from runner.errors import ConfigError
from runner.logs import BUGS, Logger, RecordingSink, Sink, console_sink, json_sink, records_of_libraries, timestamp


def test_a_record_is_one_line_of_json_in_the_peers_order(capsys: pytest.CaptureFixture[str]) -> None:
    """`level`, `ts` in UTC to the second, `logger`, `msg`, then the keys; nothing on standard output."""
    Logger("cmd").info("It runs", kind="Web", ünicode="é")
    captured = capsys.readouterr()

    assert captured.out == ""
    assert captured.err.count("\n") == 1
    record = json.loads(captured.err)
    assert list(record) == ["level", "ts", "logger", "msg", "kind", "ünicode"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["ts"])
    assert (record["level"], record["logger"], record["msg"], record["kind"]) == ("info", "cmd", "It runs", "Web")
    assert "é" in captured.err


def test_line_breaks_stay_inside_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Text of several lines cannot forge a record."""
    Logger().info("a\nb", text='x\n{"level": "error"}')

    assert capsys.readouterr().err.count("\n") == 1


def test_values_that_json_does_not_know_are_written_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors and paths may be keys."""
    Logger().error("Failed", error=ConfigError("wrong"), path=Path("/x"))
    record = json.loads(capsys.readouterr().err)

    assert (record["error"], record["path"]) == ("wrong", "/x")


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", ["debug", "info", "error"]), ("info", ["info", "error"]), ("error", ["error"])],
)
def test_records_below_the_level_are_not_written(level: str, written: list[str]) -> None:
    """The level and everything above it."""
    sink = RecordingSink()
    logger = Logger(level=level, sink=sink)
    logger.debug("d")
    logger.info("i")
    logger.error("e")

    assert [record["level"] for record in sink.records] == written


def test_a_bound_logger_is_a_new_value() -> None:
    """Keys are added to the bound one only; a later key of the same name wins; level and sink go along."""
    sink = RecordingSink()
    base = Logger("a", level="error", sink=sink, keys={"x": 1})
    bound = base.bind(y=2)
    bound.info("not written")
    bound.error("bound", y=3)
    base.error("base")
    bound.bind(y=4).error("bound again")

    assert [{key: record[key] for key in record.keys() & {"x", "y"}} for record in sink.records] == [
        {"x": 1, "y": 3},
        {"x": 1},
        {"x": 1, "y": 4},
    ]


def test_a_named_logger_keeps_its_keys() -> None:
    """Only the name changes."""
    sink = RecordingSink()
    Logger("a", sink=sink).bind(x=1).named("b").info("said")

    assert (sink.records[0]["logger"], sink.records[0]["x"]) == ("b", 1)
    assert sink.sentences() == ["said"]


def test_records_of_several_threads_do_not_mix(capfd: pytest.CaptureFixture[str]) -> None:
    """Each line is whole."""
    barrier = threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait()
        for _ in range(50):
            Logger("t").info("x" * 500, number=number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 400
    assert all(json.loads(line)["msg"] == "x" * 500 for line in lines)


class Broken:
    """Has no text."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("no text")


def _circle() -> dict[str, object]:
    circle: dict[str, object] = {}
    circle["self"] = circle
    return circle


def _deep() -> list[object]:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "value",
    [
        Broken(),
        {(1, 2): "tuple as a key"},
        {b"bytes": b"\xff"},
        {None: 1, 3: {"a"}},
        _circle(),
        _deep(),
        float("nan"),
        [float("inf")],
        "\udc80 half a character",
        {"\ud800": "half a key"},
        object(),
        {1, "mixed"},
        type,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("sink", [json_sink, console_sink])
def test_no_value_can_break_a_line(value: object, sink: Sink, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is bound, one line is written, and what JSON is in it can be read."""
    Logger("cmd", sink=sink).info("It runs", value=value, after=1)
    line = capsys.readouterr().err

    assert line.count("\n") == 1
    assert json.loads(line[line.index("{") :], parse_constant=pytest.fail)["after"] == 1


def test_a_standard_error_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed pipe doesn't end the operator."""
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone)

    Logger().error("nobody hears it")


def test_json_stays_json_where_standard_error_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that it lacks are written as JSON writes them."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))

    Logger().info("It runs", name="é\U0001f600")

    assert json.loads(raw.getvalue())["name"] == "é\U0001f600"


def test_keys_stand_before_the_error_and_cannot_replace_the_header() -> None:
    """The peer's order: header, keys, error, stack; a key of a header's name gets a `_`."""
    sink = RecordingSink()
    Logger("cmd", sink=sink, stacktrace_level="error").error("Failed", error=ConfigError("x"), msg="m", path="/x")

    assert list(sink.records[0]) == ["level", "ts", "logger", "msg", "msg_", "path", "error", "stacktrace"]
    assert sink.records[0]["msg"] == "Failed"


def test_a_logger_without_a_name_has_no_logger_key() -> None:
    """As in the peer."""
    sink = RecordingSink()
    Logger(sink=sink).info("said")

    assert list(sink.records[0]) == ["level", "ts", "msg"]


def test_json_is_written_without_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    """Who greps the peer's lines finds ours."""
    Logger("cmd").info("It runs", resource={"IsResourceRequest": True, "Path": "/api"})

    assert '"msg":"It runs","resource":{"IsResourceRequest":true,"Path":"/api"}}\n' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("1", ["debug", "info"]),
        ("2", ["debug", "info"]),
        ("debug", ["debug", "info"]),
        ("info", ["info"]),
    ],
)
def test_a_verbosity_is_debug(level: str, written: list[str]) -> None:
    """A number above 0 writes what debug writes: nothing is logged below it."""
    sink = RecordingSink()
    logger = Logger(level=level, sink=sink)
    for write in (logger.debug, logger.info):
        write("said")

    assert [record["level"] for record in sink.records] == written


@pytest.mark.parametrize(
    ("stacktrace_level", "with_stack"),
    [("info", ["info", "warn", "error"]), ("warn", ["warn", "error"]), ("error", ["error"]), ("panic", [])],
)
def test_stacks_begin_at_their_level(stacktrace_level: str, with_stack: list[str]) -> None:
    """From it on each record tells where it comes from, the innermost place first."""
    sink = RecordingSink()
    logger = Logger(level="debug", sink=sink, stacktrace_level=stacktrace_level)
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("said")

    stacks = {record["level"]: record["stacktrace"] for record in sink.records if "stacktrace" in record}
    assert list(stacks) == with_stack
    for stack in stacks.values():
        function, place = stack.splitlines()[:2]
        assert function.endswith(".test_stacks_begin_at_their_level")
        assert re.fullmatch(r"\t.*test_logs\.py:\d+", place)


@pytest.mark.parametrize(
    ("error", "with_stack"),
    [(ConfigError("wrong"), False), ("text", False), (None, False), (ValueError("a bug"), True)],
)
def test_only_bugs_have_a_stack_where_nothing_else_is_asked_for(error: object, with_stack: bool) -> None:  # noqa: FBT001
    """An error that somebody foresaw says what to do; of one that nobody foresaw, the place is what helps."""
    sink = RecordingSink()
    logger = Logger(sink=sink, stacktrace_level=BUGS)
    logger.warning("Odd", error=error)
    logger.error("Failed", error=error)
    assert ["stacktrace" in record for record in sink.records] == [False, with_stack]


def test_the_stack_of_an_error_is_where_it_was_raised() -> None:
    """Functions and places only: no source, no value of a variable."""

    def fails(secret: str) -> None:
        raise ConfigError(f"wrong {len(secret)}")

    sink = RecordingSink()
    try:
        fails("canary")
    except ConfigError as error:
        Logger(sink=sink, stacktrace_level="error").error("Failed", error=error)

    stack = sink.records[0]["stacktrace"]
    assert ".fails\n\t" in stack.splitlines()[0] + "\n" + stack.splitlines()[1]
    assert "canary" not in stack


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("epoch", 1732912917.25),
        ("millis", 1732912917250.0),
        ("nano", 1732912917250000000),
        ("nanos", 1732912917250000000),
        ("iso8601", "2024-11-29T20:41:57.250Z"),
        ("rfc3339", "2024-11-29T20:41:57Z"),
        ("rfc3339nano", "2024-11-29T20:41:57.25Z"),
    ],
)
def test_times_are_written_as_asked_for(encoding: str, expected: object) -> None:
    """The encodings of zap, in UTC."""
    assert timestamp(encoding, nanoseconds=1732912917250000000) == expected


def test_a_logger_writes_the_time_that_it_was_told() -> None:
    """The loggers made of it too."""
    sink = RecordingSink()
    Logger(sink=sink, time_encoding="nano").named("b").bind(x=1).info("said")

    assert isinstance(sink.records[0]["ts"], int)


def test_the_console_format_is_zaps(capsys: pytest.CaptureFixture[str]) -> None:
    """Time, level, logger, sentence and keys between tabs; the stack on lines of its own."""
    logger = Logger("cmd", sink=console_sink, stacktrace_level="warn", level="debug")
    logger.info("It runs", kind="Web", n=1)
    logger.debug("Quietly")
    logger.warning("It limps\n", error="x")
    lines = capsys.readouterr().err.splitlines()

    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(time + r'\tINFO\tcmd\tIt runs\t\{"kind": "Web", "n": 1\}', lines[0])
    assert re.fullmatch(time + r"\tDEBUG\tcmd\tQuietly", lines[1])
    assert re.fullmatch(time + r'\tWARN\tcmd\tIt limps\\n\t\{"error": "x"\}', lines[2])
    assert lines[3].endswith(".test_the_console_format_is_zaps")


def test_records_of_libraries_are_ours() -> None:
    """A library's warning or error, and a warning of Python, is a line of the log; its traceback is for debugging."""
    for level, tracebacks in (("info", 0), ("debug", 1)):
        sink = RecordingSink()
        with records_of_libraries(Logger("cmd", sink=sink, level=level)):
            logging.getLogger("kubernetes.client").error("lost %s", "it", exc_info=ValueError("why"))
            logging.getLogger("asyncio").warning("slow")
            warnings.showwarning("old", DeprecationWarning, "f.py", 1)
        assert [record["logger"] for record in sink.records if "traceback" not in record] == [
            "kubernetes.client",
            "asyncio",
            "py.warnings",
        ]
        assert (sink.records[0]["level"], sink.records[0]["msg"], sink.records[0]["error"]) == (
            "error",
            "lost it",
            "why",
        )
        assert sum("traceback" in record for record in sink.records) == tracebacks
    assert not [handler for handler in logging.getLogger().handlers if type(handler).__module__ == "runner.logs"]
