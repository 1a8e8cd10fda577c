"""The log of a run's events: modes, quiet tasks, and never a task's arguments."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from runner.execution.events_log import EventLog, print_whole_output
from runner.execution.overrides import VERBOSITY_ANNOTATION
from runner.logs import Logger, RecordingSink
from runner.testing.executor import run_request

CANARY = "canary"
GVK = "bugs.example.com/v1, Kind=Probe"
HEAD = "--------------------------- Ansible Task StdOut -------------------------------"
FOOT = "-" * 79


def _event(kind: str, *, action: str = "command", stdout: str = "", **data: Any) -> dict[str, Any]:
    data = {
        "task": "Do it",
        "task_action": action,
        "task_args": f"password={CANARY}",
        "res": {"changed": False, "invocation": {"module_args": {"password": CANARY}}},
        **data,
    }
    return {"event": kind, "stdout": stdout, "event_data": data}


EVENTS = [
    {"event": "playbook_on_play_start", "stdout": "PLAY", "event_data": {"play": "all"}},
    _event("playbook_on_task_start", stdout="TASK [Do it]", name="Do it"),
    _event("playbook_on_task_start", action="ansible.builtin.debug", stdout="TASK [say]", name="say"),
    _event("runner_on_ok", action="ansible.builtin.debug", stdout="ok: hello"),
    _event("runner_on_ok", stdout="ok: quiet"),
    _event("runner_item_on_ok", stdout="ok: item"),
    _event("runner_on_failed", stdout="fatal: broken", task_path="/roles/x:3"),
    {"event": "playbook_on_stats", "stdout": "PLAY RECAP", "event_data": {"artifact_data": {"password": CANARY}}},
]


def _logged(
    *events: dict[str, Any], mode: str = "tasks", annotations: dict[str, str] | None = None, environ: Any = None
) -> tuple[RecordingSink, str]:
    sink, stdout = RecordingSink(), io.StringIO()
    log = EventLog(logger=Logger(sink=sink), mode=mode, environ=environ, stdout=stdout)
    request = run_request()
    metadata = {**request.obj["metadata"], "annotations": annotations or {}}
    for event in events or EVENTS:
        log(replace(request, obj={**request.obj, "metadata": metadata}), event)
    return sink, stdout.getvalue()


def test_tasks_are_logged_in_the_peers_words_and_order() -> None:
    """Starts of tasks, results of debug and failures are lines; set_fact and debug don't start one."""
    sink, printed = _logged()
    common = {"name": "probe", "namespace": "default", "gvk": GVK}
    failed = "[playbook task failed]"
    lines = [list({key: value for key, value in record.items() if key != "ts"}.items()) for record in sink.records]
    assert [line[1:] for line in lines] == [
        [("logger", "logging_event_handler"), ("msg", msg), *common.items(), ("event_type", kind), ("job", "1"), *rest]
        for msg, kind, rest in [
            ("[playbook task start]", "playbook_on_task_start", [("EventData.Name", "Do it")]),
            ("[playbook debug]", "runner_on_ok", []),
            (
                failed,
                "runner_on_failed",
                [("EventData.Task", "Do it"), ("EventData.FailedTaskPath", "/roles/x:3"), ("error", failed)],
            ),
        ]
    ]
    assert [record["level"] for record in sink.records] == ["info", "info", "error"]
    assert "ok: quiet" not in printed


def test_a_failure_that_the_play_ignores_is_no_error() -> None:
    """It is told at info, marked as ignored, with its place."""
    event = _event("runner_on_failed", stdout="fatal: ...ignoring", task_path="/roles/x:3")
    event["event_data"]["ignore_errors"] = True
    (record,) = _logged(event)[0].records
    assert (record["level"], record["msg"], record["ignored"]) == ("info", "[playbook task failed]", True)
    assert (record["EventData.FailedTaskPath"], "error" in record) == ("/roles/x:3", False)


def test_ansibles_text_is_printed_in_the_peers_blocks() -> None:
    """A task's start is the text alone; what a task said stands below its name."""
    _, printed = _logged(EVENTS[1], EVENTS[6])
    assert printed == (
        f"\n{HEAD}\nTASK [Do it]\n\n{FOOT}\n"
        f"\n{HEAD}\n\n TASK [Do it] ******************************** \nfatal: broken\n\n{FOOT}\n"
    )


def test_the_recap_is_printed_in_the_peers_block() -> None:
    """It names kind, name and namespace, in the peer's order and width."""
    _, printed = _logged(EVENTS[-1])
    title = f"Ansible Task Status Event StdOut ({GVK}, probe/default)"
    assert printed == f"\n----- {title.rjust(70)} -----\n\nPLAY RECAP\n\n----------\n"


