"""A way to the API server, and requests sent on it: direct with the operator's credentials, or through a proxy."""

from __future__ import annotations

import base64
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp
import yaml
from yarl import URL

from runner.kube.access import AccessSource
from runner.settings import KubeSettings

_LIMIT = 120.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where requests go, and as whom."""

    name: str
    base: str
    """Scheme, host and port, without user and without a slash at the end."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssl: ssl.SSLContext | None = None


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request to send."""

    method: str = "GET"
    target: str
    """Path and query, percent-encoded as they shall go out."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    chunked: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back, whole, with its content encoding undone."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


async def direct(kubeconfig: Path) -> Target:
    """Return the way of *kubeconfig*: TLS and its credentials."""
    access = await AccessSource(settings=KubeSettings(kubeconfig=str(kubeconfig))).current()
    return Target(name="direct", base=str(access.base).rstrip("/"), headers=access.headers, ssl=access.ssl)


def through(url: str, *, name: str = "proxy") -> Target:
    """Return the way through the proxy at *url*, whose user and password (if any) are sent as Basic credentials."""
    parts = urlsplit(url)
    headers = {}
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
    return Target(name=name, base=f"{parts.scheme}://{parts.hostname}:{parts.port}", headers=headers)


def of_run(kubeconfig: Path, *, name: str = "proxy") -> Target:
    """Return the way that a run's kubeconfig describes: a plain URL, with user and password in the user's entry."""
    document = yaml.safe_load(kubeconfig.read_text())
    server = urlsplit(document["clusters"][0]["cluster"]["server"])
    user = document["users"][0]["user"]
    credentials = f"{user['username']}:{user['password']}".encode()
    return Target(
        name=name,
        base=f"http://127.0.0.1:{server.port}",
        headers={"Authorization": f"Basic {base64.b64encode(credentials).decode()}"},
    )


def anonymous(target: Target, *, name: str = "") -> Target:
    """Return *target* without credentials."""
    return Target(name=name or target.name, base=target.base, ssl=target.ssl)


class Way:
    """An open connection pool to a target."""

    def __init__(self, target: Target, session: aiohttp.ClientSession) -> None:
        """Send to *target* with *session*."""
        self.target = target
        self._session = session

    async def send(self, request: Sent) -> Answer:
        """Send one request and read the answer to its end."""
        begun = time.perf_counter()
        async with self.opened(request) as response:
            body = await response.read()
        return Answer(status=response.status, headers=response.headers, body=body, seconds=time.perf_counter() - begun)

    @contextlib.asynccontextmanager
    async def opened(self, request: Sent) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request and give the answer as a stream."""
        url = URL(self.target.base + request.target, encoded=True)
        data = _pieces(request.body) if request.chunked and request.body is not None else request.body
        async with self._session.request(
            request.method, url, headers={**request.headers, **self.target.headers}, data=data, allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
        ) as response:  # fmt: skip
            yield response


@contextlib.asynccontextmanager
async def opened(target: Target, *, connections: int = 0) -> AsyncIterator[Way]:
    """Give a way to *target* with at most *connections* (0: as many as are needed)."""
    connector = aiohttp.TCPConnector(ssl=target.ssl or True, limit=connections)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=_LIMIT)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trust_env=False, max_line_size=2**20, max_field_size=2**20
    ) as session:
        yield Way(target, session)


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    step = max(1, len(body) // 3)
    for start in range(0, len(body), step):
        yield body[start : start + step]
