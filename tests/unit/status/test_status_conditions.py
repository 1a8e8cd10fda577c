"""The conditions as pure functions."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from runner.execution.executor import Outcome, PlayStats
from runner.kube.texts import CUT_MARK, cut_message
from runner.status.conditions import conditions_found, mark_done, mark_error, mark_paused, mark_running

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
STATS = PlayStats(ok=3, changed=1, skipped=2, failed=1, completion="2026-11-29T14:40:25.94964+00:00")
RESULT = {"ok": 3, "changed": 1, "skipped": 2, "failures": 1, "completion": "2026-11-29T14:40:25.94964+00:00"}
GOOD = Outcome(success=True, stats=STATS, started=NOW, finished=NOW)
BAD = Outcome(success=False, failures=("first", "second"), stats=STATS, started=NOW, finished=NOW)
T_NOW, T_LATER = "2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"


def brief(conditions: list[Any]) -> list[tuple[str, str, str]]:
    """Return type, status and reason of each condition."""
    return [(entry["type"], entry["status"], entry["reason"]) for entry in conditions]


def of_type(conditions: list[Any], type_: str) -> dict[str, Any]:
    """Return the one condition of a type."""
    (found,) = [entry for entry in conditions if isinstance(entry, dict) and entry.get("type") == type_]
    return dict(found)


def succeeded() -> list[Any]:
    """Return the conditions after a first success."""
    return mark_done(mark_running([], NOW), GOOD, generation=1, now=NOW)


def failed() -> list[Any]:
    """Return the conditions after a first failure."""
    return mark_done(mark_running([], NOW), BAD, generation=1, now=NOW)


def test_the_first_run_shows_running_alone() -> None:
    """An object without conditions gets Running=True and nothing else when its first run starts."""
    assert mark_running([], NOW) == [
        {
            "type": "Running",
            "status": "True",
            "lastTransitionTime": T_NOW,
            "reason": "Running",
            "message": "Running reconciliation",
        }
    ]


def test_a_success_has_the_shape_of_the_peer() -> None:
    """After a success, Running waits with the result, Successful is True and Failure is False with empty texts."""
    assert succeeded() == [
        {
            "type": "Running",
            "status": "True",
            "lastTransitionTime": T_NOW,
            "reason": "Successful",
            "message": "Awaiting next reconciliation",
            "ansibleResult": RESULT,
        },
        {
            "type": "Successful",
            "status": "True",
            "lastTransitionTime": T_NOW,
            "reason": "Successful",
            "message": "Last reconciliation succeeded",
            "observedGeneration": 1,
        },
        {"type": "Failure", "status": "False", "lastTransitionTime": T_NOW, "reason": "", "message": ""},
    ]


def test_a_failure_has_the_shape_of_the_peer() -> None:
    """After a failure, Running is False with its old texts and Failure carries all messages and the result."""
    assert failed() == [
        {
            "type": "Running",
            "status": "False",
            "lastTransitionTime": T_NOW,
            "reason": "Running",
            "message": "Running reconciliation",
        },
        {
            "type": "Failure",
            "status": "True",
            "lastTransitionTime": T_NOW,
            "reason": "Failed",
            "message": "first\nsecond",
            "ansibleResult": RESULT,
        },
        {
            "type": "Successful",
            "status": "False",
            "lastTransitionTime": T_NOW,
            "reason": "",
            "message": "",
            "observedGeneration": 1,
        },
    ]


def test_a_run_after_a_success_ends_the_success_and_drops_the_result() -> None:
    """While the next run goes on, Successful is False with its texts kept, and Running has no result."""
    conditions = mark_running(succeeded(), LATER)
    assert brief(conditions) == [
        ("Running", "True", "Running"),
        ("Successful", "False", "Successful"),
        ("Failure", "False", ""),
    ]
    assert of_type(conditions, "Successful")["message"] == "Last reconciliation succeeded"
    assert "ansibleResult" not in of_type(conditions, "Running")


def test_a_known_failure_stays_true_while_a_retry_runs() -> None:
    """Starting again does not clear a failure, nor its message, result and time."""
    before = of_type(failed(), "Failure")
    assert of_type(mark_running(failed(), LATER), "Failure") == before


def test_failure_keeps_its_time_over_a_second_failure() -> None:
    """Two failures in a row have one lastTransitionTime, and the message of the second."""
    again = mark_done(
        mark_running(failed(), LATER),
        Outcome(success=False, failures=("third",), stats=None, started=LATER, finished=LATER),
        generation=1,
        now=LATER,
    )
    failure = of_type(again, "Failure")
    assert (failure["lastTransitionTime"], failure["message"]) == (T_NOW, "third")
    assert "ansibleResult" not in failure


def test_a_success_after_a_failure_clears_it() -> None:
    """Failure goes to False, loses message and result, and its time moves."""
    again = mark_done(mark_running(failed(), LATER), GOOD, generation=2, now=LATER)
    assert of_type(again, "Failure") == {
        "type": "Failure",
        "status": "False",
        "lastTransitionTime": T_LATER,
        "reason": "",
        "message": "",
    }


@pytest.mark.parametrize(
    ("before", "type_", "moves"),
    [
        ("succeeded", "Successful", True),
        ("succeeded", "Running", False),
        ("failed", "Running", True),
        ("failed", "Failure", False),
    ],
)
def test_transition_time_moves_exactly_with_status(before: str, type_: str, *, moves: bool) -> None:
    """The start of a run moves the time of the conditions whose status flips, and of no other."""
    start = succeeded() if before == "succeeded" else failed()
    after = of_type(mark_running(start, LATER), type_)
    assert after["lastTransitionTime"] == (T_LATER if moves else T_NOW)


def test_running_moves_its_time_when_a_run_fails() -> None:
    """Running=False after a failure carries the time of the failure, not of the start."""
    conditions = mark_done(mark_running([], NOW), BAD, generation=1, now=LATER)
    assert of_type(conditions, "Running")["lastTransitionTime"] == T_LATER


def test_our_conditions_keep_their_places() -> None:
    """The order of the list does not change over success, failure and success."""
    conditions = succeeded()
    for outcome in (BAD, GOOD, BAD):
        conditions = mark_done(mark_running(conditions, LATER), outcome, generation=1, now=LATER)
    assert [entry["type"] for entry in conditions] == ["Running", "Successful", "Failure"]


def test_conditions_of_others_survive_in_their_places() -> None:
    """Whatever a role or another controller has in the list is left as it is, where it is."""
    ready = {"type": "Ready", "status": "True", "custom": {"a": [1]}}
    conditions = [ready, *succeeded(), {"type": "Last"}]
    after = mark_done(mark_running(conditions, LATER), BAD, generation=1, now=LATER)
    assert after[0] == ready
    assert after[-1] == {"type": "Last"}
    assert len(after) == 5


def test_unknown_fields_of_ours_survive() -> None:
    """Fields that others put into our conditions are kept through a whole run."""
    conditions = succeeded()
    for entry in conditions:
        entry["lastHeartbeatTime"] = "x"
    conditions[0]["observedGeneration"] = 7
    after = mark_done(mark_running(conditions, LATER), BAD, generation=2, now=LATER)
    assert [entry["lastHeartbeatTime"] for entry in after] == ["x", "x", "x"]
    assert of_type(after, "Running")["observedGeneration"] == 7


def test_successful_tells_the_generation_it_belongs_to() -> None:
    """While a newer generation runs, observedGeneration still names that of the last run that ended."""
    conditions = mark_running(mark_done([], GOOD, generation=4, now=NOW), LATER)
    assert of_type(conditions, "Successful")["observedGeneration"] == 4
    conditions = mark_done(conditions, GOOD, generation=5, now=LATER)
    assert of_type(conditions, "Successful")["observedGeneration"] == 5


def test_kinds_without_generation_get_no_observed_generation() -> None:
    """Generation 0 means that the kind has none, and none is written."""
    assert "observedGeneration" not in of_type(mark_done([], GOOD, generation=0, now=NOW), "Successful")


def test_a_run_without_recap_has_no_result() -> None:
    """A play that never reached its recap leaves no ansibleResult, but its message."""
    outcome = Outcome(success=False, failures=("syntax error",), started=NOW, finished=NOW)
    failure = of_type(mark_done(succeeded(), outcome, generation=1, now=LATER), "Failure")
    assert failure["message"] == "syntax error"
    assert "ansibleResult" not in failure


def test_an_error_before_any_run_shows_failure_alone() -> None:
    """An object without conditions that cannot be run gets Failure and nothing else."""
    assert mark_error([], "bad annotation", now=NOW) == [
        {
            "type": "Failure",
            "status": "True",
            "lastTransitionTime": T_NOW,
            "reason": "Failed",
            "message": "bad annotation",
        }
    ]


def test_an_error_lowers_running_and_successful() -> None:
    """An object that ran before and cannot be run now is neither running nor successful."""
    conditions = mark_error(succeeded(), "bad annotation", now=LATER)
    assert [(entry["type"], entry["status"]) for entry in conditions] == [
        ("Running", "False"),
        ("Successful", "False"),
        ("Failure", "True"),
    ]
    assert [entry["lastTransitionTime"] for entry in conditions] == [T_LATER] * 3


@pytest.mark.parametrize("again", ["running", "done", "error"])
def test_marking_twice_changes_nothing(again: str) -> None:
    """The same news a second time gives equal conditions, so that nothing is written."""

    def mark(found: list[Any], now: datetime) -> list[Any]:
        if again == "running":
            return mark_running(found, now)
        return mark_done(found, BAD, generation=1, now=now) if again == "done" else mark_error(found, "x", now=now)

    once = mark(succeeded(), NOW)
    assert mark(once, LATER) == once


def test_the_input_is_not_changed() -> None:
    """The functions are pure: the list that was found, and its entries, stay as they were."""
    found = [{"type": "Other"}, *succeeded()]
    before = copy.deepcopy(found)
    mark_running(found, LATER)
    mark_done(found, BAD, generation=2, now=LATER)
    mark_error(found, "x", now=LATER)
    assert found == before


@pytest.mark.parametrize("found", [None, {}, "conditions", 7, {"type": "Running"}])
def test_conditions_that_are_no_list_count_as_none(found: object) -> None:
    """A status whose conditions are no list does not stop the run."""
    assert brief(mark_running(found, NOW)) == [("Running", "True", "Running")]


def test_entries_that_are_no_conditions_survive() -> None:
    """Entries that are no objects, or have no usable type, are carried along."""
    odd: list[Any] = ["text", None, 3, [], {"status": "True"}, {"type": ["list"]}]
    assert mark_running(odd, NOW)[:-1] == odd


@pytest.mark.parametrize("time", [None, 5, "", "yesterday", {"a": 1}])
def test_an_odd_transition_time_is_repaired(time: object) -> None:
    """A time that is none is replaced by now, even though the status does not flip."""
    found = [{"type": "Running", "status": "True", "lastTransitionTime": time}]
    assert mark_running(found, NOW)[0]["lastTransitionTime"] == T_NOW


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00.5Z", "2026-01-01 00:00:00+00:00"])
def test_other_forms_of_time_are_kept(time: str) -> None:
    """A time that another writer gave in another form stays as it is while the status does not flip."""
    found = [{"type": "Running", "status": "True", "lastTransitionTime": time}]
    assert mark_running(found, NOW)[0]["lastTransitionTime"] == time


def test_lowered_conditions_always_have_texts() -> None:
    """A condition of ours whose reason or message is missing or no text gets empty texts."""
    found = [{"type": "Successful", "status": "True", "message": None}, {"type": "Running", "status": True}]
    lowered = mark_error(found, "x", now=NOW)
    assert [(entry["reason"], entry["message"]) for entry in lowered[:2]] == [("", ""), ("", "")]


def test_duplicates_of_ours_are_reduced_to_the_first() -> None:
    """A type of ours that is there twice is there once afterwards; duplicates of others are left alone."""
    found = [*succeeded(), {"type": "Running", "status": "False"}, {"type": "Other"}, {"type": "Other"}]
    assert [entry["type"] for entry in mark_running(found, LATER)] == [
        "Running",
        "Successful",
        "Failure",
        "Other",
        "Other",
    ]


def test_times_are_written_in_utc_with_whole_seconds() -> None:
    """A time in another zone is written as UTC, to the second, with Z."""
    now = datetime(2026, 3, 1, 14, 0, 0, 900000, tzinfo=timezone(timedelta(hours=2)))
    assert mark_running([], now)[0]["lastTransitionTime"] == T_NOW


def test_a_long_message_is_cut_with_a_mark() -> None:
    """A Failure message is never longer than 8 KiB, and a cut shows."""
    outcome = Outcome(success=False, failures=("x" * 5000, "y" * 5000), started=NOW, finished=NOW)
    message = of_type(mark_done([], outcome, generation=1, now=NOW), "Failure")["message"]
    assert len(message.encode()) == 8192
    assert message.endswith(CUT_MARK)
    assert len(of_type(mark_error([], "x" * 9000, now=NOW), "Failure")["message"].encode()) == 8192


@pytest.mark.parametrize("limit", range(30, 40))
def test_a_cut_never_splits_a_character(limit: int) -> None:
    """The cut comes before a character that does not fit as a whole."""
    cut = cut_message("é€😀" * 20, limit=limit)
    assert limit - 3 <= len(cut.encode()) <= limit
    assert cut.removesuffix(CUT_MARK) in "é€😀" * 20


def test_a_message_at_the_limit_is_whole() -> None:
    """A message of exactly the limit is not touched."""
    assert cut_message("é" * 10, limit=20) == "é" * 10


def test_text_that_is_no_unicode_can_be_sent() -> None:
    """A lone surrogate, which JSON cannot carry as UTF-8, becomes a question mark."""
    assert cut_message("bad \udcff byte", limit=100) == "bad ? byte"


@pytest.mark.parametrize("status", [None, [], "x", {}, {"conditions": None}, {"conditions": {"a": 1}}])
def test_an_object_without_usable_conditions_has_none(status: object) -> None:
    """Whatever status is, reading conditions does not fail."""
    assert conditions_found({"status": status}) == []
    assert conditions_found({}) == []


def test_a_pause_stands_beside_what_the_last_run_left_and_goes_with_the_next_run() -> None:
    """Paused has its own time, keeps it, changes nothing else, and only ours is taken away when a run starts."""
    paused = mark_paused(succeeded(), "stopped", now=LATER)
    assert paused[:-1] == succeeded()
    assert paused[-1] == {
        "type": "Paused",
        "status": "True",
        "lastTransitionTime": T_LATER,
        "reason": "AnnotationSet",
        "message": "stopped",
    }
    assert mark_paused(paused, "stopped", now=LATER + timedelta(hours=1)) == paused
    assert mark_running(paused, LATER) == mark_running(succeeded(), LATER)
    theirs = {"type": "Paused", "status": "True", "reason": "Budget"}
    assert theirs in mark_running([theirs], NOW)
