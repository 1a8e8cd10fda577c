"""The server of admission handlers, without kopf behind it: whom it asks, and whom it doesn't."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509

from runner.handlers.webhooks import Webhooks
from runner.localdev.ports import free_ports
from runner.logs import Logger, RecordingSink
from runner.settings import HandlersSettings

REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "7", "namespace": "ours"}}


async def refuse(request: Any, *, webhook: str | None = None, **_: Any) -> Any:
    """Refuse everything."""
    return {"response": {"uid": request["request"]["uid"], "allowed": False}, "asked": webhook}


@contextlib.asynccontextmanager
async def serving(
    folder: Path, *, namespaces: tuple[str, ...] = (), obstacle: str = "", service: str = ""
) -> AsyncIterator[str]:
    """Serve handlers that refuse; yield the address."""

    async def told(webhook: str) -> str:
        return f"{webhook}: {obstacle}" if obstacle else ""

    (port,) = free_ports(1)
    settings = HandlersSettings(
        webhook_bind_address=f"127.0.0.1:{port}", webhook_cert_dir=folder / "none", webhook_service=service
    )
    logger = Logger("handlers", sink=RecordingSink())
    server = Webhooks(settings, logger=logger, namespaces=namespaces, obstacle=told)
    listening = asyncio.Event()

    async def serve() -> None:
        async for _ in server(refuse):
            listening.set()

    task = asyncio.create_task(serve())
    try:
        await listening.wait()
        yield f"https://127.0.0.1:{port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(url: str, review: dict[str, Any]) -> tuple[int, Any]:
    """Send *review*; return status and answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as session, session.post(url, json=review, ssl=context) as response:
        body = await response.json() if response.content_type == "application/json" else await response.text()
        return response.status, body


@pytest.mark.parametrize(("namespace", "allowed"), [("ours", False), ("theirs", True), (None, False)])
async def test_only_objects_of_the_operators_namespaces_are_judged(
    tmp_path: Path, *, namespace: str | None, allowed: bool
) -> None:
    """With WATCH_NAMESPACE handlers aren't asked for other namespaces; what is in no namespace is judged."""
    request = {"uid": "7"} if namespace is None else {"uid": "7", "namespace": namespace}
    async with serving(tmp_path, namespaces=("ours",)) as url:
        status, answer = await ask(url, {**REVIEW, "request": request})
    assert (status, answer["response"]) == (200, {"uid": "7", "allowed": allowed})


async def test_while_something_is_in_the_way_the_failure_policy_decides(tmp_path: Path) -> None:
    """The answer is 503 with the reason, and no handler is asked."""
    async with serving(tmp_path, obstacle="not yet") as url:
        assert await ask(f"{url}/check-size", REVIEW) == (503, "check-size: not yet")


async def test_nothing_in_the_way_all_are_judged(tmp_path: Path) -> None:
    """Without WATCH_NAMESPACE there is no foreign namespace; at `/` all handlers answer."""
    async with serving(tmp_path) as url:
        assert (await ask(url, REVIEW))[1]["asked"] is None
        assert (await ask(f"{url}/check-size", REVIEW))[1]["asked"] == "check-size"


async def test_the_certificate_of_a_service_has_its_name(tmp_path: Path) -> None:
    """The API server calls the Service by its DNS name."""
    async with serving(tmp_path, service="space/hooks") as url:
        host, port = url.removeprefix("https://").split(":")
        pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    names = x509.load_pem_x509_certificate(pem.encode()).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert "hooks.space.svc" in names.value.get_values_for_type(x509.DNSName)
