"""The proxy's own answers: a Kubernetes `Status`, so that kubectl and every client library print its sentence."""

from __future__ import annotations

import json

from aiohttp import web


def refusal(
    *, message: str, status: int = 403, reason: str = "Forbidden", retry_after: int | None = None
) -> web.Response:
    """Return an answer that says in *message* what happened and what to do; *reason* is one of Kubernetes' words."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    headers = {"Cache-Control": "no-cache, private"}
    if retry_after is not None:
        body["details"] = {"retryAfterSeconds": retry_after}
        headers["Retry-After"] = str(retry_after)
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json", headers=headers)
