"""The local control plane with its real programs: start, nodes, workloads, faults, stop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from runner.cli.dev import dev
from runner.errors import LocalPlaneError, NotFound
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, conditions_of, labels_of
from runner.localdev import assets as programs
from runner.localdev.assets import Assets
from runner.localdev.plane import ControlPlane, PlaneOptions
from runner.localdev.ports import free_ports
from runner.settings import KubeSettings, environment
from runner.testing.cluster import CONFIG_MAPS, SECRETS, crd, install_crd, remove_crd, wait_until
from runner.testing.processes import processes_with

NODES = Resource(gvk=GVK("", "v1", "Node"), plural="nodes", namespaced=False)
DEPLOYMENTS = Resource(gvk=GVK("apps", "v1", "Deployment"), plural="deployments")
JOBS = Resource(gvk=GVK("batch", "v1", "Job"), plural="jobs")
PODS = Resource(gvk=GVK("", "v1", "Pod"), plural="pods")
CONTAINERS = [{"name": "main", "image": "example.com/none:1", "resources": {"requests": {"cpu": "100m"}}}]


@pytest.fixture(scope="module")
def assets() -> Assets:
    """Give the programs."""
    return programs.find(environment(), report=print)


@pytest.fixture(scope="module")
def own(assets: Assets) -> Iterator[ControlPlane]:
    """Give a plane of this module, that tests may hurt and must leave running, with one node."""
    started = ControlPlane.start(assets=assets, options=PlaneOptions(nodes=1))
    try:
        yield started
    finally:
        started.stop()


def client(plane: ControlPlane) -> KubeClient:
    """Return an administrator's client of *plane*."""
    return KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig)))


def condition(obj: Object, kind: str) -> str:
    """Return the status of a condition, empty where there is none."""
    return next((str(entry["status"]) for entry in conditions_of(obj) if entry["type"] == kind), "")


def test_kubectl_shows_a_ready_node(own: ControlPlane, assets: Assets) -> None:
    """A plane with one node has it Ready when the start returns, and kubectl reaches it."""
    command = [str(assets.kubectl), f"--kubeconfig={own.kubeconfig}", "get", "nodes", "-o", "json"]
    answer = subprocess.run(command, capture_output=True, check=True, timeout=120)
    (node,) = json.loads(answer.stdout)["items"]
    assert condition(node, "Ready") == "True"
    assert node["status"]["nodeInfo"]["kernelVersion"] == "6.1.0-simulated"
    assert labels_of(node)["kubernetes.io/hostname"] == "fake-1"


async def test_a_deployment_becomes_available_and_its_pods_go_when_deleted(own: ControlPlane) -> None:
    """Controllers, scheduler and the simulated kubelet together bring up a Deployment, and take it away."""
    body: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}},
        },
    }
    async with client(own) as kube:
        await kube.create(DEPLOYMENTS, body=body, namespace="default")

        async def available() -> bool:
            found = await kube.get(DEPLOYMENTS, namespace="default", name="web")
            return bool(found.get("status", {}).get("availableReplicas") == 2)

        await wait_until(available, what="two available replicas")
        pods = await kube.list(PODS, namespace="default", query=[("labelSelector", "app=web")])
        assert {pod["spec"]["nodeName"] for pod in pods} == {"fake-1"}
        assert all(pod["status"]["podIP"].startswith("10.244.") for pod in pods)
        await kube.delete(DEPLOYMENTS, namespace="default", name="web")

        async def none() -> bool:
            return not await kube.list(PODS, namespace="default", query=[("labelSelector", "app=web")])

        await wait_until(none, what="the pods to be gone")


async def test_a_job_completes(own: ControlPlane) -> None:
    """The pod of a Job ends well, and the Job with it."""
    template = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    body: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once", "namespace": "default"},
        "spec": {"template": template},
    }
    async with client(own) as kube:
        await kube.create(JOBS, body=body, namespace="default")

        async def complete() -> bool:
            return condition(await kube.get(JOBS, namespace="default", name="once"), "Complete") == "True"

        await wait_until(complete, what="the Job to complete")


async def test_the_api_server_comes_back_on_its_port_with_its_data(own: ControlPlane) -> None:
    """After a restart of the API server the same kubeconfig serves the same objects."""
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}}
    async with client(own) as kube:
        made = await kube.create(CONFIG_MAPS, body=body, namespace="default")
    own.restart_apiserver()
    async with client(own) as kube:
        found = await kube.get(CONFIG_MAPS, namespace="default", name="kept")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert own.running


async def test_garbage_collection_of_a_kind_that_the_controller_manager_knew_at_its_start(own: ControlPlane) -> None:
    """A component can be ended and started: with the CRD installed in between, owned objects are collected."""
    own.kill_component("kube-controller-manager")
    assert [name for name, alive in own.components().items() if not alive] == ["kube-controller-manager"]
    async with client(own) as kube:
        widgets = await install_crd(kube, crd("Gcwidget"))
        own.start_component("kube-controller-manager")
        assert all(own.components().values())
        meta = {"name": "owner", "namespace": "default"}
        gvk = {"apiVersion": widgets.gvk.api_version, "kind": widgets.gvk.kind}
        owner = await kube.create(widgets, body={**gvk, "metadata": meta}, namespace="default")
        reference = {**gvk, "name": "owner", "uid": owner["metadata"]["uid"]}
        owned: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "owned", "namespace": "default", "ownerReferences": [reference]},
        }
        await kube.create(CONFIG_MAPS, body=owned, namespace="default")
        await kube.delete(widgets, namespace="default", name="owner")

        async def collected() -> bool:
            try:
                await kube.get(CONFIG_MAPS, namespace="default", name="owned")
            except NotFound:
                return True
            return False

        await wait_until(collected, what="the owned ConfigMap to be collected")
        await remove_crd(kube, "gcwidgets.test.example.com")