@pytest.mark.parametrize("event", [_event("runner_on_ok", action="debug"), {"event": "playbook_on_stats"}])
def test_nothing_is_printed_around_nothing(event: dict[str, Any]) -> None:
    """An event without text makes no block."""
    assert _logged(event)[1] == ""


@pytest.mark.parametrize("prefix", ["", "ansible.builtin.", "ansible.legacy."])
def test_debug_and_set_fact_are_quiet_under_every_name_of_theirs(prefix: str) -> None:
    """No line tells that they start; a debug module of somebody else is an ordinary task."""
    start = "playbook_on_task_start"
    sink, _ = _logged(*(_event(start, action=f"{prefix}{name}") for name in ("debug", "set_fact")))
    assert sink.records == []
    assert len(_logged(_event(start, action="my.own.debug"))[0].records) == 1


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "hello", "changed": False, "_ansible_verbose_always": True}, "msg=hello"),
        ({"msg": ["a", 1]}, 'msg=["a", 1]'),
        ({"web": {"port": 1}, "failed": False}, 'web={"port": 1}'),
        ({"censored": "the output has been hidden", "changed": False}, None),
        ({"results": [{"msg": "in a loop"}], "msg": "All items completed"}, None),
        ("odd", None),
    ],
)
def test_a_debug_line_tells_what_debug_printed(result: Any, text: str | None) -> None:
    """The message or the variable, but nothing that `no_log` hides."""
    sink, _ = _logged(_event("runner_on_ok", action="debug", res=result))
    assert sink.records[0].get("EventData.TaskArgs") == text


def test_nothing_means_the_recap_only() -> None:
    """With `nothing` only the recap is printed."""
    sink, printed = _logged(mode="nothing")
    assert sink.records == []
    assert "PLAY RECAP" in printed
    assert "hello" not in printed


def test_everything_logs_each_event() -> None:
    """With `everything` each event is a line with its data, and each text a block, the recap's once."""
    sink, printed = _logged(mode="Everything")
    assert [record["event_type"] for record in sink.records] == [event["event"] for event in EVENTS]
    assert sink.records[1]["EventData"] == {"task": "Do it", "task_action": "command", "name": "Do it"}
    assert "ok: quiet" in printed
    assert printed.count("PLAY RECAP") == 1


@pytest.mark.parametrize("mode", ["nothing", "tasks", "everything"])
def test_diffs_of_files_are_never_logged(mode: str) -> None:
    """No line of ours repeats what a file held or holds (field case S1)."""
    sink, _ = _logged(_event("runner_on_file_diff", diff=[{"before": CANARY, "after": f"new {CANARY}"}]), mode=mode)
    assert CANARY not in str(sink.records)
    assert len(sink.records) == (mode == "everything")


@pytest.mark.parametrize("mode", ["nothing", "tasks", "everything"])
def test_arguments_of_tasks_are_never_logged(mode: str) -> None:
    """No mode repeats what a task was given, nor its results, which repeat it too (field case S1)."""
    sink, printed = _logged(mode=mode)
    assert CANARY not in str(sink.records)
    assert CANARY not in printed


@pytest.mark.parametrize(
    ("annotations", "environ"), [({VERBOSITY_ANNOTATION: "2"}, None), (None, {"ANSIBLE_VERBOSITY": "1"})]
)
def test_a_verbosity_of_the_users_prints_ansibles_text_only(annotations: Any, environ: Any) -> None:
    """With the annotation or $ANSIBLE_VERBOSITY, tasks are printed as Ansible words them, without lines of ours."""
    sink, printed = _logged(annotations=annotations, environ=environ)
    assert sink.records == []
    assert "ok: quiet" in printed
    assert "Ansible Task StdOut" not in printed


@pytest.mark.parametrize("text", ["0", "-1", "many", " 5", "1_0", ""])
def test_a_verbosity_that_is_no_positive_number_changes_nothing(text: str) -> None:
    """Tasks are logged as ever, as the run keeps its own verbosity too."""
    assert len(_logged(annotations={VERBOSITY_ANNOTATION: text})[0].records) == 3


def test_a_play_without_hosts_is_told() -> None:
    """The run is a success, so the log says that nothing was done."""
    sink, _ = _logged({"event": "playbook_on_no_hosts_matched", "event_data": {}})
    assert sink.sentences() == ["No host matched: no task ran"]


def test_the_whole_output_can_be_printed() -> None:
    """What ANSIBLE_DEBUG_LOGS asks for names the object, and ends with the output."""
    stdout = io.StringIO()
    print_whole_output(run_request(), output="all of it", stdout=stdout)
    title = f"Ansible Debug Result ({GVK}, probe/default)"
    assert stdout.getvalue() == f"\n----- {title.rjust(70)} -----\n\nall of it\n\n----------\n"
