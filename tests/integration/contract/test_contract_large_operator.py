"""An operator shaped as the largest public one: its flags, its environment, its rights, its ways (contract 13)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
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
from runner.settings import environment
from runner.testing.cluster import CONFIG_MAPS, crd, install_crd, wait_until
from runner.testing.identities import new_identity

LEASES = Resource(gvk=GVK("coordination.k8s.io", "v1", "Lease"), plural="leases")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
WATCHES = """\
---
# Comments as a scaffold leaves them, the mark at the end too.
- version: v1beta1
  group: GROUP
  kind: Tower
  playbook: playbooks/tower.yml
  snakeCaseParameters: false
- version: v1beta1
  group: GROUP
  kind: TowerBackup
  role: backup
  snakeCaseParameters: false
  finalizer:
    name: GROUP/finalizer
    vars:
      finalizer_run: true
#+kubebuilder:scaffold:watch
"""
FILES = {
    "playbooks/tower.yml": """\
---
- hosts: localhost
  gather_facts: no
  collections:
    - kubernetes.core
    - operator_sdk.util
  pre_tasks:
    - name: Look for what is optional
      k8s_info:
        kind: ConfigMap
        namespace: '{{ ansible_operator_meta.namespace }}'
        name: nobody
      register: nothing
  roles:
    - installer
""",
    "roles/installer/defaults/main.yml": "image_name: example/tower\n",
    "roles/installer/tasks/main.yml": """\
- name: Apply what is there
  kubernetes.core.k8s:
    apply: yes
    definition: "{{ lookup('template', '../common/templates/labelled.yaml.j2') }}"
- name: Tell about it
  operator_sdk.util.k8s_status:
    api_version: GROUP/v1beta1
    kind: Tower
    name: '{{ ansible_operator_meta.name }}'
    namespace: '{{ ansible_operator_meta.namespace }}'
    status:
      adminUser: '{{ adminUser }}'
      image: '{{ image_name }}'
- name: Facts were not gathered
  ansible.builtin.assert:
    that: ansible_facts.distribution is not defined
""",
    "roles/common/templates/labelled.yaml.j2": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: '{{ ansible_operator_meta.name }}'
  namespace: '{{ ansible_operator_meta.namespace }}'
data:
  user: '{{ adminUser }}'
  replicas: '{{ webReplicas }}'
""",
    "roles/backup/tasks/main.yml": """\
- name: Facts were not gathered in a role either
  ansible.builtin.assert:
    that: ansible_facts.distribution is not defined
- name: Write where the backup is
  kubernetes.core.k8s:
    definition:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: '{{ ansible_operator_meta.name }}'
        namespace: '{{ ansible_operator_meta.namespace }}'
        ownerReferences: null
      data: {cleaned: "{{ finalizer_run | default(false) | string }}"}
  no_log: true
- name: Include a sister by her name
  ansible.builtin.include_role: {name: sister}
""",
    "roles/sister/tasks/main.yml": "- ansible.builtin.debug: {msg: '{{ backupOf }}'}\n",
}


@dataclass(frozen=True, kw_only=True)
class Running:
    """The operator and what it serves."""

    operator: OperatorProcess
    towers: Resource
    backups: Resource
    log: Path


