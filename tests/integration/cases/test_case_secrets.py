"""Field cases S1 and S2: no secret of a spec or of the operator's environment in anything that the operator leaves.

The operator is a real process at its most talkative; all that it says and leaves is searched.
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import environment
from runner.testing.cluster import wait_until
from tests.integration.cases.conftest import PROBES
from tests.integration.reconcile.conftest import Probes

EVENTS = Resource(gvk=GVK("", "v1", "Event"), plural="events")
FROM_SPEC = "canary-of-the-spec-71c2"
FROM_ENVIRONMENT = "canary-of-the-environment-5b0e"
WATCHES = """
- group: bugs.example.com
  version: v1
  kind: Probe
  role: probe
  reconcilePeriod: 0s
  markUnsafe: true
"""
TASKS = """
- name: The credentials of the pod reach the task
  ansible.builtin.assert:
    that: lookup('env', 'AWS_SECRET_ACCESS_KEY') | hash('sha256') == digest
    quiet: true
- ansible.builtin.debug: {msg: "{{ password }}"}
  no_log: true
- ansible.builtin.set_fact: {copied: "{{ password }}"}
  no_log: true
- ansible.builtin.command: "echo {{ item }}"
  loop: ["{{ password }}", "{{ lookup('env', 'AWS_SECRET_ACCESS_KEY') }}"]
  no_log: true
- name: What the environment holds is masked without no_log, too
  ansible.builtin.command: echo "{{ lookup('env', 'AWS_SECRET_ACCESS_KEY') }}"
- ansible.builtin.setup: {gather_subset: ["!all", env]}
- ansible.builtin.command: "false {{ password }}"
  no_log: true
"""


@dataclass(frozen=True, kw_only=True)
class Left:
    """Everything that an operator said and left after its runs."""

    output: str
    objects: Mapping[str, Object]
    events: list[Object]
    metrics: str
    folder: Path

    def conditions(self, name: str) -> dict[str, Object]:
        """Return the conditions of an object by their type."""
        return {entry["type"]: entry for entry in conditions_of(self.objects[name])}

    def files_with(self, text: str) -> list[str]:
        """Return the files of the run folders that hold *text*, the variables of the run apart."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return [str(path) for path in files if text.encode() in path.read_bytes() and path.name != "extravars"]


@pytest.fixture
async def left(plane: ControlPlane, probes: Probes, kube: KubeClient, tmp_path: Path) -> Left:
    """Run a role that uses both secrets and fails, for an object with the highest verbosity and for a plain one."""
    role = tmp_path / "roles/probe/tasks/main.yml"
    role.parent.mkdir(parents=True)
    role.write_text(TASKS)
    (tmp_path / "watches.yaml").write_text(WATCHES)
    health, metrics = free_ports(2)
    environ = {
        **{key: value for key, value in environment().items() if not key.startswith(("ANSIBLE_", "VIRTUAL_"))},
        "KUBECONFIG": str(plane.kubeconfig),
        "WATCH_NAMESPACE": probes.namespace,
        "TMPDIR": str(tmp_path),
        "AWS_SECRET_ACCESS_KEY": FROM_ENVIRONMENT,
        "ANSIBLE_DEBUG_LOGS": "true",
    }
    operator = OperatorProcess(project=tmp_path, environ=environ, log=tmp_path / "operator.log", port=health)
    operator.start(
        arguments=[
            "--ansible-log-events=everything",
            "--zap-log-level=debug",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
        ]
    )
    digest = hashlib.sha256(FROM_ENVIRONMENT.encode()).hexdigest()
    spec = {"password": FROM_SPEC, "digest": digest, "ansiblePassword": FROM_SPEC}
    annotations = {"ansible.sdk.operatorframework.io/verbosity": "4"}
    try:
        await probes.create("loud", spec=spec, annotations=annotations)
        await probes.create("plain", spec=spec)
        for name in ("loud", "plain"):
            await wait_until(partial(_failed, probes, name), what=f"the end of {name}", limit=240.0)
        text = _read(f"http://127.0.0.1:{metrics}/metrics")
    finally:
        operator.stop()
    return Left(
        output=(tmp_path / "operator.log").read_text(),
        objects={name: await probes.get(name) for name in ("loud", "plain")},
        events=await kube.list(EVENTS, namespace=probes.namespace),
        metrics=text,
        folder=tmp_path / f"ansible-operator/runner/{PROBES.group}/v1/Probe/{probes.namespace}",
    )


def _read(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - on loopback
            return str(answer.read().decode())
    except urllib.error.URLError:
        return ""


async def _failed(probes: Probes, name: str) -> bool:
    found = await probes.conditions(name)
    return (found.get("Failure"), found.get("Running")) == ("True", "False")


async def test_no_secret_is_in_anything_that_an_operator_says_or_leaves(left: Left) -> None:
    """Tasks get the credentials; output, log, Events, conditions, metrics and artifacts hold neither (S1 S2)."""
    for canary in (FROM_SPEC, FROM_ENVIRONMENT):
        assert canary not in left.output
        assert canary not in json.dumps(left.events)
        assert canary not in json.dumps([obj["status"] for obj in left.objects.values()])
        assert canary not in left.metrics
        assert left.files_with(canary) == []
    assert FROM_ENVIRONMENT not in json.dumps(left.objects)

    # the search would have found them: everything that was to be searched is there
    for name in ("loud", "plain"):
        failure = left.conditions(name)["Failure"]
        assert failure["message"].startswith("the output has been hidden due to the fact that 'no_log: true'")
        assert failure["ansibleResult"]["ok"] >= 6
        assert (left.folder / name / "artifacts/latest/stdout").stat().st_size > 0
        assert list((left.folder / name / "artifacts/latest/job_events").iterdir())
        assert FROM_SPEC in (left.folder / name / "env/extravars").read_text()
    assert "PLAY RECAP" in left.output
    assert "Ansible Debug Result" in left.output
    assert [event["reason"] for event in left.events if event["involvedObject"]["name"] == "plain"]
    assert "ansiblePassword" in json.dumps(left.events)
