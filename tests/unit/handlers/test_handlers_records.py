"""What kopf and handlers log, as records of the operator's own log."""

from __future__ import annotations

import logging
from typing import Any

import kopf
import pytest
from kopf._core.actions.loggers import LocalObjectLogger, ObjectLogger

from runner.handlers.records import records_of_handlers
from runner.logs import Logger, RecordingSink

BODY = kopf.Body({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "prod"}})
KOPF = kopf.__file__.replace("__init__.py", "_core/anything.py")


@pytest.fixture
def sink() -> RecordingSink:
    """Give a sink."""
    return RecordingSink()


def spoken_by_kopf(logger: Any, method: str, sentence: str) -> None:
    """Log *sentence* from a file of kopf's."""
    code = compile(f"def speak(logger):\n    logger.{method}({sentence!r})\n", KOPF, "exec")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - code whose file name is kopf's
    names["speak"](logger)


@pytest.mark.parametrize("kind", [ObjectLogger, LocalObjectLogger])
def test_a_handler_speaks_at_its_level_with_its_object(sink: RecordingSink, kind: type[ObjectLogger]) -> None:
    """The logger that kopf hands to a handler tells which object it speaks of."""
    with records_of_handlers(Logger("handlers", sink=sink), level="info"):
        kind(body=BODY, settings=kopf.OperatorSettings()).info("looked at %s", "it")
        kind(body=BODY, settings=kopf.OperatorSettings()).debug("not wanted")
    (record,) = sink.records
    assert {key: record[key] for key in ("level", "msg", "gvk", "name", "namespace", "logger")} == {
        "level": "info", "msg": "looked at it", "gvk": "apps/v1, Kind=Deployment", "name": "web", "namespace": "prod",
        "logger": "handlers",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "sentence", "level"),
    [
        ("info", "Handler 'see' succeeded.", "debug"),
        ("warning", "Unresolved resources cannot be served", "warn"),
        ("warning", "OS signals are ignored: running not in the main thread.", "debug"),
        ("error", "Request attempt #1 failed; will retry: GET x", "warn"),
        ("error", "Handler 'see' failed temporarily", "error"),
    ],
)
def test_what_kopf_says_of_its_work_is_for_developers(
    sink: RecordingSink, method: str, sentence: str, level: str
) -> None:
    """Its information is debug, what is tried again a warning, and the rest as it is."""
    with records_of_handlers(Logger("handlers", sink=sink, level="debug"), level="debug"):
        for logger in (
            logging.getLogger("kopf._core.x"),
            LocalObjectLogger(body=BODY, settings=kopf.OperatorSettings()),
        ):
            spoken_by_kopf(logger, method, sentence)
    assert [(record["level"], record["msg"]) for record in sink.records] == [(level, sentence)] * 2


def test_the_logger_of_a_handler_file_has_its_name(sink: RecordingSink) -> None:
    """`logging.getLogger(__name__)` works as in any module."""
    with records_of_handlers(Logger("handlers", sink=sink), level="info"):
        logging.getLogger("handlers.thing").info("hello %d", 1)
        logging.getLogger("handlers.thing").info("hello %d", "no number")
    assert [(record["logger"], record["msg"]) for record in sink.records] == [
        ("handlers.thing", "hello 1"),
        ("handlers.thing", "hello %d"),
    ]


def test_an_error_comes_with_its_exception(sink: RecordingSink) -> None:
    """The exception itself is handed on, so that the log can show where it was raised."""
    with records_of_handlers(Logger("handlers", sink=sink, stacktrace_level="bugs"), level="info"):
        try:
            int("boom")
        except ValueError:
            logging.getLogger("kopf.objects").exception("it failed")
    assert "boom" in str(sink.records[0]["error"])
    assert "test_an_error_comes_with_its_exception" in sink.records[0]["stacktrace"]


def test_afterwards_logging_is_as_before(sink: RecordingSink) -> None:
    """Nothing is left of it, and records go up to the root again."""
    with records_of_handlers(Logger("handlers", sink=sink), level="info"):
        assert not logging.getLogger("kopf").propagate
    assert logging.getLogger("kopf").propagate
    logging.getLogger("kopf").warning("for somebody else")
    assert not sink.records