@pytest.fixture
async def running(plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    """Start the operator with a token that has rights in its own namespace only, as its Role grants them."""
    group = f"t{secrets.token_hex(3)}.example.com"
    towers = await install_crd(kube, crd("Tower", group=group, versions=("v1beta1",)))
    backups = await install_crd(kube, crd("TowerBackup", group=group, versions=("v1beta1",)))
    project = tmp_path / "project"
    for name, text in {**FILES, "watches.yaml": WATCHES}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text.replace("GROUP", group))
    identity = await new_identity(kube, namespace=namespace)
    for resource in (towers, backups, CONFIG_MAPS, LEASES):
        await identity.grant(resource, verbs=VERBS)
    for resource in (towers, backups):
        status = Resource(gvk=resource.gvk, plural=f"{resource.plural}/status")
        await _grant_status(kube, identity.namespace, resource=status, account=identity.name)
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\nroles_path = {project}/roles\n")  # the image's /etc/ansible
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=plane.kubeconfig)
    (tmp_path / "tmp").mkdir()
    environ = {
        **{key: value for key, value in environment().items() if not key.startswith(("ANSIBLE_", "VIRTUAL_"))},
        "KUBECONFIG": str(kubeconfig),
        "WATCH_NAMESPACE": namespace,
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_DEBUG_LOGS": "false",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    port, metrics, proxy = free_ports(3)
    log = tmp_path / "operator.log"
    operator = OperatorProcess(project=project, environ=environ, log=log, port=port)
    operator.start(
        arguments=(
            "--watches-file=./watches.yaml",
            "--reconcile-period=0s",
            "--leader-elect",
            "--leader-election-id=tower-operator",
            f"--leader-election-namespace={namespace}",
            f"--health-probe-bind-address=127.0.0.1:{port}",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--proxy-port={proxy}",
        )
    )
    try:
        yield Running(operator=operator, towers=towers, backups=backups, log=log)
    finally:
        code = operator.stop()
    assert code == 0, operator.tail(40)


async def _grant_status(kube: KubeClient, namespace: str, *, resource: Resource, account: str) -> None:
    rbac = "rbac.authorization.k8s.io"
    name = f"{account}-{resource.plural.replace('/', '-')}"
    rule = {"apiGroups": [resource.gvk.group], "resources": [resource.plural], "verbs": list(VERBS)}
    role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
    await kube.create(Resource(gvk=GVK(rbac, "v1", "Role"), plural="roles"), namespace=namespace, body=role)
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    bindings = Resource(gvk=GVK(rbac, "v1", "RoleBinding"), plural="rolebindings")
    await kube.create(bindings, namespace=namespace, body=binding)


async def test_an_operator_with_a_namespaced_role_works_as_its_manifests_start_it(
    running: Running, kube: KubeClient, namespace: str
) -> None:
    """Playbook and role, spec as written, own status keys kept, shared templates, a finalizer run of the same role."""

    async def successful(resource: Resource, name: str) -> Object | None:
        found = await kube.get(resource, namespace=namespace, name=name)
        states = {entry["type"]: entry["status"] for entry in conditions_of(found)}
        return found if states.get("Successful") == "True" else None

    await _create(kube, running.towers, namespace=namespace, spec={"adminUser": "ada", "webReplicas": 2})
    await _create(kube, running.backups, namespace=namespace, name="backup", spec={"backupOf": "main"})
    tower = await wait_until(
        lambda: successful(running.towers, "main"), what=f"the Tower; {running.operator.tail(40)}", limit=300
    )
    assert tower is not None
    assert (tower["status"]["adminUser"], tower["status"]["image"]) == ("ada", "example/tower")
    data = (await kube.get(CONFIG_MAPS, namespace=namespace, name="main"))["data"]
    assert data == {"user": "ada", "replicas": "2"}

    backup = await wait_until(
        lambda: successful(running.backups, "backup"), what=f"the TowerBackup; {running.operator.tail(40)}", limit=300
    )
    assert backup is not None
    assert backup["metadata"]["finalizers"] == [f"{running.backups.gvk.group}/finalizer"]
    await kube.delete(running.backups, namespace=namespace, name="backup")

    async def gone() -> bool:
        try:
            await kube.get(running.backups, namespace=namespace, name="backup")
        except NotFound:
            return True
        return False

    await wait_until(gone, what=f"the finalizer run; {running.operator.tail(40)}", limit=300)
    assert (await kube.get(CONFIG_MAPS, namespace=namespace, name="backup"))["data"] == {"cleaned": "True"}
    assert "[Gathering Facts]" not in running.log.read_text()


async def _create(
    kube: KubeClient, resource: Resource, *, namespace: str, spec: dict[str, Any], name: str = "main"
) -> None:
    body = {
        "apiVersion": resource.gvk.api_version,
        "kind": resource.gvk.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    await kube.create(resource, namespace=namespace, body=body)
