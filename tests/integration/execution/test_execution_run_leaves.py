"""What one real run of a role sees, and what it leaves behind; the run is made once, each test reads another side."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runner.execution.executor import Outcome
from tests.integration.execution.bench import Bench, Warm

FROM_SPEC = "canary-of-the-spec"
FROM_ENVIRONMENT = "canary-of-the-environment"
SPEC: dict[str, Any] = {
    "db2_init": 1,
    "egressIPs": ["10.0.0.1"],
    "affinity": {"nodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": []}]}},
    "app.kubernetes.io/name": "x",
    "日本語Key": 1,
    "": "empty",
    "ansiblePythonInterpreter": "/bin/false",
    "ansibleConnection": "ssh",
    "password": FROM_SPEC,
}
TASKS = """
- ansible.builtin.file: {path: "{{ out }}", state: directory}
- ansible.builtin.copy: {dest: "{{ out }}/seen.json", content: "{{ seen | to_json }}"}
  vars:
    seen:
      whole: "{{ _bugs_example_com_probe }}"
      spec: "{{ _bugs_example_com_probe_spec }}"
      meta: "{{ ansible_operator_meta }}"
      db2: "{{ db2_init }}"
      ips: "{{ egress_ips }}"
      affinity: "{{ affinity }}"
      state: "{{ state }}"
      secret_came: "{{ (lookup('env', 'AWS_SECRET_ACCESS_KEY') | hash('sha256')) }}"
      kubeconfig: "{{ lookup('env', 'K8S_AUTH_KUBECONFIG') }}"
      fact_cache: "{{ lookup('env', 'ANSIBLE_CACHE_PLUGIN_CONNECTION') }}"
      same: "{{ lookup('env', 'KUBECONFIG') == lookup('env', 'K8S_AUTH_KUBECONFIG') }}"
      mode: "{{ (lookup('env', 'KUBECONFIG') | expanduser) is file }}"
- ansible.builtin.debug: {msg: "{{ password }}"}
  no_log: true
- ansible.builtin.command: "echo {{ item }}"
  loop: ["{{ password }}"]
  no_log: true
- ansible.builtin.command: echo "{{ lookup('env', 'AWS_SECRET_ACCESS_KEY') }}"
- ansible.builtin.setup: {gather_subset: ["!all", env]}
- ansible.builtin.command: "false {{ password }}"
  no_log: true
"""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that is over."""

    bench: Bench
    outcome: Outcome
    directory: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Finished:
    """Run a role that gathers facts, uses secrets and fails in a `no_log` task, as verbosely as a user may ask."""
    bench = Bench(tmp_path_factory.mktemp("run"), environ={"AWS_SECRET_ACCESS_KEY": FROM_ENVIRONMENT}, warm=warm)
    content = bench.role(TASKS)
    request = bench.request(content, spec=SPEC, vars={"out": str(bench.root / "out"), "state": "present"})
    outcome = asyncio.run(bench.run(replace(request, verbosity=4)))
    return Finished(
        bench=bench, outcome=outcome, directory=bench.root / "runner/bugs.example.com/v1/Probe/default/probe"
    )


def _files_with(text: str, *, below: Path, but: tuple[str, ...] = ()) -> list[str]:
    files = [path for path in below.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(below)) for path in files if text in path.read_text() and path.name not in but]


def test_a_failed_task_with_no_log_gives_ansibles_own_sentence(finished: Finished) -> None:
    """The message of a failed `no_log` task says that it is hidden (field case S1)."""
    assert not finished.outcome.success
    (message,) = finished.outcome.failures
    assert message.startswith("the output has been hidden due to the fact that 'no_log: true' was specified")
    assert finished.outcome.stats is not None
    assert finished.outcome.stats.failures == {"localhost": 1}


def test_names_are_converted_at_every_depth(finished: Finished) -> None:
    """The role sees snake-case names, nested ones too (field cases P1 and P2)."""
    seen = finished.bench.written("seen.json")
    assert (seen["db2"], seen["ips"]) == (1, ["10.0.0.1"])
    assert seen["affinity"] == {"node_affinity": {"node_selector_terms": [{"match_expressions": []}]}}


