"""Field cases R1, R2 and R3: what a run sees, every way it can end, and what its object says then."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from runner.assembly import cold_executor
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.errors import NotFound
from runner.execution.executor import Executor
from runner.execution.processes import processes_of
from runner.kube.client import KubeClient
from runner.kube.objects import GVK, Object, conditions_of
from runner.logs import Logger, RecordingSink
from runner.settings import BackoffSettings, Settings
from runner.testing.cluster import crd, wait_until
from runner.testing.executor import ScriptedExecutor, failed
from runner.testing.harness import ExecutorFor, running_operator
from runner.testing.processes import command_lines
from runner.testing.waiting import eventually
from runner.watches.model import Content, Finalizer, Watch
from tests.integration.cases.conftest import PROBES, Playbook, objects_of
from tests.integration.reconcile.conftest import Probes

CANARY = "canary-9f1d-in-no-argument"
SHOWS = """
- ansible.builtin.copy:
    dest: "{{ out }}"
    content: "{{ {'a': a | default('UNSET') | string | length, 'b': b | default('UNSET')} | to_json }}"
- ansible.builtin.pause: {seconds: 1}
"""
OUTCOMES = """
- hosts: "{{ pattern | default('localhost') }}"
  gather_facts: false
  tasks:
  - when: case == 'rescued'
    block:
    - ansible.builtin.fail: {msg: rescued}
    rescue:
    - ansible.builtin.debug: {msg: fine}
  - ansible.builtin.fail: {msg: ignored}
    ignore_errors: true
    when: case == 'ignored'
  - when: case == 'loop'
    block:
    - ansible.builtin.fail: {msg: "{{ item }}"}
      loop: [a, b]
    rescue:
    - ansible.builtin.debug: {msg: fine}
  - ansible.builtin.add_host:
      name: deadhost
      ansible_connection: ssh
      ansible_host: 127.0.0.1
      ansible_port: 1
    when: case == 'unreachable'
- hosts: deadhost
  gather_facts: false
  tasks:
  - ansible.builtin.ping:
"""
BOUNDED = GVK("execution-cases.example.com", "v1", "Bounded")
BARRED = GVK("execution-cases.example.com", "v1", "Barred")
CASES = {"rescued": True, "ignored": True, "unreachable": False, "nobody": True, "loop": True}
CONDITION: Object = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": {"type": "string", "enum": ["Running", "Successful", "Failed"]},
        "message": {"type": "string", "minLength": 1, "maxLength": 40},
        "observedGeneration": {"type": "integer", "minimum": 0},
    },
}


async def _conditions(probes: Probes, name: str) -> dict[str, Object]:
    return {entry["type"]: entry for entry in conditions_of(await probes.get(name))}


async def _has(probes: Probes, name: str, *, generation: int = 1, **wanted: str) -> bool:
    """Tell whether the conditions of *name* are as *wanted*, and belong to *generation*."""
    found = await _conditions(probes, name)
    told = found.get("Successful", {}).get("observedGeneration")
    return bool(told == generation) and {type_: found[type_]["status"] for type_ in wanted} == wanted


until = partial(wait_until, limit=240.0)
"""For what takes several runs, on a busy machine too."""
succeeded = partial(_has, Running="True", Successful="True", Failure="False")
has_failed = partial(_has, Running="False", Successful="False", Failure="True")


async def _gone(probes: Probes, name: str) -> bool:
    try:
        await probes.get(name)
    except NotFound:
        return True
    return False


def _write_role(folder: Path, tasks: str) -> Content:
    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    (folder / "tasks/main.yml").write_text(tasks)
    return Content(role=folder)


@contextlib.asynccontextmanager
async def _argument_lists() -> AsyncIterator[list[str]]:
    """Collect what argument lists of this machine held during the block."""
    seen: list[str] = []

    async def look() -> None:
        while True:
            seen.extend(command_lines().values())
            await asyncio.sleep(0.1)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # that is what is wanted
async def test_each_run_has_exactly_the_current_spec(
    probes: Probes, settings: Settings, plays: ExecutorFor, playbook: Playbook, tmp_path: Path
) -> None:
    """A removed key is gone in the next run, a 1 MiB spec runs, and no argument list holds anything of it (R1)."""
    # Of the artifacts the annotation keeps one run, and the files of variables and access are private.
    out = tmp_path / "seen"
    watch = Watch(gvk=PROBES, content=playbook("shows.yml", SHOWS), vars={"out": str(out)})
    keep_one = {"ansible.sdk.operatorframework.io/max-runner-artifacts": "1"}
    async with _argument_lists() as arguments, running_operator([watch], settings=settings, executor=plays):
        created = await probes.create("web", spec={"a": CANARY, "b": 2}, annotations=keep_one)
        await until(partial(succeeded, probes, "web"), what="the first run")
        assert out.read_text() == f'{{"a": {len(CANARY)}, "b": 2}}'
        for generation, value, shown in ((2, 3, 1), (3, "x" * 200_000, 200_000), (4, "x" * 1_048_576, 1_048_576)):
            newest = await probes.get("web")
            body = {**created, "metadata": newest["metadata"], "spec": {"a": value}}
            await probes.kube.replace(probes.resource, body=body)
            await until(partial(succeeded, probes, "web", generation=generation), what=f"run {generation}")
            assert out.read_text() == f'{{"a": {shown}, "b": "UNSET"}}'
    assert any("ansible-playbook" in line for line in arguments)
    assert not [line for line in arguments if CANARY in line or "x" * 1000 in line]
    folder = settings.execution.runner_dir / f"bugs.example.com/v1/Probe/{probes.namespace}/web"
    runs = {path.name for path in (folder / "artifacts").iterdir()}
    assert len(runs) == 2
    assert (folder / "artifacts" / (runs - {"latest"}).pop()) == (folder / "artifacts/latest").readlink()
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("env/extravars", "env/envvars")} == {0o600}


async def test_a_run_without_a_recap_fails_and_is_repeated(
    probes: Probes, settings: Settings, plays: ExecutorFor, tmp_path: Path
) -> None:
    """An unknown module is a Failure in Ansible's words, Running ends, and with a mended role a retry succeeds (R2)."""
    role = _write_role(tmp_path / "roles/probe", "- nosuch.collection.module: {}\n")
    async with running_operator([Watch(gvk=PROBES, content=role)], settings=settings, executor=plays):
        await probes.create("web")
        await until(partial(has_failed, probes, "web"), what="Failure")
        message = (await _conditions(probes, "web"))["Failure"]["message"]
        assert "nosuch.collection.module" in message
        assert "\x1b" not in message
        _write_role(role.role or tmp_path, "- ansible.builtin.debug: {}\n")
        await until(partial(succeeded, probes, "web"), what="the retry with the mended role")


