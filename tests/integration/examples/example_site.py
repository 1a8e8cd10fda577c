"""One example of `examples/` at work: its operator as a process, with no right beyond its own `config/rbac/role.yaml`.

A module has one operator for all its tests; each test makes an object of its own, so that none needs another.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.events import EVENTS
from runner.kube.objects import GVK, Object, conditions_of, generation_of, name_of, uid_of
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import KubeSettings, environment
from runner.sources.store import ChangeKind
from runner.testing.cluster import NAMESPACES, install_crd, wait_until
from runner.testing.identities import ROLE_BINDINGS, new_identity
from runner.testing.informers import Site as InformerSite
from runner.testing.informers import Watched, watching

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CLUSTER_ROLES = Resource(
    gvk=GVK("rbac.authorization.k8s.io", "v1", "ClusterRole"), plural="clusterroles", namespaced=False
)
CLUSTER_ROLE_BINDINGS = Resource(
    gvk=GVK("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"), plural="clusterrolebindings", namespaced=False
)
CRON_JOBS = Resource(gvk=GVK("batch", "v1", "CronJob"), plural="cronjobs")
JOBS = Resource(gvk=GVK("batch", "v1", "Job"), plural="jobs")
BUDGETS = Resource(gvk=GVK("policy", "v1", "PodDisruptionBudget"), plural="poddisruptionbudgets")
NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
DEPLOYMENTS = Resource(gvk=GVK("apps", "v1", "Deployment"), plural="deployments")
STATEFUL_SETS = Resource(gvk=GVK("apps", "v1", "StatefulSet"), plural="statefulsets")
SERVICES = Resource(gvk=GVK("", "v1", "Service"), plural="services")
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
QUOTAS = Resource(gvk=GVK("", "v1", "ResourceQuota"), plural="resourcequotas")
LIMIT = 300.0
"""Seconds that only mean 'hung': a run takes a few on a quiet machine."""


@dataclass(kw_only=True)
class OperatorLog:
    """The records of an operator's log."""

    records: list[Mapping[str, Any]] = field(default_factory=list)

    def follow(self, record: Mapping[str, Any]) -> None:
        """Take one record."""
        self.records.append(record)

    def told(self, sentence: str, *, name: str) -> list[Mapping[str, Any]]:
        """Return the records of *sentence* about the object *name*."""
        return [record for record in self.records if record.get("msg") == sentence and record.get("name") == name]

    def runs(self, name: str) -> int:
        """Return how many runs of the object *name* were started."""
        return len(self.told("Starting a run", name=name))


@dataclass(frozen=True, kw_only=True)
class Example:
    """A folder of `examples/`."""

    folder: Path
    primary: Resource

    def document(self, path: str) -> Object:
        """Return the YAML document at *path* in the folder."""
        document: Object = yaml.safe_load((self.folder / path).read_text())
        return document


WEBAPP = Example(
    folder=EXAMPLES / "01-webapp", primary=Resource(gvk=GVK("apps.example.com", "v1", "WebApp"), plural="webapps")
)
MYAPP = Example(
    folder=EXAMPLES / "02-myapp", primary=Resource(gvk=GVK("example.com", "v1alpha1", "MyApp"), plural="myapps")
)


@dataclass(frozen=True, kw_only=True)
class ExampleSite:
    """An example whose operator runs, in two namespaces."""

    example: Example
    plane: ControlPlane
    namespace: str
    crowded: str
    """Has room for two Pods only, and for as many as a test says."""
    account: str
    """Name of the service account and of its ClusterRole."""
    operator: OperatorProcess
    log: OperatorLog
    folder: Path


@contextlib.contextmanager
def operating(example: Example, *, plane: ControlPlane, folder: Path) -> Iterator[ExampleSite]:
    """Run the operator of *example* during the block; it has to end well."""
    suffix = secrets.token_hex(3)
    stem = example.primary.gvk.kind.lower()
    site = ExampleSite(
        example=example,
        plane=plane,
        namespace=f"{stem}-{suffix}",
        crowded=f"{stem}-{suffix}-crowded",
        account=f"{stem}-{suffix}",
        log=(log := OperatorLog()),
        folder=folder,
        operator=OperatorProcess(
            project=example.folder,
            environ=_environment(folder, namespaces=(f"{stem}-{suffix}", f"{stem}-{suffix}-crowded")),
            log=folder / "operator.log",
            port=free_ports(1)[0],
            follower=log.follow,
        ),
    )
    asyncio.run(_prepare(site))
    site.operator.start(arguments=["--zap-log-level=debug"])
    try:
        asyncio.run(wait_until(lambda: _ready(site.operator), what="the operator to be ready", limit=LIMIT))
        yield site
    finally:
        code = site.operator.stop()
        asyncio.run(_remove(site))
    assert code == 0, site.operator.tail(40)


