"""Structured logs: the peer's shape, one JSON object a line on standard error."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from runner.errors import ConfigError
from runner.logs import Logger, RecordingSink


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
