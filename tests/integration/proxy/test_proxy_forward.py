"""Plain forwarding against the real API server: watches, large lists, and the clients that people use."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from runner.kube.access import Access, AccessSource
from runner.kube.client import KubeClient
from runner.localdev.plane import ControlPlane
from runner.logs import Logger
from runner.proxy.forward import Forward
from runner.proxy.server import ProxyServer
from runner.settings import KubeSettings
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.kubeconfig import write_kubeconfig

OWN_TO_EACH_ANSWER = {"Date", "Audit-Id"}


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The proxy's address, and the access that it uses itself."""

    proxy: str
    access: Access
    session: aiohttp.ClientSession

    async def both(
        self, method: str, target: str, headers: dict[str, str]
    ) -> tuple[tuple[int, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]:
        """Return the answers (status, headers, body as it came) directly and through the proxy."""
        own = headers | dict(self.access.headers)
        async with self.session.request(
            method, self.access.url(target), headers=own, ssl=self.access.ssl or True
        ) as one:
            direct = (one.status, _comparable(one), await one.read())
        async with self.session.request(method, f"{self.proxy}{target}", headers=headers) as other:
            return direct, (other.status, _comparable(other), await other.read())


def _comparable(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in OWN_TO_EACH_ANSWER}


@pytest.fixture
async def ways(plane: ControlPlane) -> AsyncIterator[Ways]:
    """Give a proxy in front of the control plane."""
    source = AccessSource(settings=KubeSettings(kubeconfig=str(plane.kubeconfig)))
    forward = Forward(access=source)
    server = ProxyServer(handler=forward, port=0, logger=Logger())
    await server.start()
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            yield Ways(proxy=f"http://127.0.0.1:{server.port}", access=await source.current(), session=session)
    finally:
        await server.stop()
        await forward.close()


async def test_a_watch_streams_live(ways: Ways, kube: KubeClient, namespace: str) -> None:
    """Each event of a watch is at the client before the next change is made."""
    target = f"{ways.proxy}/api/v1/namespaces/{namespace}/configmaps?watch=1&labelSelector=live"
    async with asyncio.timeout(60), ways.session.get(target) as watch:
        for number in range(3):
            metadata = {"name": f"live-{number}", "labels": {"live": ""}}
            await kube.create(CONFIG_MAPS, namespace=namespace, body={"metadata": metadata})
            event = json.loads(await watch.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", f"live-{number}")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_list_of_five_mebibytes(ways: Ways, kube: KubeClient, namespace: str, encoding: str) -> None:
    """A large list comes through the proxy as it comes directly, compressed or not."""
    for number in range(6):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"text": f"{number:08}" * (112 * 1024)}}
        await kube.create(CONFIG_MAPS, namespace=namespace, body=body)
    target = f"/api/v1/namespaces/{namespace}/configmaps"
    direct, proxied = await ways.both("GET", target, {"Accept-Encoding": encoding})
    assert [answer[1].get("Content-Encoding", "identity") for answer in (direct, proxied)] == [encoding] * 2
    plain = [gzip.decompress(answer[2]) if encoding == "gzip" else answer[2] for answer in (direct, proxied)]
    assert len(plain[1]) > 5 * 1024 * 1024
    assert json.loads(plain[1])["items"] == json.loads(plain[0])["items"]


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/version", {}),
        ("GET", "/apis/apps/v1", {"Accept": "application/vnd.kubernetes.protobuf"}),
        ("GET", "/api/v1/namespaces/default", {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}),
        ("GET", "/api/v1/namespaces/none/secrets/none", {}),
        ("GET", "/no/such//path%2F", {}),
        ("HEAD", "/api/v1/namespaces/default", {}),
        ("OPTIONS", "/api/v1/pods", {}),
        ("DELETE", "/api/v1/namespaces/default/configmaps/none", {}),
        ("GET", "/openapi/v3", {"If-None-Match": '"none"'}),
        ("GET", "/api/v1/pods?limit=no", {}),
    ],
)
async def test_answers_are_the_api_servers_own(ways: Ways, method: str, target: str, headers: dict[str, str]) -> None:
    """Status, headers and body are the same directly and through the proxy."""
    for _ in range(5):  # a Table tells ages, and a second may pass between the two
        direct, proxied = await ways.both(method, target, headers)
        if proxied == direct:
            break
    assert proxied == direct


async def test_kubectl_works_through_it(ways: Ways, plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Kubectl applies (server side, too), gets, watches and deletes through the proxy."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server=ways.proxy, user={"username": "u", "password": "p"})
    manifest = tmp_path / "map.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {a: b}\n", encoding="utf-8")

    async def kubectl(*arguments: str) -> str:
        command = [str(plane.assets.kubectl), f"--kubeconfig={kubeconfig}", "-n", namespace, *arguments]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=tmp_path)
        output, _ = await process.communicate()
        assert process.returncode == 0, arguments
        return output.decode()

    cache = f"--cache-dir={tmp_path / 'cache'}"
    assert await kubectl("apply", cache, "-f", str(manifest)) == "configmap/made created\n"
    assert "serverside-applied" in await kubectl(
        "apply", cache, "--server-side", "--force-conflicts", "-f", str(manifest)
    )
    assert "made" in await kubectl("get", cache, "configmaps")
    assert (
        await kubectl("wait", cache, "--for=jsonpath={.data.a}=b", "configmap/made") == "configmap/made condition met\n"
    )
    assert "deleted" in await kubectl("delete", cache, "-f", str(manifest))
