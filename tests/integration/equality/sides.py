"""The two sides that are compared: the same content below two roots of equal length, one run cold, one warm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.execution.chosen import WarmContent
from runner.execution.executor import Outcome, RunRequest
from runner.execution.launcher import Launcher, PlayCommand, RunningPlay
from runner.execution.play import PlayExecutor
from runner.execution.processes import processes_of
from runner.execution.warm.launcher import WarmLauncher
from runner.execution.warm.server import ServerPlan
from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings, environment
from runner.testing.executor import run_request
from runner.testing.kubeconfig import GivenKubeconfig
from runner.watches.model import Content, Watch
from tests.integration.equality.cases import Case
from tests.integration.equality.recording import Ran, Recording, record

CONTENT = Path(__file__).with_name("content")
KIND = GVK("equality.example.com", "v1", "Thing")
_KUBECONFIG = "{apiVersion: v1, kind: Config, clusters: [], users: [], contexts: []}"
_NOT_INHERITED = ("ANSIBLE_", "VIRTUAL_", "AWS_", "K8S_", "KUBECONFIG", "HTTP_", "HTTPS_", "NO_PROXY", "LC_", "PYTEST_")
_START = 120.0
"""Seconds; only a fork server that hangs takes so long."""


class Noting:
    """A launcher that remembers the scratch folder of the last run, and leaves the rest to another."""

    def __init__(self, launcher: Launcher) -> None:
        """Launch with *launcher*."""
        self._launcher = launcher
        self.scratch: Path | None = None

    async def launch(self, command: PlayCommand) -> RunningPlay:
        """Start *command*."""
        self.scratch = Path(command.environ["TMPDIR"]).parent
        return await self._launcher.launch(command)

    async def ready(self) -> str | None:
        """Tell what is missing."""
        return await self._launcher.ready()


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What both sides of one comparison have in common."""

    python: str
    environ: Mapping[str, str]
    """Values may name the side's folder as `{root}`, and the web server as `{web}`."""
    web: str
    kubeconfig: Path | None = None
    """None: one without a cluster."""


class Side:
    """One root, with everything that its runs write."""

    def __init__(self, root: Path, *, settings: ExecutionSettings, surroundings: Surroundings) -> None:
        """Work in *root*, where `content` lies already."""
        self.root = root
        self.sink = RecordingSink()
        self.settings = settings
        self.namespace = f"equality-{root.name}-{secrets.token_hex(4)}"
        self._web = surroundings.web
        self._kubeconfig = surroundings.kubeconfig or root / "content/kubeconfig"
        if surroundings.kubeconfig is None:
            self._kubeconfig.write_text(_KUBECONFIG)

    async def run(self, case: Case, *, launcher: Launcher) -> Recording:
        """Run *case* in a root that holds nothing of earlier runs, end what it left running, return what is there."""
        self._clear()
        seen: list[Mapping[str, Any]] = []
        noting = Noting(launcher)
        arguments = case.arguments.format(content=self.root / "content")
        executor = PlayExecutor(
            settings=replace(self.settings, ansible_args=arguments),
            launcher=noting,
            kubeconfigs=GivenKubeconfig(self._kubeconfig),
            clock=SystemClock(),
            logger=Logger(sink=self.sink),
            observers=[lambda _, event: seen.append(event)],
        )
        ident = f"{secrets.randbits(62) | 1 << 62}"
        outcome: Outcome | str
        try:
            outcome = await executor.run(replace(self._request(case), ident=ident))
        except ExecutionError as error:
            outcome = str(error)
        ran = Ran(
            name=case.name,
            ident=ident,
            root=self.root,
            scratch=noting.scratch,
            outcome=outcome,
            seen=seen,
            names={self.namespace: "<namespace>"},
            unordered=case.unordered,
            asking=case.asking,
        )
        try:
            return await asyncio.to_thread(record, ran)
        finally:
            _end(ident, scratch=noting.scratch)

    def content_of(self, case: Case) -> Content:
        """Return what *case* runs."""
        content = self.root / "content"
        if case.role:
            return Content(role=content / "roles" / case.role)
        return Content(playbook=content / "playbooks" / case.playbook)

    def _request(self, case: Case) -> RunRequest:
        given = {"out": str(self.root / "out"), "web": self._web, "where": self.namespace, **case.variables}
        watch = Watch(gvk=KIND, content=self.content_of(case), vars=given)
        return replace(
            run_request(watch=watch, spec={"sizeOfCluster": 3, "word": "{{ 1 + 1 }} ünïcode"}), verbosity=case.verbosity
        )

    def _clear(self) -> None:
        for path in self.root.iterdir():
            if path.name == "content":
                continue
            if path.name == "home":  # the folder stays, as it is the fork server's too
                for entry in path.iterdir():
                    shutil.rmtree(entry)
                continue
            shutil.rmtree(path)
        for name in ("out", "witness"):
            (self.root / name).mkdir()
        (self.root / "home").mkdir(exist_ok=True)


def make_side(root: Path, *, surroundings: Surroundings) -> Side:
    """Return a side in the new folder *root*; its runs have the test's environment, and a home of their own."""
    shutil.copytree(CONTENT, root / "content", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "home").mkdir()
    inherited = {key: value for key, value in environment().items() if not key.startswith(_NOT_INHERITED)}
    settings = ExecutionSettings(
        ansible_python=surroundings.python,
        runner_dir=root / "runner",
        environ={
            **inherited,
            "HOME": str(root / "home"),
            "ANSIBLE_COLLECTIONS_PATH": f"{root / 'content/collections'}:/usr/share/ansible/collections",
            "EQUALITY_WITNESS": str(root / "witness"),
            **{key: value.format(root=root, web=surroundings.web) for key, value in surroundings.environ.items()},
        },
        kill_grace=1.0,
    )
    return Side(root, settings=settings, surroundings=surroundings)


def _end(ident: str, *, scratch: Path | None) -> None:
    """End what a run left on purpose, and remove its folder."""
    for pid in processes_of(ident):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


class _Nowhere:
    """A launcher for a warm one to fall back to, which says that it must not."""

    async def launch(self, command: PlayCommand) -> RunningPlay:
        """Refuse."""
        raise ExecutionError(f"run {command.request.ident} was to be warm, and went cold")

    async def ready(self) -> str | None:
        """Tell that nothing is here."""
        return "it must be warm"


@contextlib.asynccontextmanager
async def warm(side: Side, *, cases: Sequence[Case]) -> AsyncIterator[Launcher]:
    """Give a warm launcher for *cases* that never goes cold, and whose fork server must live to the end."""
    contents = [side.content_of(case) for case in cases]
    content = WarmContent(
        roles=tuple(dict.fromkeys(found.role for found in contents if found.role)),
        playbooks=tuple(dict.fromkeys(found.playbook for found in contents if found.playbook)),
    )
    launcher = WarmLauncher(
        ServerPlan(settings=side.settings, content=content),
        fallback=_Nowhere(),
        clock=SystemClock(),
        delay=lambda _: 1.0,
        logger=Logger(sink=side.sink, level="debug"),
    )
    try:
        await launcher.start()
        async with asyncio.timeout(_START):
            await launcher.settled()
        yield launcher
    finally:
        await launcher.stop()
