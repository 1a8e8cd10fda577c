"""Two operators, one Lease: who works, how it is handed over, and what is left of one that lost it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.errors import NotFound
from runner.kube.events import EVENTS
from runner.kube.lease_record import LEASES, holder_of
from runner.kube.objects import resource_version_of
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.settings import environment
from runner.testing.cluster import wait_until
from tests.integration.operator.conftest import Project, StartOperator

BeginCandidate = Callable[..., OperatorProcess]


@pytest.fixture
def candidate(project: Project, start: StartOperator) -> BeginCandidate:
    """Start an operator that competes for the Lease `lock`."""

    def begin(*arguments: str) -> OperatorProcess:
        return start(
            "--metrics-bind-address=0",  # two operators on one machine
            "--leader-elect",
            "--leader-election-id=lock",
            f"--leader-election-namespace={project.namespace}",
            "--leader-elect-lease-duration=6s",
            "--leader-elect-renew-deadline=4s",
            *arguments,
        )

    return begin


async def test_sigterm_hands_the_lease_over(project: Project, candidate: BeginCandidate) -> None:
    """A leader that is stopped finishes its run, releases the Lease and exits 0; the standby, ready before, goes on."""
    first = candidate()
    holder = await _held(project)
    second = candidate()
    await _waits(second)
    await wait_until(lambda: _is(second.ready()), what="the standby to be ready")
    await project.create("one", seconds=2)
    await wait_until(lambda: _is(project.count("start") == 1), what="the run")
    assert first.stop() == 0
    log = _log(first)
    done, _, _ = log.partition("Released the lease")
    assert done != log
    assert "Ansible-runner exited successfully" in done
    # the standby leads since then, and runs everything once: what the status says meanwhile is its word already
    await wait_until(lambda: project.successful("one"), what="the run of the object under its new leader")
    assert [row[:2] for row in project.runs()[:2]] == [["start", "one"], ["end", "one"]]
    await project.create("two")
    await wait_until(lambda: project.successful("two"), what="the second leader's run")
    assert await _held(project) != holder
    events = await project.kube.list(EVENTS, namespace=project.namespace)
    told = [event["message"].partition(" ")[2] for event in events if event["reason"] == "LeaderElection"]
    assert sorted(told) == ["became leader", "became leader", "stopped leading"]


async def test_sigterm_on_a_standby_exits_0(project: Project, candidate: BeginCandidate) -> None:
    """A standby that is stopped exits 0, and the Lease stays whose it was."""
    candidate()
    holder = await _held(project)
    standby = candidate()
    await _waits(standby)
    assert standby.stop() == 0
    assert await _held(project) == holder


async def test_a_lost_lease_ends_the_play_and_the_process(project: Project, candidate: BeginCandidate) -> None:
    """An operator whose Lease another holds kills its plays unasked, writes no status any more, and exits 1."""
    _write_role(
        project, f"trap 'touch {project.folder}/asked' TERM; echo start >> {project.folder}/runs.log; sleep 97541"
    )
    operator = candidate()
    await _held(project)
    await project.create("one")
    await wait_until(lambda: _is(_processes("sleep\x0097541")), what="the sleep of the role")
    before = resource_version_of(await project.get("one"))
    await _steal(project)
    assert operator.wait() == 1
    assert not _processes("sleep\x0097541")
    assert not _processes(f"/{project.group}/")
    assert not (project.folder / "asked").exists()
    assert resource_version_of(await project.get("one")) == before
    errors = [record for record in _records(operator) if record.get("error") == "leader election lost"]
    assert "Proxy or operator exited with error." in [record["msg"] for record in errors]
    assert not list(project.folder.glob("ansible-operator-run-*"))
    assert await _held(project) == "thief"


async def test_a_leader_that_was_stopped_writes_nothing_when_it_wakes(
    project: Project, candidate: BeginCandidate
) -> None:
    """A leader that stood still while another took over ends its play and itself, without a write."""
    first = candidate()
    await _held(project)
    await project.create("one", seconds=3)
    await wait_until(lambda: _is(project.count("start") == 1), what="the run")
    first.signal(signal.SIGSTOP)
    try:
        second = candidate()
        await wait_until(lambda: project.successful("one"), what="the second leader's run")
        before = resource_version_of(await project.get("one"))
    finally:
        first.signal(signal.SIGCONT)
    assert first.wait() == 1
    assert resource_version_of(await project.get("one")) == before
    assert "leader election lost" in _log(first)
    assert second.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "LeaderElectionID must be configured"),
        (["--leader-election-id=lock"], "--leader-election-namespace"),
        (["--leader-election-id=Lock_1", "--leader-election-namespace=default"], "--leader-election-id"),
        (
            ["--leader-election-id=lock", "--leader-elect-lease-duration=10s"],
            "--leader-elect-lease-duration must be longer",
        ),
    ],
    ids=["no-name", "no-namespace", "bad-name", "durations"],
)
async def test_an_election_that_cannot_be_ends_the_start(
    project: Project, plane: ControlPlane, arguments: list[str], words: str
) -> None:
    """A missing or impossible name, namespace or duration ends `run` with exit code 1 and names the flag."""
    done = _run_to_the_end(project.folder, *arguments, plane=plane)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def _write_role(project: Project, script: str) -> None:
    tasks = [{"name": "Run a script", "ansible.builtin.shell": script}]
    (project.folder / "roles" / "task" / "tasks" / "main.yml").write_text(json.dumps(tasks))


def _run_to_the_end(folder: Path, *arguments: str, plane: ControlPlane) -> subprocess.CompletedProcess[str]:
    environ = {**environment(), "KUBECONFIG": str(plane.kubeconfig)}
    listening = ("--health-probe-bind-address=0", "--proxy-port=0")
    argv = [sys.executable, "-m", "runner", "run", *listening, "--leader-elect", *arguments]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=120)


async def _holder(project: Project, name: str) -> str:
    try:
        return holder_of(await project.kube.get(LEASES, namespace=project.namespace, name=name))
    except NotFound:
        return ""


async def _held(project: Project) -> str:
    return await wait_until(lambda: _holder(project, "lock"), what="the Lease to be held")


async def _waits(operator: OperatorProcess) -> None:
    await wait_until(lambda: _is("Another instance leads" in _log(operator)), what="the standby to wait")


async def _steal(project: Project) -> None:
    body = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
    await project.kube.patch(LEASES, namespace=project.namespace, name="lock", body=body)


def _log(operator: OperatorProcess) -> str:
    return operator.tail(lines=10_000)


def _records(operator: OperatorProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _log(operator).splitlines() if line.startswith("{")]


async def _is(condition: object) -> bool:
    return bool(condition)


def _processes(needle: str) -> list[int]:
    """Return the processes whose command line contains *needle*."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # it ended meanwhile
            if needle.encode() in line:
                found.append(int(folder.name))
    return found
