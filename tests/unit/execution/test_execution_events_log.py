"""The log of a run's events: modes, quiet tasks, and never a task's arguments."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from runner.execution.events_log import VERBOSITY_ANNOTATION, EventLog, print_whole_output
from runner.logs import Logger, RecordingSink
from runner.testing.executor import run_request

CANARY = "canary"


def _event(kind: str, *, action: str = "command", stdout: str = "", **data: Any) -> dict[str, Any]:
    data = {"task": "Do it", "task_action": action, "task_args": f"password={CANARY}", **data}
    return {"event": kind, "stdout": stdout, "event_data": data}


EVENTS = [
    {"event": "playbook_on_play_start", "stdout": "PLAY", "event_data": {"play": "all"}},
    _event("playbook_on_task_start", stdout="TASK [Do it]", name="Do it"),
    _event("playbook_on_task_start", action="ansible.builtin.debug", stdout="TASK [say]", name="say"),
    _event("runner_on_ok", action="ansible.builtin.debug", stdout="ok: hello"),
    _event("runner_on_ok", stdout="ok: quiet"),
    _event("runner_item_on_ok", stdout="ok: item"),
    _event("runner_on_failed", stdout="fatal: broken", task_path="/roles/x:3"),
    {"event": "playbook_on_stats", "stdout": "PLAY RECAP", "event_data": {}},
]


def _logged(*, mode: str, annotations: dict[str, str] | None = None, environ: Any = None) -> tuple[RecordingSink, str]:
    sink, stdout = RecordingSink(), io.StringIO()
    log = EventLog(logger=Logger(sink=sink), mode=mode, environ=environ, stdout=stdout)
    request = run_request()
    metadata = {**request.obj["metadata"], "annotations": annotations or {}}
    for event in EVENTS:
        log(replace(request, obj={**request.obj, "metadata": metadata}), event)
    return sink, stdout.getvalue()


def test_tasks_are_logged_with_the_keys_of_the_run() -> None:
    """Starts of tasks, results of debug and failures are lines; set_fact and debug don't start one."""
    sink, printed = _logged(mode="tasks")
    assert sink.sentences() == ["[playbook task start]", "[playbook debug]", "[playbook task failed]"]
    assert [record["level"] for record in sink.records] == ["info", "info", "error"]
    expected = {"job": "1", "name": "probe", "namespace": "default", "task": "Do it"}
    assert {key: sink.records[0][key] for key in expected} == expected
    assert sink.records[0]["gvk"] == "bugs.example.com/v1, Kind=Probe"
    assert "ok: item" in printed
    assert "ok: quiet" not in printed
    assert "PLAY RECAP" in printed


def test_nothing_means_the_recap_only() -> None:
    """With `nothing` only the recap is printed."""
    sink, printed = _logged(mode="nothing")
    assert sink.records == []
    assert "PLAY RECAP" in printed
    assert "hello" not in printed


def test_everything_logs_each_event() -> None:
    """With `everything` each event but the recap is a line."""
    sink, printed = _logged(mode="Everything")
    assert len(sink.records) == len(EVENTS) - 1
    assert "ok: quiet" in printed


@pytest.mark.parametrize("mode", ["nothing", "tasks", "everything"])
def test_arguments_of_tasks_are_never_logged(mode: str) -> None:
    """No mode repeats what a task was given (field case S1)."""
    sink, printed = _logged(mode=mode)
    assert CANARY not in str(sink.records)
    assert CANARY not in printed


@pytest.mark.parametrize(
    ("annotations", "environ"), [({VERBOSITY_ANNOTATION: "2"}, None), (None, {"ANSIBLE_VERBOSITY": "1"})]
)
def test_a_verbosity_of_the_users_prints_ansibles_text_only(annotations: Any, environ: Any) -> None:
    """With the annotation or $ANSIBLE_VERBOSITY, tasks are printed as Ansible words them, without lines of ours."""
    sink, printed = _logged(mode="tasks", annotations=annotations, environ=environ)
    assert sink.records == []
    assert "ok: quiet" in printed
    assert "Ansible Task StdOut" not in printed


def test_a_play_without_hosts_is_told() -> None:
    """The run is a success, so the log says that nothing was done."""
    sink = RecordingSink()
    log = EventLog(logger=Logger(sink=sink), stdout=io.StringIO())
    log(run_request(), {"event": "playbook_on_no_hosts_matched", "event_data": {}})
    assert sink.sentences() == ["No host matched: no task ran"]


def test_the_whole_output_can_be_printed() -> None:
    """What ANSIBLE_DEBUG_LOGS asks for names the object, and ends with the output."""
    stdout = io.StringIO()
    print_whole_output(run_request(), output="all of it", stdout=stdout)
    assert "(bugs.example.com/v1, Kind=Probe, probe/default)" in stdout.getvalue()
    assert "all of it" in stdout.getvalue()
