"""The comparer itself: it sees each kind of difference, and takes runs for equal that differ only in what is masked."""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runner.execution.executor import Outcome
from tests.integration.equality.recording import Ran, Recording, differences, record

Change = Callable[[Path, list[dict[str, Any]]], object]
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def _events(pid: int) -> list[dict[str, Any]]:
    """Return two events of a run, the second a child of the first."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    common = {"pid": pid, "created": f"2026-11-30T00:00:{pid % 60:02}.{pid:06}+00:00", "start_line": 0, "end_line": 1}
    result = {"changed": False, "tmp": f"/home/.ansible/tmp/ansible-tmp-17.{pid}-{pid}-{pid}", "n": 1}
    return [
        {"uuid": first, "counter": 1, "event": "playbook_on_start", "stdout": "", **common},
        {
            "uuid": second,
            "counter": 2,
            "event": "runner_on_ok",
            "stdout": "ok",
            "parent_uuid": first,
            "event_data": {"host": "localhost", "duration": pid / 7, "res": result},
            **common,
        },
    ]


def _recorded(root: Path, *, pid: int, change: Change = lambda *_: None, asking: bool = False) -> Recording:
    """Record a run that left two events, one file and an artifact, after *change* had its way with them."""
    ident = str(secrets.randbits(63))
    artifacts = root / "runner/x/artifacts" / ident
    for folder in (artifacts / "job_events", root / "out", root / "witness"):
        folder.mkdir(parents=True)
    events = _events(pid)
    (root / "out/made").write_text(f"in {root} by {ident}\n")
    (root / "out/made").chmod(0o644)
    change(root, events)
    for event in events:
        (artifacts / "job_events" / f"{event['counter']}-{event['uuid']}.json").write_text(json.dumps(event))
    outcome = Outcome(success=True, rc=0, started=NOW, finished=datetime.now(UTC), artifacts=artifacts)
    ran = Ran(name="x", ident=ident, root=root, scratch=root / "gone", outcome=outcome, seen=events, asking=asking)
    return record(ran)


def test_two_runs_that_differ_only_in_ids_and_times_are_equal(tmp_path: Path) -> None:
    """Ids, process ids, times, temporary names, the run's own id and the root are no differences."""
    cold, warm = (_recorded(tmp_path / name, pid=pid) for name, pid in (("cold", 7), ("warm", 11)))
    assert differences(cold, warm) == []


def test_where_a_time_limit_met_ansible_is_no_difference(tmp_path: Path) -> None:
    """A task whose time is up is interrupted wherever Ansible is then; that it was, and after how long, must agree."""

    def interrupted(line: int, period: int = 1) -> Change:
        frame = f"<frame at 0x7f12345{line:05}, file '/usr/lib/ansible/executor.py', line {line}, code poll{line}>"
        told = {"timedout": {"frame": frame, "period": period}}
        return lambda _, events: events[1]["event_data"]["res"].update(told)

    cold, warm, later = (
        _recorded(tmp_path / str(number), pid=7, change=change)
        for number, change in enumerate((interrupted(416), interrupted(57), interrupted(57, period=2)))
    )
    assert differences(cold, warm) == []
    assert '"period": 2' in "".join(differences(cold, later))


def test_a_warning_that_is_wrapped_within_the_root_is_the_same(tmp_path: Path) -> None:
    """Ansible breaks a long path wherever the line is full."""

    def warn(root: Path, events: list[dict[str, Any]]) -> None:
        events[0].update(stdout=f"\x1b[0;35m{str(root)[:20]}\x1b[0m\r\n\x1b[0;35m{str(root)[20:]}/play.yml\x1b[0m")

    cold, warm = (_recorded(tmp_path / name, pid=7, change=warn) for name in ("cold", "warm"))
    assert differences(cold, warm) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda _, events: events[1]["event_data"]["res"].update(n=2), '"n": 2', id="result"),
        pytest.param(lambda _, events: events[1].update(stdout="ok "), '"stdout": "ok "', id="output"),
        pytest.param(lambda _, events: events[1].update(parent_uuid=str(uuid.uuid4())), "<id 3>", id="parent"),
        pytest.param(lambda _, events: events[0].update(pid="7"), '"pid": "', id="type"),
        pytest.param(lambda _, events: events.append({**events[1], "counter": 3}), "event 0002", id="one more event"),
        pytest.param(lambda root, _: (root / "out/made").write_text("other"), "other", id="content"),
        pytest.param(lambda root, _: (root / "out/made").chmod(0o640), "-rw-r----- out/made", id="mode"),
        pytest.param(lambda root, _: (root / "out/more").write_bytes(b"\xff"), "out/more", id="one more file"),
        pytest.param(lambda root, _: (root / "gone/left").mkdir(parents=True), "gone/left", id="scratch folder"),
        pytest.param(lambda root, _: (root / "out/link").symlink_to("made"), "out/link -> made", id="link"),
    ],
)
def test_each_other_difference_is_told(tmp_path: Path, change: Change, told: str) -> None:
    """A result, an output, a relation, a type, an event, a file, a mode or a folder that is left is a difference."""
    cold = _recorded(tmp_path / "cold", pid=7)
    warm = _recorded(tmp_path / "warm", pid=11, change=change)
    lines = differences(cold, warm)
    assert any(told in line for line in lines), lines


def _ask_once(_: Path, events: list[dict[str, Any]]) -> None:
    events[1].update(stdout='ok {"attempts": 1, "n": 1}')


def _ask_once_more(_: Path, events: list[dict[str, Any]]) -> None:
    events.insert(1, {**events[1], "event": "runner_retry", "uuid": str(uuid.uuid4())})
    events[2].update(counter=3, stdout='ok {"attempts": 2, "n": 1}')


def test_how_often_a_task_asked_matters_only_where_the_case_says_that_it_does_not(tmp_path: Path) -> None:
    """One more try is a difference, but for a case that asks until something is there."""
    for asking in (False, True):
        once, twice = (
            _recorded(tmp_path / f"{name}{asking}", pid=7, change=change, asking=asking)
            for name, change in (("cold", _ask_once), ("warm", _ask_once_more))
        )
        assert bool(differences(once, twice)) is not asking, differences(once, twice)


def test_events_of_several_hosts_may_come_in_another_order_but_not_with_other_results(tmp_path: Path) -> None:
    """With several hosts only the order among them is free."""
    hosts = [{"event": "runner_on_ok", "event_data": {"host": name, "res": {"n": name}}} for name in ("a", "b")]

    def recorded(side: str, *, events: list[dict[str, Any]]) -> Recording:
        root = tmp_path / side
        folder = root / "runner/x/artifacts/5/job_events"
        for path in (folder, root / "witness"):
            path.mkdir(parents=True)
        numbered = [{**event, "counter": number, "uuid": str(number)} for number, event in enumerate(events)]
        for event in numbered:
            (folder / f"{event['counter']}-x.json").write_text(json.dumps({**event, "uuid": "same"}))
        seen = [{**event, "uuid": "same"} for event in numbered]
        return record(Ran(name="x", ident="5", root=root, scratch=None, outcome="", seen=seen, unordered=True))

    cold = recorded("cold", events=hosts)
    assert differences(cold, recorded("warm", events=hosts[::-1])) == []
    hosts[1]["event_data"] = {"host": "b", "res": {"n": "c"}}
    assert differences(cold, recorded("late", events=hosts[::-1])) != []
