"""kopf's way to the API server: sessions with the operator's own credentials, made when kopf asks for a login.

kopf asks at its start, and again after each 401. Each request gets the newest token, is counted in the operator's
metrics, and is stopped where it would write though this instance doesn't lead any more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import kopf
from multidict import CIMultiDict

from runner.errors import ConfigError
from runner.handlers.kopf_internals import Insights, streams
from runner.kube.access import Access, AccessSource
from runner.kube.client import NO_ANSWER, Observe
from runner.settings import KubeSettings

_READS = frozenset({"GET", "HEAD"})
_GROUP_VERSION = re.compile(r"/apis/[^/]+/[^/]+")
_EMPTY = re.compile(rb'"items"\s*:\s*(\[\s*\]|null)')
_LOGIN_RETRY = 5.0
_CLOSING = 0.1
_LONGEST_WAIT = 30.0
_BAD_ANSWERS = 3
"""So often an aggregated API may answer 503; then kopf is told that it isn't there, and goes on with the others."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How handlers reach the API server."""

    kube: KubeSettings
    fenced: Callable[[], bool] = lambda: False
    """Whether this instance led and may not write any more."""
    observe: Observe | None = None
    """Counts requests."""


class IndexProgress:
    """Knows when kopf's indexes have everything that was there at the start: from its requests, and from itself."""

    def __init__(self, insights: Insights, *, again: Callable[[str], None] = lambda _: None) -> None:
        """Start with nothing known; *again* is told the path of what kopf lists a second time.

        It does so when the API server has no more of the changes that it missed, and keeps in its indexes what was
        deleted meanwhile.
        """
        self._insights = insights
        self._again = again
        self._empty: dict[str, bool] = {}
        """By path, whether the list had no item."""
        self._watched: set[str] = set()
        self._told = False

    def tell(self) -> None:
        """Take it that kopf handles objects, which it does when all are indexed."""
        self._told = True

    @property
    def complete(self) -> bool:
        """Return whether everything is indexed; in the loop of kopf."""
        if self._told:
            return True
        expected = streams(self._insights)
        if expected is None:
            return False
        return all(self._empty.get(path, False) and path in self._watched for path in expected)

    async def answered(self, path: str, response: aiohttp.ClientResponse, *, watch: bool) -> None:
        """Look at the answer to a list or watch at *path*."""
        if response.status != 200 or path not in (streams(self._insights) or ()):
            return
        if watch:
            self._watched.add(path)
        elif path in self._watched:
            self._again(path)
        else:
            self._empty[path] = _EMPTY.search(await response.read()) is not None


class Login:
    """kopf's login handler for one life of the embedded operator."""

    def __init__(self, connection: Connection, *, progress: IndexProgress) -> None:
        """Connect as *connection* says; *progress* is told of lists and watches."""
        self._connection = connection
        self._source = AccessSource(settings=connection.kube)
        self._progress = progress
        self._access: Access | None = None
        self._logins = 0
        self._bad: dict[str, int] = {}
        self._sessions: list[aiohttp.ClientSession] = []

    async def session(self, **_: object) -> kopf.AiohttpSession:
        """Return a new session; after a refusal with credentials that were read again."""
        if self._access is not None:
            self._logins += 1  # a login that is of no use is repeated at once by kopf
            await asyncio.sleep(min(0.5 * 2**self._logins, _LONGEST_WAIT))
        try:
            access = await (self._source.current() if self._access is None else self._source.refreshed(self._access))
        except ConfigError as error:
            raise kopf.TemporaryError(str(error), delay=_LOGIN_RETRY) from error
        self._access = access
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=True if access.ssl is None else access.ssl),
            middlewares=(self._send,),
            proxy=access.proxy,
        )
        self._sessions.append(session)
        return kopf.AiohttpSession(server=str(access.base), aiohttp_session=session)

    async def close(self) -> None:
        """Close the connections; kopf does so too, but not where it is cancelled."""
        for session in self._sessions:
            await session.close()
        await asyncio.sleep(_CLOSING)  # TLS connections close some turns of the loop later

    async def _send(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if request.method not in _READS and self._connection.fenced():
            raise aiohttp.ClientConnectionError("this instance does not lead any more, and writes nothing")
        access = await self._source.current()
        request.headers.update(access.headers)
        request.server_hostname = access.server_hostname
        if access.proxy_headers is not None and request.proxy is not None:
            request.proxy_headers = CIMultiDict(access.proxy_headers)
        code = NO_ANSWER
        try:
            response = await handler(request)
            code = str(response.status)
        finally:
            if self._connection.observe is not None:
                host = access.base.host_port_subcomponent or ""
                self._connection.observe(request.method, code=code, host=host)
        path = request.url.path.removeprefix(access.base.path.rstrip("/"))
        if response.status < 400:
            self._logins = 0
        if request.method == "GET":
            self._forgive(path, response)
            await self._progress.answered(path, response, watch="watch" in request.url.query)
        return response

    def _forgive(self, path: str, response: aiohttp.ClientResponse) -> None:
        """Make 404 of an aggregated API that stays away: kopf would wait for it, with all that it serves."""
        if response.status != 503 or not _GROUP_VERSION.fullmatch(path):
            self._bad.pop(path, None)
            return
        self._bad[path] = self._bad.get(path, 0) + 1
        if self._bad[path] >= _BAD_ANSWERS:
            response.status = 404
