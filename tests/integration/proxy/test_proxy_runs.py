"""A run speaks to the API server through its operator's proxy: real clients, real plays, and what ends with the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from runner.assembly import Shared, cold_executor
from runner.assembly.run_access import RunAccess
from runner.clock import SystemClock
from runner.execution.executor import Executor
from runner.kube.client import KubeClient
from runner.kube.objects import GVK, uid_of
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.observe.metrics import Metrics
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import username_of
from runner.proxy.runs import LEADERSHIP_LOST
from runner.settings import Settings, environment
from runner.testing.cluster import CONFIG_MAPS, crd, install_crd, wait_until
from runner.testing.executor import ScriptedExecutor, run_request
from runner.testing.harness import running_operator, settings_for
from runner.testing.waiting import eventually
from runner.watches.model import Content, Watch
from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.reconcile.conftest import Probes

WEB = GVK("runs.proxy.example.com", "v1", "Web")
FAKE = Owner(gvk=GVK("bugs.example.com", "v1", "Probe"), namespace="default", name="probe", uid="8d7f0f0c")
"""What `run_request` is about."""
OFFICIAL_CLIENT = """
import sys
from kubernetes import client, config
config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="made"))
api.create_namespaced_config_map(sys.argv[2], body)
print(api.read_namespaced_config_map("made", sys.argv[2]).metadata.name)
"""


@dataclass(frozen=True, kw_only=True)
class Proxied:
    """An operator whose proxy listens."""

    access: RunAccess
    metrics: Metrics

    @property
    def url(self) -> str:
        """Return where the proxy listens."""
        return f"http://localhost:{self.access.port}"

    def counted(self, caller: str, code: int) -> bool:
        """Tell whether a request of *caller* was answered with *code*."""
        return f'ansible_operator_proxy_requests_total{{caller="{caller}",code="{code}"}}' in self.metrics.text()

    async def get(self, path: str, *, user: str = "", password: str = "") -> tuple[int, str]:
        """Ask the proxy, and return status and message (empty where it is no `Status`)."""
        headers = {"Authorization": aiohttp.encode_basic_auth(user, password)} if user else {}
        async with aiohttp.ClientSession() as session, session.get(self.url + path, headers=headers) as answer:
            body = await answer.json()
            return answer.status, str(body.get("message", ""))


@pytest.fixture
def settings(plane: ControlPlane, namespace: str) -> Settings:
    """Watch the test's namespace only."""
    return replace(settings_for(plane.kubeconfig), namespaces=(namespace,))


@pytest.fixture
async def proxied(settings: Settings) -> AsyncIterator[Proxied]:
    """Give an operator without a kind, but with a proxy."""
    async with proxied_operator(settings) as proxied:
        yield proxied


@contextlib.asynccontextmanager
async def proxied_operator(settings: Settings) -> AsyncIterator[Proxied]:
    """Run an operator without a kind for a block."""
    taken: list[Shared] = []

    def adjust(shared: Shared) -> Shared:
        taken.append(shared)
        return shared

    async with running_operator([], settings=settings, executor=ScriptedExecutor(), adjust=adjust):
        (shared,) = taken
        await eventually(lambda: shared.access.port)
        yield Proxied(access=shared.access, metrics=shared.metrics)


