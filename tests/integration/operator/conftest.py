"""A small operator project in a folder, and `ansible-operator run` of it as a real process."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import Settings, environment
from runner.testing.cluster import crd, install_crd
from runner.testing.harness import settings_for
from tests.integration.operator.probing import Probe


@dataclass(frozen=True, kw_only=True)
class Project:
    """A folder with watches.yaml and a role that notes its start and its end in a file."""

    folder: Path
    group: str
    kube: KubeClient
    namespace: str

    @property
    def resource(self) -> Resource:
        """Return the Task resource of this project."""
        gvk = GVK(self.group, "v1", "Task")
        return Resource(gvk=gvk, plural="tasks", namespaced=True, subresources=frozenset({"status"}))

    async def create(self, name: str, *, annotations: Mapping[str, str] | None = None, **spec: object) -> Object:
        """Create a Task; `seconds` is how long its run takes."""
        body = {
            "apiVersion": f"{self.group}/v1",
            "kind": "Task",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})},
            "spec": {"seconds": 0, **spec},
        }
        return await self.kube.create(self.resource, namespace=self.namespace, body=body)

    async def get(self, name: str) -> Object:
        """Read a Task."""
        return await self.kube.get(self.resource, namespace=self.namespace, name=name)

    async def patch(self, name: str, body: Object) -> Object:
        """Merge *body* into a Task."""
        return await self.kube.patch(self.resource, namespace=self.namespace, name=name, body=body)

    async def conditions(self, name: str) -> dict[str, Object]:
        """Return the conditions of a Task by their type."""
        return {entry["type"]: entry for entry in conditions_of(await self.get(name))}

    async def successful(self, name: str, *, generation: int = 1) -> bool:
        """Tell whether *generation* of a Task was run with success."""
        found = (await self.conditions(name)).get("Successful", {})
        return found.get("status") == "True" and found.get("observedGeneration") == generation

    def runs(self) -> list[list[str]]:
        """Return what the role noted: word (start or end), name, seconds since the epoch."""
        log = self.folder / "runs.log"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def count(self, word: str, *, name: str = "") -> int:
        """Return how many runs (of the Task *name*) noted *word*."""
        return sum(row[0] == word and (not name or row[1] == name) for row in self.runs())


StartOperator = Callable[..., OperatorProcess]


@pytest.fixture
async def project(tmp_path: Path, kube: KubeClient, namespace: str) -> Project:
    """Write the project and install its CRD."""
    group = f"t{uuid.uuid4().hex[:8]}.example.com"
    folder = tmp_path / "project"
    tasks = folder / "roles" / "task" / "tasks"
    tasks.mkdir(parents=True)
    (folder / "watches.yaml").write_text(
        dedent(f"""\
        - group: {group}
          version: v1
          kind: Task
          role: task
          reconcilePeriod: 0s
        """)
    )
    (tasks / "main.yml").write_text(
        dedent(f"""\
        - name: Note the start
          ansible.builtin.shell: echo start {{{{ ansible_operator_meta.name }}}} $(date +%s.%N) >> {folder}/runs.log
        - name: Take a while
          ansible.builtin.command: sleep {{{{ seconds }}}}
          when: seconds | float > 0
        - name: Fail where asked to
          ansible.builtin.fail:
            msg: asked to fail
          when: broken | default(false)
        - name: Note the end
          ansible.builtin.shell: echo end {{{{ ansible_operator_meta.name }}}} $(date +%s.%N) >> {folder}/runs.log
        """)
    )
    await install_crd(kube, crd("Task", group=group))
    return Project(folder=folder, group=group, kube=kube, namespace=namespace)


@pytest.fixture
def start(project: Project, plane: ControlPlane) -> Iterator[StartOperator]:
    """Start the project's operator with the given arguments; all of them are stopped at the end."""
    environ = {
        **environment(),
        "KUBECONFIG": str(plane.kubeconfig),
        "WATCH_NAMESPACE": project.namespace,
        "ANSIBLE_GATHERING": "explicit",  # no fact gathering, as in the scaffolded manager
        "TMPDIR": str(project.folder),
    }
    with contextlib.ExitStack() as stack:

        def begin(*arguments: str) -> OperatorProcess:
            log = project.folder / f"operator-{uuid.uuid4().hex[:6]}.log"
            operator = OperatorProcess(project=project.folder, environ=environ, log=log, port=free_ports(1)[0])
            operator.start(arguments=arguments)
            stack.callback(operator.stop)
            return operator

        yield begin


@pytest.fixture
def probe() -> Probe:
    """Give a port for the probes."""
    return Probe(port=free_ports(1)[0])


@pytest.fixture
def settings(plane: ControlPlane, namespace: str, probe: Probe) -> Settings:
    """Return settings that watch only the test's namespace and serve the probes."""
    made = settings_for(plane.kubeconfig, period=timedelta(0))
    serving = replace(made.serving, health_probe_bind_address=f"127.0.0.1:{probe.port}")
    return replace(made, namespaces=(namespace,), serving=serving)
