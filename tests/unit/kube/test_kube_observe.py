"""What the client reports of its requests, for `rest_client_requests_total`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from runner.errors import Call, KubeError
from runner.kube.client import KubeClient
from runner.settings import KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.cluster import CONFIG_MAPS
from runner.testing.kubeconfig import write_kubeconfig


class Requests:
    """Keeps what it is told."""

    def __init__(self) -> None:
        """Start with none."""
        self.seen: list[tuple[str, str, str]] = []

    def __call__(self, method: str, *, code: str, host: str) -> None:
        """Keep one request."""
        self.seen.append((method, code, host))


async def _ask(kubeconfig: Path, requests: Requests, *paths: str, method: str = "GET") -> None:
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig)), observe=requests) as client:
        for path in paths:
            with contextlib.suppress(KubeError):
                await client.request(method, path, call=Call(verb="get"))


async def test_each_answer_is_told_with_its_code(tmp_path: Path) -> None:
    """Method, status and host with port of every answer, failures too."""
    requests = Requests()
    async with FakeApiServer() as server:
        server.define(CONFIG_MAPS)
        await _ask(server.kubeconfig(tmp_path / "kubeconfig"), requests, "/api/v1", "/nowhere")
        host = f"127.0.0.1:{server.port}"
    assert requests.seen == [("GET", "200", host), ("GET", "404", host)]


async def test_both_tries_with_refused_credentials_are_told(tmp_path: Path) -> None:
    """A 401 and the repetition with credentials that were read again are two requests."""
    requests = Requests()
    async with FakeApiServer() as server:
        server.token = "good"
        await _ask(server.kubeconfig(tmp_path / "kubeconfig", user={"token": "bad"}), requests, "/api/v1")
    assert [code for _, code, _ in requests.seen] == ["401", "401"]


async def test_a_request_without_an_answer_is_told(tmp_path: Path) -> None:
    """Where nobody answers, the code is client-go's `<error>`."""
    requests = Requests()
    async with FakeApiServer() as server:
        url = server.url
    await _ask(write_kubeconfig(tmp_path / "kubeconfig", server=url), requests, "/api/v1", method="POST")
    assert requests.seen == [("POST", "<error>", url.removeprefix("http://"))]
