"""`/metrics` with TLS and RBAC: real tokens, real reviews."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.pki import Authority
from runner.settings import Settings
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.testing.identities import new_identity
from runner.testing.waiting import eventually
from tests.integration.observe.conftest import Scraped, scraped

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(gvk=GVK(RBAC, "v1", "ClusterRole"), plural="clusterroles", namespaced=False)
BINDINGS = Resource(gvk=GVK(RBAC, "v1", "ClusterRoleBinding"), plural="clusterrolebindings", namespaced=False)


@pytest.fixture
async def reader_token(kube: KubeClient, namespace: str) -> AsyncIterator[str]:
    """Give the token of an account that may get /metrics."""
    identity = await new_identity(kube, namespace=namespace, name="prometheus")
    name = f"metrics-reader-{namespace}"
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await kube.create(CLUSTER_ROLES, body={**head, "kind": "ClusterRole", "rules": [rule]})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}
    binding = {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    await kube.create(BINDINGS, body=binding)
    yield await identity.token()
    await kube.delete(BINDINGS, name=name)
    await kube.delete(CLUSTER_ROLES, name=name)


@pytest.fixture
async def secured(settings: Settings, tmp_path: Path) -> AsyncIterator[Scraped]:
    """Run an operator whose /metrics has TLS and access control."""
    serving = replace(
        settings.serving, metrics_secure=True, metrics_require_rbac=True, metrics_cert_dir=tmp_path / "certs"
    )
    async with running_operator([], settings=replace(settings, serving=serving), executor=ScriptedExecutor()) as it:
        servers = scraped(it)
        await eventually(lambda: servers.metrics.port)
        yield servers


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _read(servers: Scraped, token: str | None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = f"https://127.0.0.1:{servers.metrics.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=_trusting()) as answer:
        return answer.status, await answer.text()


async def test_only_who_may_get_metrics_reads_them(
    secured: Scraped, kube: KubeClient, namespace: str, reader_token: str
) -> None:
    """The right on the nonResourceURL opens, an account without it is 403, a wrong token or none is 401."""
    stranger = await (await new_identity(kube, namespace=namespace, name="stranger")).token()
    status, text = await _read(secured, reader_token)
    assert status == 200
    assert "ansible_operator_build_info" in text
    user = f"system:serviceaccount:{namespace}:stranger"
    assert await _read(secured, stranger) == (403, f"Authorization denied for user {user}\n")
    assert await _read(secured, "no-such-token") == (401, "Unauthorized\n")
    assert await _read(secured, None) == (401, "Unauthorized\n")


async def test_an_operator_without_the_right_to_ask_lets_nobody_in(
    settings: Settings, kube: KubeClient, namespace: str, reader_token: str, tmp_path: Path
) -> None:
    """Where the operator may not create token reviews the answer is 500, and the operator runs on."""
    identity = await new_identity(kube, namespace=namespace, name="operator")
    kubeconfig = await identity.kubeconfig(tmp_path / "kubeconfig", source=Path(settings.kube.kubeconfig))
    serving = replace(
        settings.serving, metrics_secure=True, metrics_require_rbac=True, metrics_cert_dir=tmp_path / "certs"
    )
    narrow = replace(settings, serving=serving, kube=replace(settings.kube, kubeconfig=str(kubeconfig)))
    async with running_operator([], settings=narrow, executor=ScriptedExecutor()) as operator:
        servers = scraped(operator)
        await eventually(lambda: servers.metrics.port)
        assert await _read(servers, reader_token) == (500, "Authentication failed\n")


async def test_a_mounted_certificate_is_served_and_followed(
    secured: Scraped, reader_token: str, tmp_path: Path
) -> None:
    """A certificate that appears after the start, and its renewal, are what the next connections get."""
    (tmp_path / "certs").mkdir()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        pair = Authority(tmp_path / name).issue("tls", common_name=name, hosts=["127.0.0.1"])
        for path in (pair, pair.with_suffix(".key")):
            path.replace(tmp_path / "certs" / path.name)
        assert (await _read(secured, reader_token))[0] == 200
        assert f"CN={name}" in await _subject(secured)


async def _subject(servers: Scraped) -> str:
    """Return whose certificate a new connection gets."""
    _, writer = await asyncio.open_connection("127.0.0.1", servers.metrics.port, ssl=_trusting())
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(found).subject.rfc4514_string()
