"""A real operator process with one run that lasts: its role hands the run's kubeconfig out and waits.

So the requests of a benchmark come from a live run, and no other run takes the processors. Works with the peer, too.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.settings import KubeSettings
from runner.testing.cluster import NAMESPACES, crd, install_crd, remove_crd, wait_until
from tools.operators import FREE_PORTS, Side, environment, ours, peer, refuse_busy_ports, running
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

    def environ(self, side: Side) -> dict[str, str]:
        """Return the environment of an operator."""
        extra = {"WATCH_NAMESPACE": self.namespace, "ANSIBLE_GATHERING": "explicit"}
        return environment(side, folder=self.folder, kubeconfig=self.kubeconfig, extra=extra)


@dataclass(frozen=True, kw_only=True)
class Held:
    """A proxy and a run of it that lasts."""

    target: Target
    pid: int
    """Of the operator."""


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
    if program is not None:
        refuse_busy_ports()
    side = ours() if program is None else peer(program, path=path)
    arguments = FREE_PORTS if program is None else ()
    log = where.folder / "operator.log"
    with running(side, project=project, environ=where.environ(side), arguments=arguments, log=log) as operator:
        yield operator.pid
    side.clear_runs(where.kind.gvk.group)


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
