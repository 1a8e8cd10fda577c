"""Python handlers in `ansible-operator run` as a process: a mistake, a role that reads what they publish, an end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from textwrap import dedent

import pytest

from runner.localdev.plane import ControlPlane
from runner.settings import environment
from runner.testing.cluster import wait_until
from tests.integration.operator.conftest import Project, StartOperator

TASKS = """
import kopf
from runner.handlers import published

@kopf.index("tasks.GROUP")
async def tasks(name, spec, **_):
    return {name: spec.get("team", "none")}

@published
def teams(*, tasks, **_):
    return {name: sorted(teams) for name, teams in tasks.items()}
"""
DEAF = """
import time

@kopf.on.event("tasks.GROUP")
def sleep(logger, **_):
    logger.info("going to sleep")
    time.sleep(9999)
"""
ROLE = """
- name: Note what handlers know
  ansible.builtin.copy:
    content: "{{ ansible_operator_handlers.teams | to_json }}"
    dest: FOLDER/teams.json
"""


@pytest.fixture
def with_handlers(project: Project) -> Project:
    """Give the project a file of handlers beside its role, which reads what they publish."""
    watches = project.folder / "watches.yaml"
    watches.write_text(watches.read_text() + "  handlers: handlers/tasks.py\n  markUnsafe: true\n")
    (project.folder / "handlers").mkdir()
    _write(project, TASKS)
    main = project.folder / "roles" / "task" / "tasks" / "main.yml"
    main.write_text(main.read_text() + dedent(ROLE).replace("FOLDER", str(project.folder)))
    return project


@pytest.mark.parametrize("executor", ["cold", "warm"])
async def test_a_role_reads_what_handlers_publish(with_handlers: Project, start: StartOperator, executor: str) -> None:
    """The variable has the values of the moment, and text from the cluster in it is never a template."""
    project = with_handlers
    await project.create("one", team="{{ 6 * 7 }}")
    operator = start(f"--executor={executor}")
    await wait_until(lambda: project.successful("one"), what="Successful", limit=240)
    assert json.loads((project.folder / "teams.json").read_text()) == {"one": ["{{ 6 * 7 }}"]}
    assert "handlers" not in (await project.get("one"))["metadata"].get("annotations", {})
    await wait_until(lambda: _is(operator.ready()), what="readiness")
    assert operator.stop() == 0
    assert '"msg":"The Python handlers have ended"' in operator.tail()


async def test_a_handler_that_never_returns_does_not_hold_the_process(
    with_handlers: Project, start: StartOperator
) -> None:
    """A thread of a handler that sleeps costs the grace period; then the process is gone, with exit code 1."""
    project = with_handlers
    _write(project, TASKS + DEAF)
    operator = start("--graceful-shutdown-timeout=1s")
    await project.create("one")
    await wait_until(lambda: _is("going to sleep" in operator.tail(100)), what="the handler to be called")
    await wait_until(lambda: project.successful("one"), what="Successful", limit=240)
    assert operator.stop() == 1
    assert "failed waiting for all runnables to end within grace period of 1s" in operator.tail()


async def test_a_broken_file_ends_the_start_with_its_line(with_handlers: Project, plane: ControlPlane) -> None:
    """Exit code 1, and one record that names file, line and remedy."""
    project = with_handlers
    _write(project, TASKS + "\nprint(undefined)\n")
    line = len(TASKS.splitlines()) + 2
    environ = {**environment(), "KUBECONFIG": str(plane.kubeconfig), "TMPDIR": str(project.folder)}
    argv = [sys.executable, "-m", "runner", "run", "--health-probe-bind-address=0", "--proxy-port=0"]
    done = await asyncio.to_thread(
        subprocess.run, argv, cwd=project.folder, env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1
    errors = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    (error,) = [record for record in errors if record["level"] == "error"]
    place = f"{project.folder}/handlers/tasks.py:{line}"
    assert (error["msg"], error["error"]) == (
        "Failed to start.",
        f"{place}: NameError: name 'undefined' is not defined; correct it: a file of handlers must be importable",
    )
    assert "Traceback" not in done.stderr


def _write(project: Project, text: str) -> None:
    (project.folder / "handlers" / "tasks.py").write_text(text.replace("GROUP", project.group))


async def _is(value: object) -> bool:
    return bool(value)
