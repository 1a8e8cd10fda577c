"""The deployment's read-only root file system: only the temporary folder can be written, and every run works."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
import yaml

from runner.localdev.operator_process import OperatorProcess
from runner.localdev.plane import ControlPlane
from runner.localdev.ports import free_ports
from runner.settings import environment
from runner.testing.cluster import wait_until
from tests.integration.operator.conftest import Project

ROOT = Path(__file__).resolve().parents[3]
TEMPORARY = "/tmp"  # noqa: S108 - the mount point in the manifest
HOME = "/usr/share"
"""Not below the temporary folder."""
LOCKED = 'mount --bind "$0" "$0" && mount -o remount,ro,bind / && exec "$@"'
TASKS = """
- ansible.builtin.command: id
- ansible.builtin.tempfile: {state: directory}
  register: folder
- ansible.builtin.template: {src: note.j2, dest: "{{ folder.path }}/note", mode: "0600"}
- ansible.builtin.copy: {content: x, dest: "{{ folder.path }}/copy", mode: "0600"}
- ansible.builtin.command: id
  async: 60
  poll: 1
- kubernetes.core.k8s:
    definition:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "{{ ansible_operator_meta.name }}", namespace: "{{ ansible_operator_meta.namespace }}"}
- ansible.builtin.command: touch /usr/share/ansible-operator-wrote-here
  register: outside
  failed_when: outside.rc == 0
"""


@pytest.mark.parametrize("executor", ["cold", "warm"])
async def test_an_operator_needs_nothing_writable_but_the_temporary_folder(
    project: Project, plane: ControlPlane, executor: str
) -> None:
    """With the manifest's variables, a home that can't be written, and a root that can't, runs succeed either way."""
    within = ["unshare", "--mount", "sh", "-c", LOCKED, str(project.folder)]
    try:
        await asyncio.to_thread(subprocess.run, [*within, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no mount namespace here: it takes Linux, util-linux and root")
    role = project.folder / "roles/task"
    (role / "tasks/main.yml").write_text(TASKS)
    (role / "templates").mkdir()
    (role / "templates/note.j2").write_text("hello {{ ansible_operator_meta.name }}\n")
    environ = {
        **environment(),
        "KUBECONFIG": str(plane.kubeconfig),
        "WATCH_NAMESPACE": project.namespace,
        **{name: value.replace(TEMPORARY, str(project.folder)) for name, value in _of_the_manifest().items()},
        "TMPDIR": str(project.folder),
        "HOME": HOME,
        "PYTHONDONTWRITEBYTECODE": "1",  # as in the image
    }
    log = project.folder / "operator.log"
    operator = OperatorProcess(project=project.folder, environ=environ, log=log, port=free_ports(1)[0])
    operator.start(arguments=[f"--executor={executor}"], within=within)
    try:
        await project.create("one")
        await wait_until(lambda: project.successful("one"), what="Successful", limit=240)
    finally:
        code = operator.stop()
    assert code == 0, operator.tail()
    assert '"level":"error"' not in log.read_text()


def _of_the_manifest() -> dict[str, str]:
    """Return the variables of the deployment that are no secrets; its container must have a read-only root."""
    documents = yaml.safe_load_all((ROOT / "config/manager/manager.yaml").read_text())
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": TEMPORARY}]
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    return {entry["name"]: entry["value"] for entry in container["env"]}
