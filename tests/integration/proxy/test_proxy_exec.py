"""exec, attach, logs and port-forward through the proxy of a whole operator, down to a kubelet (field case PX3).

kubectl's WebSocket library takes no URL with a user name, and a run's kubeconfig has to have one: so runs speak SPDY
(`runner.execution.command` tells kubectl), and WebSockets are shown with a kubeconfig that names nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest

from runner.assembly import Shared
from runner.errors import Forbidden
from runner.kube.client import KubeClient
from runner.kube.objects import GVK
from runner.localdev.plane import ControlPlane
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import document_for
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator, settings_for
from runner.testing.kubeconfig import write_kubeconfig
from runner.testing.kubelet import PODS, ServingNode, serving_node
from runner.testing.waiting import eventually

POD = "busy"
MEBIBYTE = 2**20
PROTOCOLS = pytest.mark.parametrize("websockets", [True, False], ids=["websocket", "spdy"])


@dataclass(frozen=True, kw_only=True)
class Entered:
    """A Pod that runs on a node that serves, and a live run's way to it."""

    node: ServingNode
    kubectl: Path
    folder: Path
    """With the kubeconfig of a run, and one for the same proxy without credentials."""
    port: int
    """The proxy's."""
    namespace: str

    async def start(self, *arguments: str, websockets: bool = False) -> Process:
        """Start kubectl: with WebSockets as nobody, with SPDY as the run."""
        value = "true" if websockets else "false"
        environ = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": value, "KUBECTL_PORT_FORWARD_WEBSOCKETS": value, "HOME": "/"}
        config = self.folder / ("nobody.kubeconfig" if websockets else "run.kubeconfig")
        options = (f"--kubeconfig={config}", f"--namespace={self.namespace}")
        return await asyncio.create_subprocess_exec(
            self.kubectl, *options, *arguments, env=environ, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=2 * MEBIBYTE
        )

    async def run(
        self, *arguments: str, websockets: bool = False, given: bytes = b""
    ) -> tuple[int | None, bytes, bytes]:
        """Run kubectl to its end and return exit code, output and errors."""
        process = await self.start(*arguments, websockets=websockets)
        async with asyncio.timeout(120):
            output, errors = await process.communicate(given)
        return process.returncode, output, errors


@pytest.fixture
async def entered(plane: ControlPlane, kube: KubeClient, namespace: str, tmp_path: Path) -> AsyncIterator[Entered]:
    """Run a Pod on a node that serves, an operator with a proxy, and one of its runs."""
    taken: list[Shared] = []

    def adjust(shared: Shared) -> Shared:
        taken.append(shared)
        return shared

    settings = replace(settings_for(plane.kubeconfig), namespaces=(namespace,))
    owner = Owner(gvk=GVK("exec.example.com", "v1", "Probe"), namespace=namespace, name="probe", uid="1-2-3")
    async with (
        _echoing() as echo_port,
        serving_node(plane, kube=kube, folder=tmp_path, forward_to=echo_port) as node,
        running_operator([], settings=settings, executor=ScriptedExecutor(), adjust=adjust),
    ):
        await _run_pod(kube, node=node, namespace=namespace)
        (shared,) = taken
        await eventually(lambda: shared.access.port)
        port = shared.access.port
        assert port is not None
        write_kubeconfig(tmp_path / "nobody.kubeconfig", server=f"http://localhost:{port}")
        with shared.access.runs.open(owner=owner, run="run-1") as secret:
            config = tmp_path / "run.kubeconfig"
            config.touch(mode=0o600)
            config.write_text(json.dumps(document_for(owner, secret=secret, port=port)))
            kubectl = plane.assets.folder / "kubectl"
            yield Entered(node=node, kubectl=kubectl, folder=tmp_path, port=port, namespace=namespace)


