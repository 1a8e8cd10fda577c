"""Outcomes from event streams that real runs of ansible-core 2.19 wrote (`streams/`), and from a few made-up events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runner.execution.events import EventSummary, parse_period, stats_of
from runner.execution.executor import Outcome
from runner.execution.outcome import classify

STREAMS = Path(__file__).parent / "streams"
NOW = datetime(2026, 11, 29, tzinfo=UTC)
CENSORED = "the output has been hidden due to the fact that 'no_log: true' was specified for this result"


def _outcome(events: list[dict[str, Any]], *, rc: int | None, output_tail: str = "") -> Outcome:
    summary = EventSummary()
    for event in events:
        summary.add(event)
    return classify(summary, rc=rc, output_tail=output_tail, started=NOW, finished=NOW)


def _recorded(name: str, *, rc: int | None, output_tail: str = "") -> Outcome:
    return _outcome(json.loads((STREAMS / f"{name}.json").read_text()), rc=rc, output_tail=output_tail)


def _event(kind: str, **data: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": "localhost", "task": "Do it", "task_uuid": "1", **data}}


def _stats(**data: Any) -> dict[str, Any]:
    return {"event": "playbook_on_stats", "created": "2026-11-29T14:40:25.949640+00:00", "event_data": data}


def test_rescued_and_ignored_failures_leave_the_run_a_success() -> None:
    """The recap decides, and the last of several requested periods is kept (field case R3 a, b, e)."""
    outcome = _recorded("harmless", rc=0)
    assert outcome.success
    assert outcome.failures == ()
    assert outcome.requeue_after == timedelta(seconds=20)


def test_only_the_failure_that_was_not_rescued_is_told() -> None:
    """Of two failures of one host the recap counts one: the later one, with the messages of its items."""
    outcome = _recorded("rescued-then-failed", rc=2)
    assert outcome.failures == (
        "One or more items failed: (item=first item) first item; (item=second item) second item",
    )


def test_an_unreachable_host_is_a_failure() -> None:
    """No task failed, but the recap counts a host as unreachable (field case R3 c)."""
    outcome = _recorded("unreachable", rc=4)
    assert not outcome.success
    assert outcome.failures[0].startswith("host deadhost is unreachable: ")
    assert outcome.stats is not None
    assert outcome.stats.ok == 0


def test_no_log_gives_ansibles_sentence_and_hides_a_period() -> None:
    """The message of a `no_log` task is Ansible's own, and a period under `no_log` is a failure that says so."""
    outcome = _recorded("no-log", rc=2)
    assert outcome.failures[0] == CENSORED
    assert "take no_log away" in outcome.failures[1]
    assert outcome.requeue_after is None


def test_a_broken_period_fails_a_run_that_went_well() -> None:
    """An empty period, that a later task asked for, beats an earlier good one."""
    outcome = _recorded("broken-period", rc=0)
    assert not outcome.success
    assert 'cannot use the period ""' in outcome.failures[0]


def test_a_run_without_a_recap_fails_with_the_end_of_its_output() -> None:
    """An unknown module ends the run before its recap; the message is what Ansible printed (field case R2)."""
    outcome = _recorded("unknown-module", rc=4, output_tail="[ERROR]: couldn't resolve module/action 'nosuch'")
    assert not outcome.success
    assert outcome.stats is None
    assert outcome.failures == (
        "Ansible ended before it reached its recap (exit code 4): [ERROR]: couldn't resolve module/action 'nosuch'",
    )


@pytest.mark.parametrize("with_recap", [True, False])
def test_a_signal_is_a_failure_with_and_without_recap(*, with_recap: bool) -> None:
    """No exit code means that a signal ended Ansible, and the message says so."""
    outcome = _outcome([_stats(ok={"localhost": 1})] if with_recap else [], rc=None)
    assert not outcome.success
    assert "killed by a signal" in outcome.failures[0]


def test_a_success_without_a_recap_is_none() -> None:
    """An exit code of 0 alone proves nothing: a play that never reached its recap failed (field case R2)."""
    outcome = _outcome([], rc=0)
    assert not outcome.success
    assert outcome.failures[0].startswith("Ansible ended before it reached its recap")


def test_an_exit_code_alone_is_a_failure() -> None:
    """A recap without failures does not outweigh an exit code other than 0."""
    outcome = _outcome([_stats(ok={"localhost": 1})], rc=3, output_tail="it broke")
    assert outcome.failures == ("ansible-playbook ended with exit code 3: it broke",)


