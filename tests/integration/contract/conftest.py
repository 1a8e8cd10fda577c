"""One operator project with many watches, served by one `ansible-operator run` as the peer is started.

The cases are those of the peer's own test operators, as roles and playbooks of ours.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of
from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import KubeSettings, environment
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, crd, install_crd, wait_until
from tests.integration.contract.content import KINDS, VAULT_PASSWORD, write_collection, write_project
from tests.integration.environments.interpreters import CORES, interpreter_of


@dataclass(frozen=True, kw_only=True)
class Served:
    """A project whose operator runs."""

    folder: Path
    group: str
    namespace: str
    operator: OperatorProcess
    core: str
    """The series of ansible-core that its plays run on."""

    def resource(self, kind: str) -> Resource:
        """Return the resource of a kind of this project."""
        gvk = GVK(self.group, "v1alpha1", kind)
        return Resource(gvk=gvk, plural=f"{kind.lower()}s", subresources=frozenset({"status"}))

    async def create(self, kube: KubeClient, kind: str, *, name: str, body: Mapping[str, Any] | None = None) -> Object:
        """Create an object; *body* holds its spec, and labels and annotations under `metadata`."""
        given = dict(body or {})
        metadata = {"name": name, **given.pop("metadata", {})}
        whole = {"apiVersion": f"{self.group}/v1alpha1", "kind": kind, "metadata": metadata, **given}
        return await kube.create(self.resource(kind), namespace=self.namespace, body=whole)

    async def successful(self, kube: KubeClient, kind: str, *, name: str) -> Object:
        """Wait until an object's run was successful, and return the object."""

        async def look() -> Object | None:
            found = await kube.get(self.resource(kind), namespace=self.namespace, name=name)
            states = {entry["type"]: entry["status"] for entry in conditions_of(found)}
            return found if states.get("Successful") == "True" else None

        found = await wait_until(look, what=f"{kind} {name} to be Successful; {self.operator.tail(40)}", limit=300)
        assert found is not None
        return found

    async def data(
        self, kube: KubeClient, name: str, *, until: Callable[[Mapping[str, str]], bool] = bool
    ) -> Mapping[str, str]:
        """Return the data of a ConfigMap as soon as it is there and *until* holds."""

        async def look() -> Mapping[str, str] | None:
            found = await self.config_map(kube, name)
            return found if found is not None and until(found) else None

        data = await wait_until(look, what=f"the ConfigMap {name}; {self.operator.tail(40)}", limit=300)
        assert data is not None
        return data

    def runs(self, kind: str, *, name: str) -> list[Path]:
        """Return the folders of an object's runs."""
        runner = self.folder.parent / "tmp/ansible-operator/runner"
        artifacts = runner / self.group / "v1alpha1" / kind / self.namespace / name / "artifacts"
        return [path for path in artifacts.iterdir() if not path.is_symlink()]

    async def config_map(self, kube: KubeClient, name: str) -> Mapping[str, str] | None:
        """Return the data of a ConfigMap, or None."""
        try:
            found = await kube.get(CONFIG_MAPS, namespace=self.namespace, name=name)
        except NotFound:
            return None
        return dict(found.get("data") or {})


@pytest.fixture(scope="module", params=CORES)
def served(
    request: pytest.FixtureRequest, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Write the project, install its kinds and run its operator, its plays on each supported ansible-core."""
    python = interpreter_of(request.param)
    root = tmp_path_factory.mktemp("contract")
    group = f"c{secrets.token_hex(3)}.example.com"
    namespace = f"contract-{secrets.token_hex(4)}"
    folder = write_project(root / "project", group=group, bin_dir=Path(python).parent)
    collections = write_collection(root, bin_dir=Path(python).parent)
    asyncio.run(_prepare(plane, group=group, namespace=namespace))
    port, metrics, proxy = free_ports(3)
    environ = {
        **{key: value for key, value in environment().items() if not key.startswith(("ANSIBLE_", "VIRTUAL_"))},
        "KUBECONFIG": str(plane.kubeconfig),
        "WATCH_NAMESPACE": namespace,
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_DEBUG_LOGS": "TRUE",
        "ANSIBLE_INVENTORY": str(folder / "inventory"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_ROLES_PATH": str(folder / "roles"),
        "TMPDIR": str(_folder(root / "tmp")),
    }
    operator = OperatorProcess(project=folder, environ=environ, log=root / "operator.log", port=port)
    operator.start(
        arguments=(
            f"--ansible-python={python}",
            f"--ansible-args='--vault-password-file {folder}/{VAULT_PASSWORD}'",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--proxy-port={proxy}",
            "--max-concurrent-reconciles=2",
        )
    )
    try:
        yield Served(folder=folder, group=group, namespace=namespace, operator=operator, core=request.param)
    finally:
        code = operator.stop()
        asyncio.run(_remove(plane, namespace=namespace))
    assert code == 0, operator.tail(40)


async def _prepare(plane: ControlPlane, *, group: str, namespace: str) -> None:
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await kube.create(NAMESPACES, body=body)
        for kind in KINDS:
            await install_crd(kube, crd(kind, group=group, versions=("v1alpha1",)))


async def _remove(plane: ControlPlane, *, namespace: str) -> None:
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as kube:
        await kube.delete(NAMESPACES, name=namespace)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
