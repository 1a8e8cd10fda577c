"""Runs that are scripted, but write through the operator's proxy: what Ansible's modules do, without Ansible."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml

from runner.assembly.run_access import RunAccess
from runner.errors import NotFound
from runner.execution.executor import RunRequest
from runner.execution.files import write_private
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, name_of
from runner.settings import KubeSettings
from runner.testing.executor import ScriptedExecutor

DEPLOYMENTS = Resource(gvk=GVK("apps", "v1", "Deployment"), plural="deployments")
CLAIMS = Resource(gvk=GVK("", "v1", "PersistentVolumeClaim"), plural="persistentvolumeclaims")
CLUSTER_ROLES = Resource(
    gvk=GVK("rbac.authorization.k8s.io", "v1", "ClusterRole"), plural="clusterroles", namespaced=False
)

Act = Callable[[KubeClient, RunRequest], Awaitable[None]]


class Acting:
    """Makes a `ScriptedExecutor` whose runs write with a client of their own; an `ExecutorFor` of the harness."""

    def __init__(self, *, folder: Path, act: Act) -> None:
        """Do *act* in each run; keep the runs' kubeconfigs in *folder*."""
        self._folder = folder
        self._act = act
        self.executor = ScriptedExecutor()
        self.acted: list[str] = []
        """The names of the objects whose runs have done all, one for each run of the present operator."""

    def __call__(self, access: RunAccess) -> ScriptedExecutor:
        """Return the executor of the next operator; `executor` has its runs."""

        async def during(request: RunRequest) -> None:
            folder = self._folder / f"run-{request.ident}"
            folder.mkdir()
            with access.for_run(request, folder=folder) as kubeconfig:
                plain = _without_user_in_url(kubeconfig, folder=folder)
                async with KubeClient(settings=KubeSettings(kubeconfig=str(plain))) as client:
                    await self._act(client, request)
            self.acted.append(name_of(request.obj))

        self.acted = []
        self.executor = ScriptedExecutor(during=during)
        return self.executor

    def ran(self, name: str, count: int) -> Callable[[], Awaitable[bool]]:
        """Return a condition: at least *count* runs of the object *name* have done all."""

        async def condition() -> bool:
            return self.acted.count(name) >= count

        return condition


def _without_user_in_url(kubeconfig: Path, *, folder: Path) -> Path:
    """Copy a run's kubeconfig: aiohttp takes a user from the URL or from a header, and refuses both."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    cluster["server"] = f"http://{cluster['server'].rpartition('@')[2]}"
    copy = folder / "plain"
    write_private(copy, yaml.safe_dump(document))
    return copy


def shell(resource: Resource, name: str, **parts: object) -> Object:
    """Return an object of a kind with *parts* beside its name."""
    return {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, "metadata": {"name": name}, **parts}


async def applied(client: KubeClient, resource: Resource, body: Object, *, namespace: str = "") -> None:
    """Create an object, or merge *body* into the one that is there, as `kubernetes.core.k8s` does."""
    where = {"namespace": namespace} if namespace else {}
    with contextlib.suppress(NotFound):
        await client.patch(resource, name=name_of(body), body=body, **where)
        return
    await client.create(resource, body=body, **where)
