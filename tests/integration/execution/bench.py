"""Real runs of Ansible for tests: content written into a temporary folder, one executor, everything that it says."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from runner.clock import Clock, SystemClock
from runner.execution.cold import ColdLauncher
from runner.execution.executor import Outcome, RunRequest
from runner.execution.launcher import Launcher
from runner.execution.play import PlayExecutor
from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings
from runner.testing.executor import run_request
from runner.testing.kubeconfig import GivenKubeconfig
from runner.testing.warm import environ_of_tests
from runner.watches.model import Content, Watch

Warm = Launcher | None
"""What starts a test's runs: a fork server, or None for cold ones."""
PROBE = GVK("bugs.example.com", "v1", "Probe")


class Bench:
    """A folder with content, and an executor that runs it."""

    def __init__(
        self,
        root: Path,
        *,
        environ: Mapping[str, str] | None = None,
        warm: Warm = None,
        clock: Clock | None = None,
    ) -> None:
        """Work in *root*; runs get the test's environment plus *environ*, and start by *warm*, or cold without it."""
        self.root = root
        self._clock = clock or SystemClock()
        self._warm = warm
        self.sink = RecordingSink()
        self.events: list[Mapping[str, Any]] = []
        self.scratch = root / "scratch"
        self.scratch.mkdir()
        self.kubeconfig = root / "operator.kubeconfig"
        self.kubeconfig.write_text("{apiVersion: v1, kind: Config, clusters: [], users: [], contexts: []}")
        self.settings = ExecutionSettings(
            runner_dir=root / "runner", environ={**environ_of_tests(), **(environ or {})}, kill_grace=2.0
        )

    def executor(self, **changes: Any) -> PlayExecutor:
        """Return an executor, its execution settings changed by *changes* (of which a fork server knows nothing)."""
        settings = replace(self.settings, **changes)
        return PlayExecutor(
            settings=settings,
            launcher=self._warm or ColdLauncher(settings=settings),
            kubeconfigs=GivenKubeconfig(self.kubeconfig),
            clock=self._clock,
            logger=Logger(sink=self.sink),
            observers=[lambda _, event: self.events.append(event)],
        )

    def playbook(self, text: str, *, name: str = "playbook.yml") -> Content:
        """Write a playbook."""
        path = self.root / name
        path.write_text(text)
        return Content(playbook=path)

    def tasks(self, text: str, *, name: str = "playbook.yml") -> Content:
        """Write a playbook of these tasks on localhost."""
        play = {"hosts": "localhost", "gather_facts": False, "tasks": yaml.safe_load(text)}
        return self.playbook(yaml.safe_dump([play]), name=name)

    def role(self, text: str, *, name: str = "probe") -> Content:
        """Write a role with these tasks."""
        path = self.root / "roles" / name
        (path / "tasks").mkdir(parents=True, exist_ok=True)
        (path / "tasks/main.yml").write_text(text)
        return Content(role=path)

    def request(self, content: Content, *, spec: Mapping[str, Any] | None = None, **watch: Any) -> RunRequest:
        """Return a request to run *content* for a Probe; *watch* are further fields of the watch."""
        request = run_request(
            watch=Watch(gvk=PROBE, content=content, **watch), spec=spec, ident=str(secrets.randbits(63))
        )
        return replace(request, obj={**request.obj, "status": {"note": "{{ 1 + 1 }}"}})

    async def run(self, request: RunRequest) -> Outcome:
        """Run *request*, with every temporary file of it below `scratch`."""
        previous, tempfile.tempdir = tempfile.tempdir, str(self.scratch)
        try:
            return await self.executor().run(request)
        finally:
            tempfile.tempdir = previous

    def written(self, name: str) -> Any:
        """Return the JSON that a task wrote to `out/name`."""
        return json.loads((self.root / "out" / name).read_text())
