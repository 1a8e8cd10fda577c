"""The server of admission handlers (`@kopf.on.validate`, `@kopf.on.mutate`): kopf's, with our certificate and address.

The API server is told of it by a configuration that somebody deploys, or by one that kopf writes and keeps
(`--webhook-configuration`). `--webhook-service` is for a cluster; without it the API server calls the address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import kopf
from aiohttp import web

from runner.logs import Logger
from runner.observe.address import EVERYWHERE, split_address
from runner.observe.endpoint_tls import self_signed_pair
from runner.settings import HandlersSettings


class Webhooks(kopf.WebhookServer):
    """Serves admission reviews by HTTPS at `/<name of the handler, with - for _>`; at `/` all handlers answer."""

    def __init__(
        self,
        settings: HandlersSettings,
        *,
        logger: Logger,
        namespaces: Collection[str] = (),
        obstacle: Callable[[str], Awaitable[str]],
    ) -> None:
        """Serve where *settings* say, with the mounted certificate, else with a self-signed one.

        Objects of other namespaces than *namespaces*, where there are some, are let in unseen. *obstacle*, given the
        path, says why no handler can be asked now, after a wait of its own; empty: nothing is in the way. Then the
        answer is 503, and the failure policy decides.
        """
        self._namespaces = frozenset(namespaces)
        self._obstacle = obstacle
        host, port = split_address(settings.webhook_bind_address) or ("127.0.0.1", 0)
        folder = settings.webhook_cert_dir
        mounted = (folder / "tls.crt").is_file() and (folder / "tls.key").is_file()
        authority = folder / "ca.crt"
        namespace, _, name = settings.webhook_service.partition("/")
        self._service = {"namespace": namespace, "name": name} if name else None
        called = f"{name}.{namespace}.svc" if name else ""
        super().__init__(
            addr=None if host in EVERYWHERE else host,
            port=port or None,
            host=called or ("127.0.0.1" if host in EVERYWHERE else host),
            certfile=folder / "tls.crt" if mounted else None,
            pkeyfile=folder / "tls.key" if mounted else None,
            cafile=authority if mounted and authority.is_file() else None,
        )
        logger.info(
            "Serving admission webhooks",
            bindAddress=settings.webhook_bind_address,
            certificate=str(folder / "tls.crt") if mounted else "self-signed",
            service=settings.webhook_service,
            configuration=settings.webhook_configuration,
        )

    async def __call__(self, fn: Any) -> AsyncIterator[Any]:
        """Serve; yield how the API server reaches this server, again when the certificate changed."""

        async def answer(request: Any, *, webhook: str | None = None, **about: Any) -> Any:
            namespace = request.get("request", {}).get("namespace")
            if self._namespaces and namespace and namespace not in self._namespaces:
                return _let_in(request)
            obstacle = await self._obstacle(webhook or "")
            if obstacle:
                raise web.HTTPServiceUnavailable(reason=obstacle, text=obstacle)
            return await fn(request, webhook=webhook or None, **about)

        async for found in super().__call__(answer):
            if self._service is None:
                yield found
            else:
                yield {"service": dict(self._service), "caBundle": found["caBundle"]}

    @staticmethod
    def build_certificate(hostnames: Collection[str], password: str | None = None) -> tuple[bytes, bytes]:
        """Return a self-signed certificate and its key; kopf's own way needs libraries that aren't here."""
        del password  # never given
        return self_signed_pair(*hostnames)


def _let_in(review: Any) -> dict[str, Any]:
    """Return the answer to *review* of a handler that has nothing against it."""
    return {
        "apiVersion": review.get("apiVersion", "admission.k8s.io/v1"),
        "kind": review.get("kind", "AdmissionReview"),
        "response": {"uid": review.get("request", {}).get("uid", ""), "allowed": True},
    }