@contextlib.asynccontextmanager
async def _echoing() -> AsyncIterator[int]:
    """Serve what a Pod's port leads to: bytes come back until the client ends."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _run_pod(kube: KubeClient, *, node: ServingNode, namespace: str) -> None:
    async def created() -> bool:
        try:
            await kube.create(PODS, namespace=namespace, body=node.pod(POD))
        except Forbidden:  # the namespace's service account isn't there yet
            return False
        return True

    await wait_until(created, what="the default ServiceAccount")

    async def running() -> bool:
        pod = await kube.get(PODS, namespace=namespace, name=POD)
        return bool(pod["status"].get("phase") == "Running")

    await wait_until(running, what=f"the Pod to run; {node.process.log}")


@contextlib.asynccontextmanager
async def _ending(process: Process) -> AsyncIterator[Process]:
    """End a program that goes on for as long as it is let."""
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@PROTOCOLS
async def test_kubectl_executes_a_command(entered: Entered, websockets: bool) -> None:  # noqa: FBT001 - a parameter
    """Its arguments arrive one by one and in their order, output and errors come apart, its failure is one."""
    script = 'printf "<%s>" "$@"; echo wrong >&2; exit 1'
    arguments = ("exec", POD, "--", "sh", "-c", script, "sh", "a b", "", "a b", "&c=d/%2F")
    code, output, errors = await entered.run(*arguments, websockets=websockets)
    assert output == b"<a b><><a b><&c=d/%2F>"
    assert b"wrong" in errors
    assert code == 1  # this kubelet passes no number on


@PROTOCOLS
async def test_a_mebibyte_goes_into_a_command_and_back(entered: Entered, websockets: bool) -> None:  # noqa: FBT001 - a parameter
    """Standard input and output are one stream of bytes through proxy, API server and kubelet."""
    data = os.urandom(MEBIBYTE)
    arguments = ("exec", "-i", POD, "--", "head", "-c", str(MEBIBYTE))
    code, output, errors = await entered.run(*arguments, websockets=websockets, given=data)
    assert (code, errors) == (0, b"")
    assert output == data


async def test_kubectl_follows_a_log(entered: Entered) -> None:
    """A line that is written while it follows arrives at once, and not only with the log's end."""
    entered.node.say("first")
    async with _ending(await entered.start("logs", "-f", POD)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"first\n"
            entered.node.say("second")
            assert await process.stdout.readline() == b"second\n"


@PROTOCOLS
async def test_kubectl_attaches(entered: Entered, websockets: bool) -> None:  # noqa: FBT001 - a parameter
    """What the container says from then on arrives."""
    async with _ending(await entered.start("attach", POD, websockets=websockets)) as process:
        assert process.stdout is not None
        line = asyncio.create_task(process.stdout.readline())
        async with asyncio.timeout(60):
            while not line.done():  # nothing tells when it is attached
                entered.node.say("again")
                await asyncio.wait({line}, timeout=0.2)
        assert line.result() == b"again\n"


@PROTOCOLS
async def test_kubectl_forwards_a_port(entered: Entered, websockets: bool) -> None:  # noqa: FBT001 - a parameter
    """A mebibyte goes to the Pod's port and back, and a second connection after it."""
    data = os.urandom(MEBIBYTE)
    async with _ending(await entered.start("port-forward", f"pod/{POD}", ":80", websockets=websockets)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            told = await process.stdout.readline()
            local = int(told.decode().split(" -> ")[0].rpartition(":")[2])
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", local)
                writer.write(data)
                assert await reader.readexactly(MEBIBYTE) == data
                writer.close()


async def test_the_protocol_is_the_one_that_the_api_server_chose(entered: Entered) -> None:
    """`Sec-WebSocket-Protocol` goes there and comes back: v5 where it is offered, else v4."""
    path = f"/api/v1/namespaces/{entered.namespace}/pods/{POD}/exec?command=echo&command=a&stdout=true"
    async with aiohttp.ClientSession() as session:
        for offered in (("v5.channel.k8s.io", "v4.channel.k8s.io"), ("v4.channel.k8s.io",)):
            url = f"http://127.0.0.1:{entered.port}{path}"
            async with session.ws_connect(url, protocols=offered) as socket:
                assert socket.protocol == offered[0]
                messages = [message.data async for message in socket]
            assert b"\x01a\n" in messages


async def test_a_command_in_a_pod_that_is_not_there_is_refused_by_the_api_server(entered: Entered) -> None:
    """The client sees the API server's own answer, whichever protocol it asked for."""
    code, _, errors = await entered.run("exec", "nobody", "--", "true")
    assert code == 1
    assert b'pods "nobody" not found' in errors


async def test_a_run_that_is_over_enters_nothing(entered: Entered) -> None:
    """The layers before the tunnel see it: a wrong secret gets 403 and a sentence, and no connection is made."""
    path = f"/api/v1/namespaces/{entered.namespace}/pods/{POD}/exec?command=true&stdout=true"
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "Authorization": aiohttp.encode_basic_auth("a", "b")}
    url = f"http://127.0.0.1:{entered.port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, headers=headers) as answer:
        assert answer.status == 403
        assert (await answer.json())["kind"] == "Status"


async def test_fifty_commands_leave_no_file_and_no_task(entered: Entered) -> None:
    """The operator's open files and tasks are as many after fifty tunnels as before."""
    path = f"/api/v1/namespaces/{entered.namespace}/pods/{POD}/exec?command=echo&command=a&stdout=true"

    async def one() -> None:
        url = f"http://127.0.0.1:{entered.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=("v4.channel.k8s.io",)) as socket,
        ):
            assert b"\x01a\n" in [message.data async for message in socket]

    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    await one()
    before, tasks = files(), len(asyncio.all_tasks())
    for _ in range(5):
        await asyncio.gather(*(one() for _ in range(10)))
    await eventually(lambda: files() <= before and len(asyncio.all_tasks()) <= tasks)
