"""The operators under test as processes: warm, cold, the peer, and the floor; each sees the objects of one namespace.

All may run at the same time, as only one of them has work: the others wait on their watches. They are not stopped,
since a stopped one would come back with broken connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.kube.client import KubeClient
from runner.localdev.ec2.credentials import client_environment
from runner.testing.cluster import NAMESPACES, wait_until
from tools.bench.content import ROOT, Project
from tools.bench.processes import Tree, tree
from tools.operators import FREE_PORTS, Side, ours, peer, refuse_busy_ports, running
from tools.operators import environment as environment_of

WARM, COLD, PEER, FLOOR = "warm", "cold", "peer", "floor"
_LIMIT = 180.0
_COLD_WORDS = ("go cold", "fork server", "server died", "server retires")
_READY = "The fork server is ready: runs are warm"
_NATIVE = {"ANSIBLE_JINJA2_NATIVE": "true"}
_CALM = 0.25
_IDLE_SHARE = 0.05
"""Of one processor: below it, an operator is at rest."""


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One operator under test, not running."""

    name: str
    side: Side
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    has_ansible: bool = True


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where they run."""

    kube: KubeClient
    kubeconfig: Path
    folder: Path
    group: str
    """Of the kinds, installed already."""
    held: int
    ec2: str
    """The URL of the EC2 emulator; empty: none is needed."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """One operator under test that runs."""

    contestant: Contestant
    project: Project
    namespace: str
    pid: int
    started_in: float
    """Seconds from the start of the process until it was ready."""

    @property
    def name(self) -> str:
        """Return the contestant's name."""
        return self.contestant.name

    def used(self) -> Tree:
        """Return what its processes have used so far."""
        return tree(self.pid)

    async def calm(self) -> None:
        """Return when the last run has left and next to no processor time is used."""
        before = self.used()

        async def still() -> bool:
            nonlocal before
            await asyncio.sleep(_CALM)
            now = self.used()
            # what serves all runs may be more by now; what served one uses a processor until it is gone
            rested = now.cpu - before.cpu <= _IDLE_SHARE * _CALM and now.count == before.count
            before = now
            return rested

        await wait_until(still, what=f"{self.name} to come to rest", limit=_LIMIT)


def own(name: str, *, arguments: Sequence[str] = ()) -> Contestant:
    """Return our operator with the executor *name*."""
    return Contestant(name=name, side=ours(), arguments=(f"--executor={name}", *FREE_PORTS, *arguments))


def the_peer(program: Path, *, path: Sequence[Path], environ: Mapping[str, str]) -> Contestant:
    """Return the peer; *path* has its `ansible-runner` and `ansible-playbook`.

    This repository's role takes numbers from templates, which ansible-core 2.18 gives where it is told to.
    """
    refuse_busy_ports()
    return Contestant(name=PEER, side=peer(program, path=path), environ={**_NATIVE, **environ})


def the_floor(folder: Path) -> Contestant:
    """Return the process that makes a run's API calls and nothing else; its start script is written to *folder*."""
    script = folder / "run-floor"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tools.bench.floor "$@"\n')
    script.chmod(0o700)
    side = Side(name=FLOOR, program=script, path=(Path(sys.executable).parent,), fixed_runs=False)
    return Contestant(name=FLOOR, side=side, has_ansible=False)


@contextlib.asynccontextmanager
async def started(contestant: Contestant, *, ground: Ground, suffix: str = "") -> AsyncIterator[Running]:
    """Run *contestant* in a new namespace for the block; the namespace stays, as deletions would make work."""
    name = f"{contestant.name}{suffix}"
    namespace = f"{ground.group.partition('.')[0]}-{name}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await ground.kube.create(NAMESPACES, body=body)
    folder = ground.folder / name
    folder.mkdir()
    project = Project(folder=folder, group=ground.group, held=ground.held, ec2=bool(ground.ec2))
    environ = environment_of(
        contestant.side, folder=folder, kubeconfig=ground.kubeconfig, extra=_extra(contestant, ground=ground)
    )
    environ |= {"WATCH_NAMESPACE": namespace, "BENCH_GROUP": ground.group, **project.workers(), **contestant.environ}
    log = folder / "operator.log"
    where, begun = project.write(), time.monotonic()
    with running(contestant.side, project=where, environ=environ, arguments=contestant.arguments, log=log) as operator:
        await wait_until(lambda: _ready(operator.health), what=f"{name} to be ready (log: {log})", limit=_LIMIT)
        started_in = time.monotonic() - begun
        yield Running(
            contestant=contestant, project=project, namespace=namespace, pid=operator.pid, started_in=started_in,
        )  # fmt: skip
        project.over.touch()
    contestant.side.clear_runs(ground.group, f"aws.ansible-operator.io/v1alpha1/EC2Instance/{namespace}")


def _extra(contestant: Contestant, *, ground: Ground) -> dict[str, str]:
    if not ground.ec2:
        return {"ANSIBLE_GATHERING": "explicit"}
    return {
        "ANSIBLE_GATHERING": "explicit",
        **client_environment(ground.ec2),
    }


def doubts(log: Path) -> list[str]:
    """Return the messages of an operator's log that say that warm runs went cold, each once."""
    found = dict.fromkeys(
        str(record.get("msg")) + (f" ({record['reason']})" if record.get("reason") else "")
        for record in _records(log)
        if record.get("msg") != _READY and any(word in str(record.get("msg")) for word in _COLD_WORDS)
    )
    return list(found)


def _records(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record


async def _ready(port: int) -> bool:
    def ask() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    return await asyncio.to_thread(ask)
