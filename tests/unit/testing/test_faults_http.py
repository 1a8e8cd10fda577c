"""The HTTP fault proxy: it lets requests through until a rule says otherwise."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.errors import Conflict, ConnectionFailed, Forbidden, NotFound, ServerError, TooManyRequests
from runner.kube.client import KubeClient
from runner.settings import KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.cluster import SECRETS
from runner.testing.faults import HttpFaultProxy, Rule

BODY = {"metadata": {"name": "a"}, "data": {"k": "v"}}


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[Path]:
    """Give the kubeconfig of a server with one Secret, `a`; it wants a token."""
    async with FakeApiServer() as server:
        server.define(SECRETS)
        server.put(SECRETS, body=BODY, namespace="ns")
        server.token = "secret"
        yield server.kubeconfig(tmp_path / "upstream", user={"token": "secret"})


@pytest.fixture
async def proxy(upstream: Path) -> AsyncIterator[HttpFaultProxy]:
    """Give a proxy in front of it."""
    async with HttpFaultProxy(upstream_kubeconfig=upstream) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: HttpFaultProxy, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """Give a client of the proxy, without credentials of its own."""
    kubeconfig = proxy.kubeconfig(tmp_path / "proxy")
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        yield client


async def test_requests_pass_with_the_credentials_of_the_kubeconfig(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """Without rules the proxy only adds credentials and keeps a log with bodies."""
    assert (await client.get(SECRETS, namespace="ns", name="a"))["data"] == {"k": "v"}
    await client.create(SECRETS, namespace="ns", body={"metadata": {"name": "b"}})
    with pytest.raises(NotFound):
        await client.get(SECRETS, namespace="ns", name="nothing")
    assert [record.method for record in proxy.requests] == ["GET", "POST", "GET"]
    assert proxy.requests[1].path == "/api/v1/namespaces/ns/secrets"
    assert b'"b"' in proxy.requests[1].body


async def test_a_rule_answers_the_first_requests_that_match(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """A rule with `times` answers that many requests, and lets all others through."""
    conflict = proxy.rule(Rule(method="PUT|PATCH", path="/secrets/a$", times=2, status=409))
    for _ in range(2):
        with pytest.raises(Conflict, match="injected by the fault proxy"):
            await client.replace(SECRETS, body={"metadata": {"name": "a", "namespace": "ns"}})
    await client.get(SECRETS, namespace="ns", name="a")
    await client.replace(SECRETS, body={"metadata": {"name": "a", "namespace": "ns"}})
    assert conflict.hits == 2


async def test_earlier_rules_go_first_and_can_be_cancelled(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """The first rule that still applies answers; a cancelled one does not apply."""
    first = proxy.rule(Rule(path="/secrets", status=403))
    proxy.rule(Rule(path="/secrets", status=503))
    with pytest.raises(Forbidden):
        await client.list(SECRETS)
    first.cancel()
    with pytest.raises(ServerError):
        await client.list(SECRETS)
    proxy.clear()
    assert len(await client.list(SECRETS)) == 1


async def test_headers_and_body_of_an_answer_can_be_chosen(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """Retry-After and a body of one's own reach the client."""
    proxy.rule(Rule(status=429, times=1, headers={"Retry-After": "7"}))
    proxy.rule(Rule(status=200, times=1, body={"items": [], "metadata": {}}))
    with pytest.raises(TooManyRequests) as caught:
        await client.list(SECRETS)
    assert caught.value.retry_after == 7.0
    assert await client.list(SECRETS) == []


async def test_a_held_request_waits_for_its_release(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """A held request reaches the server only when it is released; others pass it."""
    held = proxy.rule(Rule(method="GET", path="/secrets/a", hold=True))
    waiting = asyncio.create_task(client.get(SECRETS, namespace="ns", name="a"))
    await held.wait_hit()
    await client.delete(SECRETS, namespace="ns", name="a")
    assert not waiting.done()
    held.release()
    with pytest.raises(NotFound):
        await waiting


async def test_an_answer_can_be_lost_after_the_request_was_executed(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """With `execute` the server does what was asked, and the client never learns of it."""
    proxy.rule(Rule(method="DELETE", lose=True, execute=True))
    with pytest.raises(ConnectionFailed):
        await client.delete(SECRETS, namespace="ns", name="a")
    with pytest.raises(NotFound):
        await client.get(SECRETS, namespace="ns", name="a")


async def test_a_request_can_be_lost_on_its_way(client: KubeClient, proxy: HttpFaultProxy) -> None:
    """Without `execute` the server never hears of it."""
    proxy.rule(Rule(method="DELETE", lose=True))
    with pytest.raises(ConnectionFailed):
        await client.delete(SECRETS, namespace="ns", name="a")
    assert await client.get(SECRETS, namespace="ns", name="a")


async def test_the_kubeconfig_is_for_its_owner_only(proxy: HttpFaultProxy, tmp_path: Path) -> None:
    """Kubeconfigs are written with mode 0600, also over an older file."""
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o644)
    assert stat.S_IMODE(proxy.kubeconfig(path).stat().st_mode) == 0o600


async def test_the_upstream_can_be_spoken_to_as_somebody_else(upstream: Path, tmp_path: Path) -> None:
    """With `impersonate` requests carry that user's name."""
    async with HttpFaultProxy(upstream_kubeconfig=upstream) as behind:
        async with (
            HttpFaultProxy(upstream_kubeconfig=behind.kubeconfig(tmp_path / "behind"), impersonate="jane") as proxy,
            KubeClient(settings=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "front")))) as client,
        ):
            await client.list(SECRETS)
        assert behind.requests[0].headers["Impersonate-User"] == "jane"