@pytest.mark.parametrize("program", ["ansible-playbook", "ansible_runner"])
async def test_a_killed_run_is_a_failure_at_once(
    probes: Probes, settings: Settings, plays: ExecutorFor, tmp_path: Path, program: str
) -> None:
    """After kill -9 of Ansible, or of what started it, Failure says so, nothing runs on, and a retry succeeds (R2)."""
    waits = (
        f"- ansible.builtin.shell: echo $ANSIBLE_OPERATOR_RUN >> {tmp_path}/runs; test -e {tmp_path}/go || sleep 600\n"
    )
    role = _write_role(tmp_path / "roles/probe", waits)
    sink = RecordingSink()
    slow = replace(settings, backoff=BackoffSettings(base=2.0, jitter=0.0))
    async with running_operator([Watch(gvk=PROBES, content=role)], settings=slow, executor=plays, sink=sink):
        await probes.create("web")
        runs = tmp_path / "runs"
        await eventually(lambda: runs.exists() and runs.read_text())
        ident = runs.read_text().strip()
        pids = [pid for pid, line in command_lines().items() if program in line and pid in processes_of(ident)]
        (tmp_path / "go").touch()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await until(partial(has_failed, probes, "web"), what="Failure")
        assert "killed by a signal" in (await _conditions(probes, "web"))["Failure"]["message"]
        assert processes_of(ident) == set()
        await until(partial(succeeded, probes, "web"), what="the retry")
    assert len(runs.read_text().split()) == 2


