"""A real operator process with one run that lasts: its role hands the run's kubeconfig out and waits.

So the requests of a benchmark come from a live run, and no other run takes the processors. Works with the peer, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from runner.execution.command import OWN_COLLECTIONS
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.ports import free_ports
from runner.settings import KubeSettings
from runner.testing.cluster import NAMESPACES, crd, install_crd, remove_crd, wait_until
from tools.compare.operators import peer, refuse_busy_ports, running
from tools.proxy_bench.target import Target, of_run

_START_LIMIT = 120.0
_OWNER = "bench"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one benchmark works: a namespace, a kind of its own and a folder for the operator."""

    kube: KubeClient
    kubeconfig: Path
    namespace: str
    kind: Resource
    folder: Path

    def project(self) -> Path:
        """Write watches.yaml and the role, and return their folder."""
        project = self.folder / "project"
        tasks = project / "roles" / "hold" / "tasks"
        tasks.mkdir(parents=True)
        gvk = self.kind.gvk
        (project / "watches.yaml").write_text(
            dedent(f"""\
            - group: {gvk.group}
              version: {gvk.version}
              kind: {gvk.kind}
              role: hold
              reconcilePeriod: 0s
              watchDependentResources: true
            """)
        )
        (tasks / "main.yml").write_text(
            dedent(f"""\
            - name: Hand the kubeconfig out
              ansible.builtin.copy:
                src: "{{{{ lookup('env', 'K8S_AUTH_KUBECONFIG') }}}}"
                dest: {self.given}
                mode: "0600"
            - name: Wait until nobody needs it any more
              ansible.builtin.wait_for:
                path: {self.folder}/over
                timeout: 86400
            """)
        )
        return project

    @property
    def given(self) -> Path:
        """Return where the role puts its kubeconfig."""
        return self.folder / "kubeconfig"

    def environ(self, *, path: Sequence[Path]) -> dict[str, str]:
        """Return the environment of an operator, with *path* first in PATH."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        return {
            "PATH": os.pathsep.join([*map(str, path), "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "KUBECONFIG": str(self.kubeconfig),
            "WATCH_NAMESPACE": self.namespace,
            "ANSIBLE_GATHERING": "explicit",
            "ANSIBLE_COLLECTIONS_PATH": str(OWN_COLLECTIONS),
        }


@dataclass(frozen=True, kw_only=True)
class Held:
    """A proxy and a run of it that lasts."""

    target: Target
    pid: int
    """Of the operator; 0 for the peer."""


@contextlib.asynccontextmanager
async def place(kubeconfig: Path, *, folder: Path) -> AsyncIterator[Place]:
    """Make a namespace and a kind; afterwards they are gone."""
    mark = secrets.token_hex(3)
    namespace, group = f"bench-{mark}", f"bench{mark}.example.com"
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as kube:
        await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        kind = await install_crd(kube, crd("Hold", group=group))
        try:
            yield Place(kube=kube, kubeconfig=kubeconfig.absolute(), namespace=namespace, kind=kind, folder=folder)
        finally:
            await remove_crd(kube, f"holds.{group}")
            await kube.delete(NAMESPACES, name=namespace)


@contextlib.asynccontextmanager
async def held_run(where: Place, *, program: Path | None = None, path: Sequence[Path] = ()) -> AsyncIterator[Held]:
    """Start our operator, or the peer's *program*, and wait for the run; afterwards both have ended."""
    project = where.project()
    with _started(where, project=project, program=program, path=path) as pid:
        body = {"apiVersion": where.kind.gvk.api_version, "kind": "Hold", "metadata": {"name": _OWNER}, "spec": {}}
        await where.kube.create(where.kind, namespace=where.namespace, body=body)

        async def given() -> Target | None:
            return of_run(where.given, name="peer" if program else "proxy") if _complete(where.given) else None

        target = await wait_until(given, what="the run's kubeconfig", limit=_START_LIMIT)
        if target is None:
            raise RuntimeError("the run gave no kubeconfig")  # never: `wait_until` returns true values
        try:
            yield Held(target=target, pid=pid)
        finally:
            (where.folder / "over").touch()
            await _over(where)


@contextlib.contextmanager
def _started(where: Place, *, project: Path, program: Path | None, path: Sequence[Path]) -> Iterator[int]:
    log = where.folder / "operator.log"
    if program is not None:
        refuse_busy_ports()
        side = peer(program, path=path)
        with running(side, project=project, environ=where.environ(path=side.path), arguments=[], log=log):
            yield 0
        shutil.rmtree(side.runs_in(where.folder) / where.kind.gvk.group, ignore_errors=True)
        return
    (health,) = free_ports(1)
    environ = where.environ(path=[Path(sys.executable).parent])
    operator = OperatorProcess(project=project, environ=_with_tree(environ), log=log, port=health)
    operator.start()
    try:
        yield operator.pid
    finally:
        operator.stop()


def _with_tree(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* with this working tree first where Python looks for `runner`."""
    return {**environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def _complete(path: Path) -> bool:
    return path.exists() and "users:" in path.read_text() and "clusters:" in path.read_text()


async def _over(where: Place) -> None:
    """Wait until the run has ended, so that its object can go."""

    async def ended() -> bool:
        found = await where.kube.get(where.kind, namespace=where.namespace, name=_OWNER)
        conditions = found.get("status", {}).get("conditions", [])
        return any(one.get("type") == "Successful" and one.get("status") == "True" for one in conditions)

    with contextlib.suppress(TimeoutError):
        await wait_until(ended, what="the end of the run", limit=30)
