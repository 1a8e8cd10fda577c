"""What an object's annotations change of its runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runner.execution.overrides import (
    MAX_ARTIFACTS_ANNOTATION,
    RUN_TIMEOUT_ANNOTATION,
    VERBOSITY_ANNOTATION,
    max_artifacts_of,
    run_timeout_of,
    verbosity_of,
)
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink


def _annotated(annotation: str, value: str | None) -> Object:
    return {"metadata": {} if value is None else {"annotations": {annotation: value}}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, 2), ("4", 4), ("0", 0), ("-3", 0), ("12", 7), ("+1", 1), ("x", 2), ("", 2), ("²", 2), (" 5", 2),
        ("1_0", 2), ("200000000", 7), ("9223372036854775807", 7), ("9223372036854775808", 2),
        ("-9223372036854775808", 0), ("-9223372036854775809", 2), ("9" * 5000, 2), ("0" * 5000 + "4", 4),
    ],
)  # fmt: skip
def test_verbosity(value: str | None, expected: int) -> None:
    """The annotation's whole number is the number of v's, 7 at most; what Go's int cannot hold is no number."""
    log = Logger(sink=RecordingSink())
    assert expected == verbosity_of(_annotated(VERBOSITY_ANNOTATION, value), default=2, log=log)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, 20), ("0", 0), ("1", 1), ("-1", 0), ("many", 20), ("9" * 5000, 20)]
)
def test_max_artifacts(value: str | None, expected: int) -> None:
    """The annotation may keep all artifacts by 0, which the watch cannot; anything else is the watch's value."""
    log = Logger(sink=RecordingSink())
    assert expected == max_artifacts_of(_annotated(MAX_ARTIFACTS_ANNOTATION, value), default=20, log=log)


def test_a_broken_annotation_is_logged() -> None:
    """The log names the annotation and its value, so that somebody can mend it."""
    sink = RecordingSink()
    verbosity_of(_annotated(VERBOSITY_ANNOTATION, "much"), default=2, log=Logger(sink=sink))
    assert [(record["annotation"], record["value"]) for record in sink.records] == [(VERBOSITY_ANNOTATION, "much")]


@pytest.mark.parametrize(
    ("value", "seconds", "told"),
    [
        (None, 60, 0),
        ("5m", 300, 0),
        ("0", 0, 0),
        ("0s", 0, 0),
        ("-1s", 60, 1),
        ("soon", 60, 1),
        ("5", 60, 1),
        ("", 60, 1),
    ],
)
def test_run_timeout(value: str | None, seconds: int, told: int) -> None:
    """The annotation's duration is the limit, zero is none; what is no duration is told and the watch's is used."""
    sink = RecordingSink()
    limit = run_timeout_of(
        _annotated(RUN_TIMEOUT_ANNOTATION, value), default=timedelta(seconds=60), log=Logger(sink=sink)
    )
    assert (limit.total_seconds(), len(sink.records)) == (seconds, told)
    assert all(record["annotation"] == RUN_TIMEOUT_ANNOTATION for record in sink.records)


def test_a_watch_asks_for_no_more_than_ansible_knows() -> None:
    """The watch's own number is limited too: it becomes an argument of as many letters."""
    assert verbosity_of({}, default=200_000, log=Logger(sink=RecordingSink())) == 7


def test_a_long_annotation_is_not_repeated_in_the_log() -> None:
    """An annotation of many digits costs one short line."""
    sink = RecordingSink()
    verbosity_of(_annotated(VERBOSITY_ANNOTATION, "9" * 200_000), default=2, log=Logger(sink=sink))
    assert [len(record["value"]) for record in sink.records] == [67]
