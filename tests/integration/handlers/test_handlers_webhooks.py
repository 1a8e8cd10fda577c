"""Admission handlers: what the API server is told of them, and what a person gets to read."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from runner.errors import Invalid, KubeError, NotFound
from runner.kube.discovery import Resource
from runner.kube.objects import GVK
from runner.localdev.ports import free_ports
from runner.observe.endpoint_tls import self_signed_pair
from runner.settings import HandlersSettings
from runner.testing.cluster import wait_until
from runner.testing.waiting import eventually
from tests.integration.handlers.conftest import Scene

VALIDATES = """
    @kopf.on.validate("gadgets.handlers.example.com", ignore_failures=True)
    async def check_size(spec, warnings, **_):
        if spec.get("size", 0) > 9:
            raise kopf.AdmissionError("spec.size must not be above 9", code=422)
        if "secret" in spec:
            warnings.append("spec.secret names a Secret that isn't there")
"""
VALIDATING = Resource(
    gvk=GVK("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    plural="validatingwebhookconfigurations",
    namespaced=False,
)
"""The kind of what tells the API server of webhooks."""


@pytest.fixture
async def hooked(scene: Scene) -> AsyncIterator[Scene]:
    """Give a scene whose handlers validate, with a configuration of its own that is gone afterwards."""
    scene.handlers(VALIDATES)
    (port,) = free_ports(1)
    scene.settings = replace(
        scene.settings,
        handlers=HandlersSettings(
            webhook_bind_address=f"127.0.0.1:{port}",
            webhook_configuration=f"{scene.namespace}.example.com",
            webhook_cert_dir=scene.file.parent / "certificates",
        ),
    )
    yield scene
    try:
        await scene.kube.delete(VALIDATING, name=f"{scene.namespace}.example.com")
    except NotFound:
        return


async def test_an_object_is_refused_with_the_handlers_sentence(hooked: Scene) -> None:
    """What a handler refuses doesn't get in, and the person reads why; the rest gets in; it isn't an error of ours."""
    async with hooked.operator():
        await _asked(hooked)
        with pytest.raises(Invalid, match="must not be above 9"):
            await hooked.create("large", size=10)
        await hooked.create("small", size=9)
        assert hooked.shared is not None
        assert "ansible_operator_handler_errors_total{" not in hooked.shared.metrics.text()


async def test_objects_of_other_namespaces_are_not_judged(hooked: Scene) -> None:
    """With WATCH_NAMESPACE an object of another namespace gets in, whatever the handler thinks of it."""
    gvk = hooked.resource.gvk
    async with hooked.operator():
        await _asked(hooked)
        metadata = {"name": hooked.namespace, "namespace": "default"}
        body = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, "spec": {"size": 10}}
        await hooked.kube.create(hooked.resource, namespace="default", body=body)
        await hooked.kube.delete(hooked.resource, namespace="default", name=hooked.namespace)


async def test_the_configuration_is_the_decorators(hooked: Scene) -> None:
    """The failure policy is Ignore where the handler says so, and the certificate is the one that is served."""
    async with hooked.operator():
        await _asked(hooked)
        found = await hooked.kube.get(VALIDATING, name=f"{hooked.namespace}.example.com")
        (webhook,) = found["webhooks"]
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["clientConfig"]["url"].endswith("/check-size")
        assert b"BEGIN CERTIFICATE" in base64.b64decode(webhook["clientConfig"]["caBundle"])
    found = await hooked.kube.get(VALIDATING, name=f"{hooked.namespace}.example.com")
    assert not found.get("webhooks")  # a stopped operator leaves nothing that the API server would call


async def test_a_mounted_certificate_is_served(hooked: Scene) -> None:
    """With tls.crt and tls.key in the folder the server shows them, and ca.crt is what the API server trusts."""
    folder: Path = hooked.settings.handlers.webhook_cert_dir
    folder.mkdir()
    certificate, key = self_signed_pair("127.0.0.1")
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    (folder / "ca.crt").write_bytes(certificate)
    async with hooked.operator():
        await _asked(hooked)
        found = await hooked.kube.get(VALIDATING, name=f"{hooked.namespace}.example.com")
        assert base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]) == certificate


async def test_a_service_is_named_where_the_api_server_cannot_call_the_address(hooked: Scene) -> None:
    """With `--webhook-service` the configuration names it, and the certificate has its DNS name."""
    settings = replace(hooked.settings.handlers, webhook_service=f"{hooked.namespace}/hooks")
    async with hooked.operator(handlers=settings):
        await wait_until(lambda: _webhooks(hooked), what="the configuration")
        found = await hooked.kube.get(VALIDATING, name=f"{hooked.namespace}.example.com")
        service = found["webhooks"][0]["clientConfig"]["service"]
        assert (service["namespace"], service["name"], service["path"]) == (hooked.namespace, "hooks", "/check-size")
        host, _, port = settings.webhook_bind_address.rpartition(":")
        pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
        certificate = x509.load_pem_x509_certificate(pem.encode())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert f"hooks.{hooked.namespace}.svc" in names.get_values_for_type(x509.DNSName)


async def _asked(scene: Scene) -> None:
    """Return when the API server asks the handler."""
    await eventually(lambda: scene.told("Serving admission webhooks"))
    await wait_until(lambda: _webhooks(scene), what="the configuration")

    async def refused() -> bool:
        body = {
            "apiVersion": scene.resource.gvk.api_version,
            "kind": scene.resource.gvk.kind,
            "metadata": {"name": "try", "namespace": scene.namespace},
            "spec": {"size": 11},
        }
        try:
            await scene.kube.create(scene.resource, namespace=scene.namespace, body=body)
        except KubeError:
            return True
        await scene.delete("try")
        return False

    await wait_until(refused, what="the API server to ask")


async def _webhooks(scene: Scene) -> bool:
    try:
        found = await scene.kube.get(VALIDATING, name=f"{scene.namespace}.example.com")
    except NotFound:
        return False
    return bool(found.get("webhooks"))
