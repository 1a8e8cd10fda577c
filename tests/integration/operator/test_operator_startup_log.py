"""The start-up log of a real process: which lines, in which order, with which fields."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from runner.testing.cluster import wait_until
from tests.integration.operator.conftest import Project, StartOperator

HEADER = ["level", "ts", "logger", "msg"]
VERSION = ["Python Version", "GOOS", "GOARCH", "ansible-operator", "commit"]
WATCH = [
    *("gvk", "playbook", "role", "workers", "workersFrom", "verbosity", "verbosityFrom"),
    *("reconcilePeriod", "reconcilePeriodFrom", "finalizer", "manageStatus", "selector", "namespaces", "markUnsafe"),
    *("executor", "executorFrom"),
]


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the only operator that ran in *folder*."""
    (log,) = folder.glob("operator-*.log")
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


async def ready(start: StartOperator, *arguments: str) -> None:
    """Start the operator and wait until it serves."""
    operator = start(*arguments)

    async def answers() -> bool:
        return operator.ready()

    await wait_until(answers, what="readiness")


async def test_the_start_is_told_in_order_with_the_fields_of_each_line(project: Project, start: StartOperator) -> None:
    """Version, what the flags lead to, each watch, warnings of templates; no line below info, every one JSON."""
    (project.folder / "watches.yaml").write_text(
        dedent(f"""\
        - {{group: {project.group}, version: v1, kind: Task, role: task, reconcilePeriod: 1m, markUnsafe: true}}
        - {{group: {project.group}, version: v2, kind: Task, role: task, maxWorkers: 3}}
        """)
    )
    await ready(start, "--max-concurrent-reconciles=3", "--zap-time-encoding=rfc3339nano")
    told = records(project.folder)

    version, namespaces, note, first, second, warning = told[:6]
    assert [record["msg"] for record in (version, namespaces, note, first, second)] == [
        "Version",
        "Watching namespaces",
        "A note on the watches file",
        "Watch",
        "Watch",
    ]
    assert list(version) == [*HEADER, *VERSION]
    assert "line 2: unknown key maxWorkers is ignored" in note["note"]
    assert note["level"] == "warn"
    assert list(first) == list(second) == [*HEADER, *WATCH]
    assert (first["gvk"], first["role"]) == (f"{project.group}/v1, Kind=Task", str(project.folder / "roles/task"))
    assert (first["workers"], first["workersFrom"]) == (3, "--max-concurrent-reconciles")
    assert (first["reconcilePeriod"], first["reconcilePeriodFrom"]) == ("1m0s", "watches.yaml")
    assert (second["reconcilePeriod"], second["reconcilePeriodFrom"]) == ("10h0m0s", "default")
    assert second["namespaces"] == [project.namespace]
    assert (warning["level"], warning["gvk"]) == ("warn", second["gvk"])
    assert [record["msg"] for record in told].count(warning["msg"]) == 1
    (proxy,) = [record for record in told if record["msg"].startswith("Serving the proxy")]
    assert proxy["port"] > 0
    assert "with the operator's rights; ansible_operator_proxy_requests_total counts" in proxy["msg"]
    assert len({record["ts"] for record in told}) > 1
    assert not any("stacktrace" in record for record in told)


async def test_development_mode_speaks_to_a_person(project: Project, start: StartOperator) -> None:
    """`--zap-devel` writes the console format: no line of the start is JSON."""
    await ready(start, "--zap-devel")
    (log,) = project.folder.glob("operator-*.log")

    lines = log.read_text().splitlines()
    assert lines[0].split("\t")[1:4] == ["INFO", "cmd", "Version"]
    assert records(project.folder) == []


async def test_a_run_is_told_in_the_peers_words(project: Project, start: StartOperator) -> None:
    """Each task that starts, in its order and with Ansible's text around it, and how the run ended."""
    await ready(start)
    await project.create("one", broken=True)

    async def failed() -> bool:
        return any(record["msg"] == "Ansible-runner failed" for record in records(project.folder))

    await wait_until(failed, what="the end of the run")
    told = records(project.folder)
    starts = [record["EventData.Name"] for record in told if record["msg"] == "[playbook task start]"]
    assert starts[:3] == ["task : Note the start", "task : Take a while", "task : Fail where asked to"]
    failure = next(record for record in told if record["msg"] == "[playbook task failed]")
    assert failure["EventData.Task"] == "Fail where asked to"
    assert failure["EventData.FailedTaskPath"].startswith(f"{project.folder}/roles/task/tasks/main.yml:")
    ended = next(record for record in told if record["msg"] == "Ansible-runner failed")
    assert (ended["logger"], ended["level"], ended["error"]) == ("runner", "error", "exit status 2")
    assert ended["failures"] == ["asked to fail"]
    (log,) = project.folder.glob("operator-*.log")
    assert f"Ansible Task Status Event StdOut ({project.group}/v1, Kind=Task, one/" in log.read_text()