def test_the_unconverted_copies_equal_the_object(finished: Finished) -> None:
    """The whole object and its spec arrive as the API server has them (field case P2)."""
    seen = finished.bench.written("seen.json")
    assert seen["spec"] == SPEC
    assert seen["whole"]["spec"] == SPEC
    assert seen["whole"]["status"] == {"note": "{{ 1 + 1 }}"}
    assert seen["meta"] == {"name": "probe", "namespace": "default"}


def test_variables_of_the_watch_win(finished: Finished) -> None:
    """A variable of the watch reaches the role (field case P5)."""
    assert finished.bench.written("seen.json")["state"] == "present"


def test_a_spec_cannot_change_the_connection(finished: Finished) -> None:
    """The run worked on localhost in spite of the spec, and the log says what was left out (field case P5)."""
    notes = [note for record in finished.bench.sink.records for note in record.get("notes", [])]
    assert any("spec.ansibleConnection" in note for note in notes)
    assert any("spec.ansiblePythonInterpreter" in note for note in notes)


def test_the_environment_reaches_the_tasks(finished: Finished) -> None:
    """A task sees the credential, and a kubeconfig that exists while it runs and is gone afterwards (case S2)."""
    seen = finished.bench.written("seen.json")
    assert seen["secret_came"] == hashlib.sha256(FROM_ENVIRONMENT.encode()).hexdigest()
    assert seen["same"]
    assert seen["mode"]
    assert not Path(seen["kubeconfig"]).exists()


def test_no_artifact_holds_the_environment(finished: Finished) -> None:
    """Not the `command`, not gathered facts, not a task's output (field case S2)."""
    assert _files_with(FROM_ENVIRONMENT, below=finished.directory) == []
    assert _files_with("ansible_env", below=finished.directory) == []
    command = json.loads((finished.directory / "artifacts/latest/command").read_text())
    assert command.keys() == {"command", "cwd"}
    assert command["command"][0] == "ansible-playbook"


def test_no_artifact_but_the_variables_holds_the_spec(finished: Finished) -> None:
    """A value of the spec that tasks used under `no_log` is in `env/extravars` alone (field case S1)."""
    assert _files_with(FROM_SPEC, below=finished.directory, but=("extravars",)) == []


def test_neither_logs_nor_events_hold_a_secret(finished: Finished) -> None:
    """What observers and the log were given is free of both canaries."""
    given = json.dumps([finished.bench.events, finished.bench.sink.records], default=str)
    assert FROM_SPEC not in given
    assert FROM_ENVIRONMENT not in given


def test_the_directory_is_private(finished: Finished) -> None:
    """Folders of the run are 0700, and what we write is 0600."""
    for name in ("", "env", "project", "inventory", "artifacts", "artifacts/latest/job_events"):
        assert stat.S_IMODE((finished.directory / name).stat().st_mode) == 0o700, name
    for name in ("env/extravars", "env/envvars", "env/settings", "artifacts/latest/command", "artifacts/latest/stdout"):
        assert stat.S_IMODE((finished.directory / name).stat().st_mode) == 0o600, name
    for path in (finished.directory / "artifacts/latest").resolve().rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_artifacts_are_those_of_ansible_runner(finished: Finished) -> None:
    """`latest` is an absolute link to the run, which holds the usual files."""
    link = finished.directory / "artifacts/latest"
    assert link.readlink() == finished.outcome.artifacts
    assert link.readlink().is_absolute()
    names = {path.name for path in link.iterdir()}
    assert {"command", "stdout", "stderr", "rc", "status", "job_events"} <= names
    assert (link / "rc").read_text() == "2"


def test_gathered_facts_were_never_among_the_artifacts(finished: Finished) -> None:
    """Should the operator die in mid-run, no environment stays: the cache was in the scratch folder (case S2)."""
    assert finished.bench.written("seen.json")["fact_cache"].startswith(str(finished.bench.scratch))
    assert not list(finished.directory.rglob("fact_cache"))


def test_no_temporary_file_is_left(finished: Finished) -> None:
    """The scratch folder of the run is gone, and so is the throw-away playbook."""
    assert list(finished.bench.scratch.iterdir()) == []
    assert list((finished.directory / "project").iterdir()) == []


def test_events_come_in_their_order(finished: Finished) -> None:
    """Observers get every event once, in the order of its counter, the recap last."""
    counters = [event["counter"] for event in finished.bench.events]
    assert counters == list(range(1, len(counters) + 1))
    assert finished.bench.events[-1]["event"] == "playbook_on_stats"
