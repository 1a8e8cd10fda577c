"""`ansible-operator run` as a process: real watches.yaml, real roles, real signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.execution.processes import in_use
from runner.localdev.plane import ControlPlane
from runner.settings import environment
from runner.testing.cluster import wait_until
from runner.testing.processes import processes_with
from tests.integration.operator.conftest import Project, StartOperator


async def test_a_role_runs_and_the_status_tells(project: Project, start: StartOperator) -> None:
    """An object is run by its role through ansible-runner, and ansibleResult counts the tasks."""
    start()
    await project.create("one")
    await wait_until(lambda: project.successful("one"), what="Successful")
    result = (await project.conditions("one"))["Running"]["ansibleResult"]
    assert (result["ok"], result["changed"], result["failures"], result["skipped"]) == (2, 2, 0, 2)
    assert [row[:2] for row in project.runs()] == [["start", "one"], ["end", "one"]]


async def test_a_failing_task_is_told_with_its_message(project: Project, start: StartOperator) -> None:
    """The Failure condition carries the task's message; a spec edit that mends it is run at once."""
    start()
    await project.create("one", broken=True)
    await wait_until(lambda: _failure_has(project, "one", "asked to fail"), what="Failure")
    await project.patch("one", {"spec": {"broken": False}})
    await wait_until(lambda: project.successful("one", generation=2), what="Successful")
    assert (await project.conditions("one"))["Failure"]["status"] == "False"


async def test_sigterm_lets_the_run_finish_and_exits_0(project: Project, start: StartOperator) -> None:
    """A stopped operator waits for the run that is under way, writes its status, and exits 0."""
    operator = start()
    await project.create("one", seconds=2)
    await wait_until(lambda: _noted(project, "start"), what="the run to start")
    assert operator.stop() == 0
    assert project.count("end") == 1
    assert await project.successful("one")


async def test_the_grace_period_ends_a_long_run_and_leaves_no_process(project: Project, start: StartOperator) -> None:
    """A run that outlives the grace period is ended with its processes, its object tells, and the exit code is 1."""
    operator = start("--graceful-shutdown-timeout=1s")
    await project.create("one", seconds=97531)
    await wait_until(lambda: _noted(project, "start"), what="the run to start")
    await wait_until(lambda: _is(processes_with("sleep 97531")), what="the sleep of the role")
    assert operator.stop() == 1
    assert "failed waiting for all runnables to end within grace period of 1s" in operator.tail()
    assert not processes_with("sleep 97531")
    assert (await project.conditions("one"))["Running"]["status"] == "False"
    assert await _failure_has(project, "one", "ended this run at the end of its grace period")
    assert not processes_with(f"/{project.group}/")


async def test_a_second_signal_ends_everything_at_once(project: Project, start: StartOperator) -> None:
    """The second SIGTERM exits 1 without waiting, and leaves neither a play nor a kubeconfig behind."""
    operator = start()
    await project.create("one", seconds=97533)
    await wait_until(lambda: _is(processes_with("sleep 97533")), what="the sleep of the role")
    operator.signal(signal.SIGTERM)
    await wait_until(lambda: _is("a second one ends" in operator.tail()), what="the first signal to be taken")
    operator.signal(signal.SIGTERM)
    assert operator.wait() == 1
    await wait_until(lambda: _is(not processes_with("sleep 97533")), what="the play to be gone")
    assert not list(project.folder.glob("ansible-operator-run-*"))
    assert not list(project.folder.glob("ansible-operator-kube-*"))


@pytest.mark.parametrize("executor", ["cold", "warm"])
async def test_leftovers_of_a_killed_operator_are_swept(project: Project, start: StartOperator, executor: str) -> None:
    """The next one removes the scratch folder and kubeconfig of a killed one, whose cold play goes on to its end."""
    operator = start("--executor", executor)
    await project.create("one", seconds=2)
    await wait_until(lambda: _noted(project, "start"), what="the run to start")
    (left,) = project.folder.glob("ansible-operator-run-*")
    used = [left, *project.folder.glob("ansible-operator-warm-*")]  # a forked play tells the fork server's folder
    operator.kill()
    if executor == "cold":
        await wait_until(lambda: _is(project.count("end") == 1), what="the orphaned play to end")
    await wait_until(lambda: _is(not any(map(in_use, used))), what="its processes to be gone")
    start()
    await wait_until(lambda: _is(not left.exists()), what="the folder to be swept")


async def test_a_killed_operator_starts_again_where_it_was(project: Project, start: StartOperator) -> None:
    """An object whose run died with the operator is run again by the next one, and ends Successful."""
    operator = start()
    await project.create("one", seconds=3)
    await wait_until(lambda: _noted(project, "start"), what="the run to start")
    operator.kill()
    start()
    await wait_until(lambda: project.successful("one"), what="Successful")
    assert project.count("start") == 2


async def test_readiness_is_told(project: Project, start: StartOperator) -> None:
    """The probe turns ready once the kind was listed."""
    operator = start()
    await wait_until(lambda: _is(operator.ready()), what="readiness")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "Failed to get config file"),
        ("kind: Task\n", "list"),
        ("- version: v1\n  group: g.example.com\n  kind: Task\n  role: nosuch\n", "role: nosuch was not found"),
        ("- version: v1\n  group: g.example.com\n  kind: Task\n", "must specify Role or Playbook"),
        (
            "- {version: v1, group: g.example.com, kind: Task, role: task}\n" * 2,
            "duplicate GVK: g.example.com/v1, Kind=Task",
        ),
        ("- {version: v1, group: g.example.com, kind: Task, role: task, reconcilePeriod: soon}\n", "reconcilePeriod"),
        ("- {version: v1\n", "line"),
    ],
    ids=["missing", "no-list", "unknown-role", "nothing-to-run", "duplicate", "bad-duration", "bad-yaml"],
)
async def test_a_wrong_watches_file_ends_the_start_with_a_sentence(
    project: Project, plane: ControlPlane, text: str | None, sentence: str
) -> None:
    """A watches file that cannot be used ends `run` with exit code 1 and one line that names file and fault."""
    watches = project.folder / "watches.yaml"
    if text is None:
        watches.unlink()
    else:
        watches.write_text(text)
    done = _run_to_the_end(project.folder, plane=plane)
    assert done.returncode == 1
    errors = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    (error,) = [record for record in errors if record["level"] == "error"]
    whole = json.dumps(error)
    assert sentence in whole
    assert "watches.yaml" in whole
    assert "Traceback" not in done.stderr


async def test_an_empty_watches_file_is_a_valid_start(project: Project, start: StartOperator) -> None:
    """No watches are a running operator without work, as with the peer."""
    (project.folder / "watches.yaml").write_text("")
    operator = start()
    await wait_until(lambda: _is(operator.ready()), what="readiness")
    assert operator.stop() == 0


def _run_to_the_end(folder: Path, *, plane: ControlPlane) -> subprocess.CompletedProcess[str]:
    environ = {**environment(), "KUBECONFIG": str(plane.kubeconfig)}
    argv = [sys.executable, "-m", "runner", "run", "--health-probe-bind-address=0", "--proxy-port=0"]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=120)


async def _failure_has(project: Project, name: str, text: str) -> bool:
    failure = (await project.conditions(name)).get("Failure", {})
    return failure.get("status") == "True" and text in failure["message"]


async def _noted(project: Project, word: str) -> bool:
    return project.count(word) > 0


async def _is(condition: object) -> bool:
    return bool(condition)