async def output_of(*argv: str) -> str:
    """Run a program while the proxy goes on in this loop, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_kubectl_speaks_for_the_run(
    proxied: Proxied, plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Kubectl takes user and secret from the kubeconfig, lists, and creates."""
    if plane.assets.kubectl is None:
        pytest.skip("the control plane that was built has no kubectl")
    kubectl = str(plane.assets.kubectl)
    with proxied.access.for_run(run_request(), folder=tmp_path) as kubeconfig:
        where = (f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", f"--cache-dir={tmp_path / 'cache'}")
        await output_of(kubectl, *where, "create", "configmap", "made")
        assert "configmap/made" in (await output_of(kubectl, *where, "get", "configmaps", "--output=name")).split()
    assert proxied.counted("run", 201)
    assert not proxied.counted("refused", 403)
    assert not proxied.counted("none", 200)


async def test_curl_speaks_for_the_run(proxied: Proxied, namespace: str, tmp_path: Path) -> None:
    """The server's URL in the kubeconfig is all that curl needs."""
    with proxied.access.for_run(run_request(), folder=tmp_path) as kubeconfig:
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        answer = await output_of("curl", "-sS", "--fail", f"{server}/api/v1/namespaces/{namespace}")
    assert json.loads(answer)["metadata"]["name"] == namespace
    assert proxied.counted("run", 200)


@pytest.mark.parametrize("core", CORES)
async def test_the_official_client_speaks_for_the_run(
    core: str, proxied: Proxied, namespace: str, tmp_path: Path
) -> None:
    """The Python clients that go with either ansible-core, 37 and 33, read the user entry."""
    script = tmp_path / "script.py"
    script.write_text(OFFICIAL_CLIENT)
    with proxied.access.for_run(run_request(), folder=tmp_path) as kubeconfig:
        output = await output_of(interpreter_of(core), str(script), str(kubeconfig), namespace)
    assert output.split() == ["made"]
    assert proxied.counted("run", 201)
    assert not proxied.counted("none", 200)


async def test_the_kubeconfig_is_private_and_goes_with_the_run(proxied: Proxied, tmp_path: Path) -> None:
    """The file has mode 0600; afterwards it is gone, and its credentials are refused with what happened."""
    with proxied.access.for_run(run_request(ident="7"), folder=tmp_path) as kubeconfig:
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        credentials = {"user": user["username"], "password": user["password"]}
        status, _ = await proxied.get("/api/v1/namespaces", **credentials)
        assert status == 200
    assert not kubeconfig.exists()
    status, message = await proxied.get("/api/v1/namespaces", **credentials)
    assert (status, message.startswith("the run 7 is over")) == (403, True)
    assert proxied.counted("refused", 403)


async def test_the_peers_password_opens_nothing(proxied: Proxied, tmp_path: Path) -> None:
    """While a run lives, its owner's identity alone is refused, also for reading."""
    with proxied.access.for_run(run_request(), folder=tmp_path):
        status, message = await proxied.get("/api/v1/namespaces", user=username_of(FAKE), password="unused")
    assert (status, "no live run of this operator" in message) == (403, True)


async def test_requests_without_credentials_are_passed_and_counted(proxied: Proxied) -> None:
    """A webhook beside the operator reaches the API server as on the peer; a metric tells how often."""
    status, _ = await proxied.get("/api/v1/namespaces")
    assert status == 200
    assert proxied.counted("none", 200)


async def test_an_operator_that_injects_nothing_still_knows_its_runs(
    settings: Settings, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """With --inject-owner-ref=false what a run makes has no owner, and an identity still needs its secret."""
    without = replace(settings, proxy=replace(settings.proxy, inject_owner_references=False))
    async with proxied_operator(without) as proxied:
        with proxied.access.for_run(run_request(), folder=tmp_path) as kubeconfig:
            await output_of(sys.executable, "-c", OFFICIAL_CLIENT, str(kubeconfig), namespace)
        status, _ = await proxied.get("/api/v1/namespaces", user=username_of(FAKE), password="unused")
    assert status == 403
    made = await kube.get(CONFIG_MAPS, name="made", namespace=namespace)
    assert "ownerReferences" not in made["metadata"]
    assert "operator-sdk/primary-resource" not in made["metadata"].get("annotations", {})


async def test_a_run_of_a_lost_leadership_is_shut_out(proxied: Proxied, tmp_path: Path) -> None:
    """From the moment of the loss a run neither reads nor writes, and it is told why."""
    with proxied.access.for_run(run_request(), folder=tmp_path) as kubeconfig:
        user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        proxied.access.runs.close_all(LEADERSHIP_LOST)
        answer = await proxied.get("/api/v1/namespaces", user=user["username"], password=user["password"])
    assert answer == (403, LEADERSHIP_LOST)


TASKS = """
- kubernetes.core.k8s:
    definition:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: by-run, namespace: "{{ ansible_operator_meta.namespace }}"}
- kubernetes.core.k8s_info: {kind: ConfigMap, namespace: "{{ ansible_operator_meta.namespace }}", name: by-run}
  register: found
- ansible.builtin.assert: {that: found.resources | length == 1}
- operator_sdk.util.k8s_status:
    api_version: runs.proxy.example.com/v1
    kind: Web
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status: {seen: "yes"}
- ansible.builtin.shell: ls -A "$TMPDIR"
  register: listed
- ansible.builtin.copy: {dest: "{{ out }}", content: "{{ listed.stdout_lines | to_json }}"}
"""


@pytest.mark.parametrize("core", CORES)
async def test_a_play_s_modules_speak_through_the_proxy(
    core: str, kube: KubeClient, settings: Settings, namespace: str, tmp_path: Path
) -> None:
    """kubernetes.core and our own modules work, though the environment names an HTTP proxy; no discovery file stays."""
    webs = Probes(kube=kube, resource=await install_crd(kube, crd("Web", group=WEB.group)), namespace=namespace)
    playbook = tmp_path / "main.yml"
    playbook.write_text(yaml.safe_dump([_play(tmp_path)]))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    dead = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:1")
    unset = ("ANSIBLE_", "VIRTUAL_", "NO_PROXY", "no_proxy")
    inherited = {name: value for name, value in environment().items() if not name.startswith(unset)}
    execution = replace(
        settings.execution,
        runner_dir=tmp_path / "runner",
        environ={**inherited, **dead, "TMPDIR": str(temporary)},
        ansible_python=interpreter_of(core),
    )
    metrics: list[Metrics] = []

    def executor(access: RunAccess) -> Executor:
        return cold_executor(
            settings=replace(settings, execution=execution),
            access=access,
            logger=Logger(sink=RecordingSink()),
            clock=SystemClock(),
        )

    def adjust(shared: Shared) -> Shared:
        metrics.append(shared.metrics)
        return shared

    watch = Watch(gvk=WEB, content=Content(playbook=playbook))
    async with running_operator([watch], settings=settings, executor=executor, adjust=adjust):
        await webs.create("one")
        await wait_until(lambda: _told(webs), what="the run", limit=300)
    assert (await webs.get("one"))["status"]["seen"] == "yes", (await webs.get("one"))["status"]
    made = await kube.get(CONFIG_MAPS, name="by-run", namespace=namespace)
    assert [entry["uid"] for entry in made["metadata"]["ownerReferences"]] == [uid_of(await webs.get("one"))]
    listed = json.loads((tmp_path / "listed.json").read_text())
    assert any(name.startswith(("k8srcp-", "osrcp-")) for name in listed)
    assert list(temporary.iterdir()) == []
    assert 'caller="none"' not in metrics[0].text()


def _play(folder: Path) -> Mapping[str, Any]:
    variables = {"out": str(folder / "listed.json")}
    return {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": yaml.safe_load(TASKS)}


async def _told(webs: Probes) -> bool:
    conditions = (await webs.get("one")).get("status", {}).get("conditions", [])
    return any(entry["type"] in {"Successful", "Failure"} and entry["status"] == "True" for entry in conditions)