def test_a_recap_that_counts_failures_without_events_is_a_failure() -> None:
    """Where the events tell nothing, the message names the hosts."""
    outcome = _outcome([_stats(failures={"web": 1}, dark={"db": 1})], rc=2)
    assert outcome.failures == ("tasks failed on web", "unreachable hosts: db")


def test_an_ignored_failure_after_the_real_one_is_not_told() -> None:
    """A task of an `always` section that fails and is ignored does not take the place of what went wrong."""
    real = _event("runner_on_failed", res={"msg": "real"})
    ignored = _event("runner_on_failed", res={"msg": "ignored"}, ignore_errors=True)
    outcome = _outcome([real, ignored, _stats(failures={"localhost": 1}, ignored={"localhost": 1})], rc=2)
    assert outcome.failures == ("real",)


def test_failures_that_cannot_be_told_apart_are_all_told() -> None:
    """A rescued failure in an `always` section, later than the real one, does not take its place: both are told."""
    events = [
        _event("runner_on_failed", res={"msg": "REAL"}),
        _event("runner_on_failed", res={"msg": "cosmetic"}),
        _event("runner_on_ok", task="rescue"),
        _stats(failures={"localhost": 1}, rescued={"localhost": 1}),
    ]
    assert _outcome(events, rc=2).failures == ("REAL", "cosmetic")


def test_a_host_whose_failures_were_all_rescued_is_not_told() -> None:
    """Another host's real failure brings up nothing of the one that the recap does not count."""
    events = [
        _event("runner_on_failed", host="web", res={"msg": "rescued"}),
        _event("runner_on_ok", host="web"),
        _event("runner_on_failed", host="db", res={"msg": "REAL"}),
        _stats(failures={"db": 1}, rescued={"web": 1}),
    ]
    assert _outcome(events, rc=2).failures == ("REAL",)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"msg": "nope"}, "nope"),
        ({"msg": ["two", "lines"]}, "two\nlines"),
        ({"msg": {"code": 5}}, '{"code": 5}'),
        ({"msg": "MODULE FAILURE", "module_stderr": "Traceback\nKeyError: 'x'\n"}, "MODULE FAILURE\nKeyError: 'x'"),
        ({"reason": "could not find role"}, "could not find role"),
        ({}, 'task "Do it" failed without a message'),
        (None, 'task "Do it" failed without a message'),
    ],
)
def test_a_failure_tells_what_the_task_said(result: Any, expected: str) -> None:
    """The plain message stays as it is; other results become readable."""
    outcome = _outcome([_event("runner_on_failed", res=result), _stats(failures={"localhost": 1})], rc=2)
    assert outcome.failures == (expected,)


@pytest.mark.parametrize("action", ["operator_sdk.util.requeue_after", "requeue_after"])
def test_a_period_is_read_from_both_names_of_the_module(action: str) -> None:
    """The full name and the bare one both ask for the next run."""
    outcome = _outcome([_event("runner_on_ok", task_action=action, res={"period": "1h2m3s"}), _stats()], rc=0)
    assert outcome.requeue_after == timedelta(hours=1, minutes=2, seconds=3)


def test_a_period_of_another_module_is_nothing() -> None:
    """A result key named `period` of any other module asks for nothing."""
    outcome = _outcome([_event("runner_on_ok", task_action="debug", res={"period": "5s"}), _stats()], rc=0)
    assert outcome.requeue_after is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("24h", 86400),
        ("5s1h", 3605),
        ("0", 0),
        ("500ms", 0.5),
        ("0s", 0),
        ("1.5s", 1.5),
        ("500us", 0.0005),
        ("+5s", 5),
        ("-5s", -5),
    ],
)
def test_a_period_is_a_duration_of_go(text: str, seconds: float) -> None:
    """The grammar is that of every other duration here, as the peer reads them."""
    assert parse_period(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1d", "h5", "9" * 40 + "h"])
def test_a_period_that_is_none_is_refused(text: str) -> None:
    """What the peer cannot read, or count, is an error that names the text."""
    with pytest.raises(ValueError, match="requeue_after cannot use the period"):
        parse_period(text)


def test_counts_are_those_of_localhost_and_the_time_is_the_peers() -> None:
    """The recap keeps all hosts' failures; the printed time has no trailing zeros."""
    stats = stats_of(_stats(ok={"localhost": 2, "web": 9}, changed={"localhost": 1}, failures={"web": 1}))
    assert (stats.ok, stats.changed, stats.skipped, stats.failed) == (2, 1, 0, 0)
    assert stats.failures == {"web": 1}
    assert stats.completion == "2026-11-29T14:40:25.94964+00:00"
