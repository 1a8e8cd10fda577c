"""A small web server for plays: pages that are always the same, and a security token service for one call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

_IDENTITY = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>key-for-{token}</AccessKeyId>
<SecretAccessKey>secret</SecretAccessKey><SessionToken>session-for-{token}</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


class _Handler(BaseHTTPRequestHandler):
    """Answers without a date, so that answers can be compared."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Give the page, or nothing."""
        if self.path == "/page":
            self._answer("a page with ünïcode\n")
        else:
            self._answer("nothing here\n", status=HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Give back what came, or credentials that name the token that asked for them."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        token = parse_qs(body).get("WebIdentityToken", [""])[0]
        self._answer(_IDENTITY.format(token=token) if token else f"{self.headers.get('X-Probe')}: {body}\n")

    def _answer(self, text: str, *, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = text.encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextlib.contextmanager
def web_server() -> Iterator[str]:
    """Give the URL of a running server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
