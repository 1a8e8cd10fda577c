"""A small blocking client: for health checks, what the plane itself creates, and the kubelets of simulated machines.

The rest of the package speaks to the API server through `runner.kube`; this one works without an event loop, while
the server is not there yet, and as anybody: a certificate, a bootstrap token, nobody at all.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runner.errors import LocalPlaneError

_TIMEOUT = 10.0


class Api:
    """One server, one identity."""

    def __init__(
        self,
        server: str,
        *,
        authority: Path | None = None,
        certificate: Path | None = None,
        context: ssl.SSLContext | None = None,
        token: str = "",
    ) -> None:
        """Speak to *server*, an http or https URL.

        Args:
            server: the URL; a path in it is left out.
            authority: whom to trust.
            certificate: of the client; its key lies beside it as `.key`.
            context: in the place of *authority*.
            token: a bearer token.
        """
        self._address = urlsplit(server)
        self._context = context
        self._token = token
        if authority is not None:
            self._context = ssl.create_default_context(cafile=str(authority))
        if self._context is not None and certificate is not None:
            self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    def status(self, path: str) -> int:
        """Return the status that a GET of *path* is answered with, 0 where nobody answers."""
        try:
            return self.send("GET", path)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def get(self, path: str) -> Mapping[str, Any] | None:
        """Return the JSON object at *path*, None where there is none or nobody answers."""
        try:
            status, raw = self.send("GET", path)
        except (OSError, http.client.HTTPException):
            return None
        return json.loads(raw) if status == 200 else None

    def create(self, path: str, *, body: Mapping[str, Any]) -> None:
        """Create an object in the collection at *path*; one that is there already is left alone.

        Raises:
            LocalPlaneError: the API server refused it or did not answer.
        """
        try:
            status, raw = self.send("POST", path, body=body)
        except (OSError, http.client.HTTPException) as error:
            raise LocalPlaneError(f"the local API server did not answer POST {path}: {error}") from error
        if status not in {200, 201, 409}:
            raise LocalPlaneError(f"the local API server refused POST {path} with {status}: {raw.decode()[:500]}")

    def send(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body of an answer, whatever the status is.

        Raises:
            OSError: nobody answers, or one who isn't trusted (`ssl.SSLError`).
            http.client.HTTPException: what answers doesn't speak HTTP.
        """
        host, port = self._address.hostname or "127.0.0.1", self._address.port
        connection: http.client.HTTPConnection
        if self._context is None:
            connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._context)
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        with contextlib.closing(connection):
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