async def test_a_missing_program_is_named_and_an_edit_is_tried_at_once(
    probes: Probes, settings: Settings, tmp_path: Path
) -> None:
    """Without the interpreter the object says which flag to set, and an edit doesn't wait for the retry (R2)."""
    python = tmp_path / "python"
    execution = replace(settings.execution, ansible_python=str(python))
    patient = replace(settings, execution=execution, backoff=BackoffSettings(base=3600.0, cap=3600.0))
    role = _write_role(tmp_path / "roles/probe", "- ansible.builtin.debug: {}\n")

    def executor(access: RunAccess) -> Executor:
        return cold_executor(settings=patient, access=access, logger=Logger(sink=RecordingSink()), clock=SystemClock())

    async with running_operator([Watch(gvk=PROBES, content=role)], settings=patient, executor=executor):
        await probes.create("web")
        await until(partial(has_failed, probes, "web"), what="Failure")
        message = (await _conditions(probes, "web"))["Failure"]["message"]
        assert "no Python interpreter" in message
        assert "--ansible-python" in message
        python.symlink_to(sys.executable)
        python.unlink()
        python.write_text(f'#!/bin/sh\nPATH={Path(sys.executable).parent}:$PATH exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        await probes.patch("web", {"spec": {"size": 2}})
        await until(partial(succeeded, probes, "web", generation=2), what="the edit's run")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an ssh client: apt-get install openssh-client")
async def test_the_recap_decides_in_runs_and_in_finalizer_runs(
    probes: Probes, settings: Settings, plays: ExecutorFor, sink: RecordingSink, tmp_path: Path
) -> None:
    """Rescued, ignored and no host at all are successes, an unreachable host is a failure; so in the finalizer (R3)."""
    path = tmp_path / "outcomes.yml"
    path.write_text(OUTCOMES)
    watch = Watch(
        gvk=PROBES,
        content=Content(playbook=path),
        finalizer=Finalizer(name="bugs.example.com/finalizer", vars={"deleting": True}),
        max_concurrent_reconciles=2,
    )
    async with running_operator([watch], settings=settings, executor=plays, sink=sink):
        for case in CASES:
            await probes.create(case, spec={"case": case, **({"pattern": "nosuch"} if case == "nobody" else {})})
        for case, success in CASES.items():
            wanted = succeeded if success else has_failed
            await until(partial(wanted, probes, case), what=f"the end of {case}")
        message = (await _conditions(probes, "unreachable"))["Failure"]["message"]
        assert message.startswith("host deadhost is unreachable: ")
        assert any(record["msg"] == "No host matched: no task ran" for record in sink.records)
        for case in ("rescued", "unreachable"):
            await probes.delete(case)
        await until(partial(_gone, probes, "rescued"), what="the finalizer's end")
        unreachable = partial(has_failed, probes, "unreachable", generation=2)
        await until(unreachable, what="the finalizer's failure")
        assert (await probes.get("unreachable"))["metadata"]["finalizers"] == ["bugs.example.com/finalizer"]


async def test_a_long_message_is_cut_with_a_mark(probes: Probes, watch: Watch, settings: Settings) -> None:
    """A failure of a megabyte becomes a condition of 8 KiB that says so (R2)."""
    executor = ScriptedExecutor(outcomes=[failed("x" * 1_000_000)] * 3)
    patient = replace(settings, backoff=BackoffSettings(base=3600.0, cap=3600.0))
    async with running_operator([watch], settings=patient, executor=executor):
        await probes.create("web")
        await until(partial(has_failed, probes, "web"), what="Failure")
        message = (await _conditions(probes, "web"))["Failure"]["message"]
    assert len(message.encode()) == 8192
    assert message.endswith("... (message cut)")


async def test_a_strict_schema_gets_a_status_that_it_accepts(
    kube: KubeClient, namespace: str, settings: Settings
) -> None:
    """Where a schema bounds texts and lists reasons, the conditions are as terminal as ever and say less (R2)."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "status": {"type": "object", "properties": {"conditions": {"type": "array", "items": CONDITION}}},
        },
    }
    definition = crd("Bounded", group=BOUNDED.group, schema=schema)
    executor = ScriptedExecutor(outcomes=[failed("it failed " * 100)])
    patient = replace(settings, backoff=BackoffSettings(base=3600.0, cap=3600.0))
    watch = Watch(gvk=BOUNDED, content=Content())
    async with objects_of(kube, definition, namespace=namespace) as bounded:
        body = {
            "apiVersion": watch.gvk.api_version,
            "kind": BOUNDED.kind,
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"size": 1},
        }
        async with running_operator([watch], settings=patient, executor=executor):
            await kube.create(bounded.resource, namespace=namespace, body=body)
            await until(partial(has_failed, bounded, "web"), what="Failure")
            failure = (await _conditions(bounded, "web"))["Failure"]
            assert failure["message"] == ("it failed " * 4)
            assert failure["reason"] == "Failed"
            await bounded.patch("web", {"spec": {"size": 2}})
            await until(partial(succeeded, bounded, "web", generation=2), what="Successful")
    assert len(executor.requests) == 2


async def test_a_status_that_nothing_fits_stops_no_role(kube: KubeClient, namespace: str, settings: Settings) -> None:
    """Where the schema refuses even the barest condition, the role runs, the log tells it, and nothing loops (R2)."""
    types = {"type": "object", "properties": {"type": {"type": "string", "enum": ["Ready"]}}}
    status = {"type": "object", "properties": {"conditions": {"type": "array", "items": types}}}
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    definition = crd("Barred", group=BARRED.group, schema=schema)
    executor, sink = ScriptedExecutor(), RecordingSink()
    watch = Watch(gvk=BARRED, content=Content())
    async with (
        objects_of(kube, definition, namespace=namespace) as barred,
        running_operator([watch], settings=settings, executor=executor, sink=sink),
    ):
        head = {"apiVersion": watch.gvk.api_version, "kind": BARRED.kind}
        for count, name in enumerate(("web", "barrier"), start=1):
            body = {**head, "metadata": {"name": name, "namespace": namespace}, "spec": {"size": 1}}
            await kube.create(barred.resource, namespace=namespace, body=body)
            await eventually(partial(_reconciled, sink, count))
    assert [request.obj["metadata"]["name"] for request in executor.requests] == ["web", "barrier"]
    assert [record["decision"] for record in sink.records if record["msg"] == "Reconciled"] == ["Forget", "Forget"]
    sentence = "The API server refuses the status, so it is not written"
    assert len([record for record in sink.records if record["msg"] == sentence]) == 4


def _reconciled(sink: RecordingSink, count: int) -> bool:
    return sink.sentences().count("Reconciled") >= count