def _environment(folder: Path, *, namespaces: Sequence[str]) -> Mapping[str, str]:
    scratch = folder / "tmp"
    scratch.mkdir()
    inherited = {
        key: value for key, value in environment().items() if not key.startswith(("ANSIBLE_", "AWS_", "VIRTUAL_"))
    }
    return {
        **inherited,
        "KUBECONFIG": str(folder / "kubeconfig"),
        "WATCH_NAMESPACE": ",".join(namespaces),
        "ANSIBLE_GATHERING": "explicit",
        "TMPDIR": str(scratch),
    }


async def _ready(operator: OperatorProcess) -> bool:
    return operator.ready()


async def _prepare(site: ExampleSite) -> None:
    """Make namespaces, kind and an account that may do what role.yaml says, in the two namespaces."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(site.plane.kubeconfig))) as kube:
        for namespace in (site.namespace, site.crowded):
            await kube.create(
                NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        await set_room(kube, site, pods=2)
        (definition,) = (site.example.folder / "crds").glob("*.yaml")
        await install_crd(kube, site.example.document(f"crds/{definition.name}"))
        identity = await new_identity(kube, namespace=site.namespace, name=site.account)
        role = site.example.document("config/rbac/role.yaml")
        await kube.create(CLUSTER_ROLES, body={**role, "metadata": {"name": site.account}})
        for namespace in (site.namespace, site.crowded):
            await kube.create(ROLE_BINDINGS, namespace=namespace, body=_binding(site))
        nodes = [rule for rule in role["rules"] if rule["resources"] == [NODES.plural]]
        await kube.create(CLUSTER_ROLES, body={**role, "metadata": {"name": f"{site.account}-nodes"}, "rules": nodes})
        await kube.create(CLUSTER_ROLE_BINDINGS, body=_binding(site, cluster=True))
        await identity.kubeconfig(site.folder / "kubeconfig", source=site.plane.kubeconfig)


def _binding(site: ExampleSite, *, cluster: bool = False) -> Object:
    """Bind the role in a namespace; with *cluster* what role.yaml grants on Nodes, which are in none."""
    resource, role = (CLUSTER_ROLE_BINDINGS, f"{site.account}-nodes") if cluster else (ROLE_BINDINGS, site.account)
    return {
        "apiVersion": resource.gvk.api_version,
        "kind": resource.gvk.kind,
        "metadata": {"name": site.account},
        "roleRef": {"apiGroup": CLUSTER_ROLES.gvk.group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": site.account, "namespace": site.namespace}],
    }


async def _remove(site: ExampleSite) -> None:
    async with KubeClient(settings=KubeSettings(kubeconfig=str(site.plane.kubeconfig))) as kube:
        await kube.delete(CLUSTER_ROLE_BINDINGS, name=site.account)
        for name in (site.account, f"{site.account}-nodes"):
            await kube.delete(CLUSTER_ROLES, name=name)
        for namespace in (site.namespace, site.crowded):
            await kube.delete(NAMESPACES, name=namespace)


async def set_room(kube: KubeClient, site: ExampleSite, *, pods: int) -> None:
    """Let the crowded namespace hold so many Pods."""
    body: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "room"},
        "spec": {"hard": {"pods": str(pods)}},
    }
    try:
        await kube.patch(QUOTAS, namespace=site.crowded, name="room", body=body)
    except NotFound:
        await kube.create(QUOTAS, namespace=site.crowded, body=body)


@dataclass(frozen=True, kw_only=True)
class Objects:
    """The objects of an example, and what the operator makes of them, as an administrator sees them."""

    kube: KubeClient
    site: ExampleSite
    namespace: str

    async def create(self, name: str, **spec: Any) -> Object:
        """Create an object."""
        primary = self.site.example.primary
        body = {
            "apiVersion": primary.gvk.api_version,
            "kind": primary.gvk.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self.kube.create(primary, namespace=self.namespace, body=body)

    async def get(self, name: str, *, of: Resource | None = None) -> Object:
        """Read an object, or a dependent."""
        return await self.kube.get(of or self.site.example.primary, namespace=self.namespace, name=name)

    async def patch(self, name: str, body: Object, *, of: Resource | None = None, subresource: str = "") -> Object:
        """Merge *body* into an object, or into a dependent."""
        resource = of or self.site.example.primary
        return await self.kube.patch(resource, namespace=self.namespace, name=name, body=body, subresource=subresource)

    async def delete(self, name: str, *, of: Resource | None = None) -> None:
        """Delete an object, or a dependent."""
        await self.kube.delete(of or self.site.example.primary, namespace=self.namespace, name=name)

    async def gone(self, name: str, *, of: Resource) -> None:
        """Return when there is no such object."""

        async def look() -> bool:
            try:
                await self.get(name, of=of)
            except NotFound:
                return True
            return False

        await wait_until(look, what=f"{of.plural} {name} to go", limit=LIMIT)

    async def another(self, name: str, *, of: Resource, than: str) -> Object:
        """Return the dependent when there is one with another UID."""

        async def look() -> list[Object]:
            found = await self.kube.list(of, namespace=self.namespace)
            return [obj for obj in found if name_of(obj) == name and uid_of(obj) != than]

        (found,) = await wait_until(look, what=f"another one of {of.plural} {name}", limit=LIMIT)
        return found

    async def reaches(self, name: str, **status: Any) -> Object:
        """Return the object when it is idle, its newest spec has run, and *status* is part of its status."""

        async def look() -> Object | None:
            found = await self.get(name)
            entries = {entry["type"]: entry for entry in conditions_of(found)}
            done = entries.get("Successful", {})
            settled = (
                done.get("status") == "True"
                and done.get("observedGeneration") == generation_of(found)
                and entries.get("Running", {}).get("reason") == "Successful"
            )
            return found if settled and status.items() <= found["status"].items() else None

        try:
            found = await wait_until(look, what=f"{name} to be {status}", limit=LIMIT)
        except TimeoutError as error:
            seen = (await self.get(name)).get("status")
            raise TimeoutError(f"{error}; its status: {seen}; the log: {self.site.operator.tail(40)}") from error
        assert found is not None
        return found

    async def event(self, name: str, *, reason: str) -> str:
        """Return the message of an Event about the object, when there is one of this *reason*."""

        async def look() -> str:
            query = (("fieldSelector", f"involvedObject.name={name},reason={reason}"),)
            found = await self.kube.list(EVENTS, namespace=self.namespace, query=query)
            return " ".join(str(event["message"]) for event in found)

        return await wait_until(look, what=f"an Event {reason} about {name}", limit=LIMIT)

    async def pods(self, selector: str) -> list[Object]:
        """Return the Pods with these labels."""
        return await self.kube.list(PODS, namespace=self.namespace, query=(("labelSelector", selector),))

    @contextlib.asynccontextmanager
    async def history(self, of: GVK, *, selector: str = "") -> AsyncIterator[Watched]:
        """Keep every state that the API server tells of the objects of a kind during the block."""
        plane = self.site.plane
        site = InformerSite(
            kubeconfig=plane.kubeconfig, client=self.kube, namespace=self.namespace, folder=self.site.folder
        )
        async with watching(site, kubeconfig=plane.kubeconfig, gvk=of, label_selector=selector) as watched:
            yield watched

    async def kubectl(self, *arguments: str) -> str:
        """Return what kubectl prints."""
        process = await asyncio.create_subprocess_exec(
            str(self.site.plane.assets.kubectl),
            f"--kubeconfig={self.site.plane.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        raw, _ = await process.communicate()
        assert process.returncode == 0, raw.decode()
        return raw.decode()


def states(watched: Watched, name: str) -> list[Object]:
    """Return every state of the object *name* that was told."""
    return [c.obj for c in watched.changes if name_of(c.obj) == name and c.kind is not ChangeKind.DELETED]


def condition(obj: Object, type_: str) -> tuple[str, str]:
    """Return status and reason of a condition; two empty texts where there is none."""
    found = [(entry["status"], entry["reason"]) for entry in conditions_of(obj) if entry["type"] == type_]
    return found[0] if found else ("", "")


def owners(obj: Object) -> list[tuple[str, str]]:
    """Return kind and UID of each owner."""
    return [(reference["kind"], reference["uid"]) for reference in obj["metadata"].get("ownerReferences", [])]