def may_ask_for_a_certificate(plane: ControlPlane, *, token: str) -> bool:
    """Tell whether the holder of *token* may create a certificate signing request."""
    command = [
        str(plane.assets.kubectl),
        f"--server={plane.server}",
        f"--certificate-authority={plane.folder / 'pki' / 'ca.crt'}",
        f"--token={token}",
        *("auth", "can-i", "create", "certificatesigningrequests.certificates.k8s.io"),
    ]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(plane.folder / "run"), "KUBECONFIG": os.devnull}
    return subprocess.run(command, env=environ, capture_output=True, check=False).returncode == 0


async def test_a_bootstrap_token_authenticates(own: ControlPlane) -> None:
    """Whoever holds a bootstrap token may ask for a node's certificate: what a machine's first boot does."""
    token = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": token,
    }
    async with client(own) as kube:
        await kube.create(SECRETS, body=secret, namespace="kube-system")
    assert await asyncio.to_thread(may_ask_for_a_certificate, own, token="abcdef.0123456789abcdef")
    assert not await asyncio.to_thread(may_ask_for_a_certificate, own, token="abcdef.ffffffffffffffff")


async def test_a_stopped_process_keeps_its_connections_and_can_go_on(own: ControlPlane) -> None:
    """Signals reach a component: SIGSTOP makes it silent, SIGCONT lets it go on."""
    own.signal_component("kube-scheduler", signal.SIGSTOP)
    assert own.components()["kube-scheduler"] is True
    own.signal_component("kube-scheduler", signal.SIGCONT)
    assert own.running


def test_a_broken_flag_undoes_the_start_and_shows_the_log(tmp_path: Path, assets: Assets) -> None:
    """A start that the API server refuses leaves no process and no data, and the error quotes its log."""
    options = PlaneOptions(apiserver_args=("--no-such-flag=1",))
    with pytest.raises(LocalPlaneError, match="unknown flag: --no-such-flag") as caught:
        ControlPlane.start(folder=tmp_path / "plane", assets=assets, options=options)
    assert str(tmp_path / "plane" / "logs" / "kube-apiserver.log") in str(caught.value)
    assert not processes_with(str(tmp_path / "plane"))
    assert [path.name for path in (tmp_path / "plane").iterdir()] == ["logs"]


async def test_api_only_works_on_a_chosen_port_and_stops_without_a_trace(tmp_path: Path, assets: Assets) -> None:
    """With only etcd and kube-apiserver the API is served, what is off is said, and stop removes it all."""
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "etcd").symlink_to(assets.etcd)
    (bare / "kube-apiserver").symlink_to(assets.kube_apiserver)
    (port,) = free_ports(1)
    lines: list[str] = []
    folder = tmp_path / "plane"
    plane = ControlPlane.start(
        folder=folder,
        assets=programs.in_folder(bare, origin="the test"),
        options=PlaneOptions(apiserver_port=port),
        report=lines.append,
    )
    try:
        assert plane.server == f"https://127.0.0.1:{port}"
        assert any("no garbage collection" in line for line in lines)
        assert list(plane.components()) == ["etcd", "kube-apiserver"]
        async with client(plane) as kube:
            assert await kube.list(NODES) == []
        assert len(processes_with(str(folder))) == 2
        assert ControlPlane.load(folder).running
    finally:
        ControlPlane.load(folder).stop()
    assert not processes_with(str(folder))
    assert not folder.exists()


def test_the_dev_commands_from_up_to_down(tmp_path: Path, assets: Assets) -> None:
    """Up, up again, status, token, env, kubectl with its exit codes, and down, as a developer types them."""
    folder = tmp_path / "plane"
    environ = {"KUBEBUILDER_ASSETS": str(assets.folder)}

    def invoke(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(dev, [arguments[0], "--dir", str(folder), *arguments[1:]], env=environ)
        return result.exit_code, result.output

    try:
        assert invoke("up", "--nodes", "1", "--no-ec2")[0] == 0
        code, text = invoke("up", "--no-ec2")
        assert (code, "running already" in text) == (0, True)
        code, text = invoke("status")
        assert (code, "kube-scheduler" in text, "do not join as nodes" in text) == (0, True, True)
        code, text = invoke("token", "--print-join-command")
        assert code == 0
        assert re.fullmatch(
            r"kubeadm join 127\.0\.0\.1:\d+ --token [a-z0-9]{6}\.[a-z0-9]{16} "
            r"--discovery-token-ca-cert-hash sha256:[0-9a-f]{64}\n",
            text,
        )
        code, text = invoke("env")
        assert (code, f"export KUBECONFIG={folder}/kubeconfig" in text) == (0, True)
        assert "AWS_" not in text
        assert invoke("kubectl", "get", "node", "fake-1")[0] == 0
        assert invoke("kubectl", "get", "node", "nope")[0] == 1
        ControlPlane.load(folder).kill_component("kwok")
        assert invoke("kubectl", "get", "nodes")[0] == 1
        assert invoke("status")[0] == 1
    finally:
        code, text = invoke("down")
    assert (code, "stopped" in text) == (0, True)
    assert not processes_with(str(folder))
