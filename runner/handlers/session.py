"""kopf's way to the API server: sessions with the operator's own credentials, made when kopf asks for a login.

kopf asks at its start, and again after each 401. Each request gets the newest token, is counted in the operator's
metrics, and is stopped where it would write though this instance doesn't lead any more.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import kopf
from multidict import CIMultiDict

from runner.clock import Clock, SystemClock
from runner.errors import ConfigError
from runner.handlers.kopf_internals import Insights, streams
from runner.kube.access import Access, AccessSource
from runner.kube.client import NO_ANSWER, Observe
from runner.kube.connector import Connector
from runner.settings import KubeSettings

_READS = frozenset({"GET", "HEAD"})
_GROUP_VERSION = re.compile(r"/apis/[^/]+/[^/]+")
_EMPTY = re.compile(rb'"items"\s*:\s*(\[\s*\]|null)')
"""Something in the text is empty: the list, or a field of that name in an object."""
_LOGIN_RETRY = 5.0
_LONGEST_WAIT = 30.0
_MOST_DOUBLINGS = 6
_ENDED = "this life of the handlers has ended, another one may have begun"


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
        self._bad: dict[str, str] = {}
        """By path, the answer to the last request where it was a bad one."""
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

    def missing(self) -> tuple[str, ...]:
        """Return what the indexes wait for, in words; in the loop of kopf."""
        if self.complete:
            return ()
        expected = streams(self._insights)
        if expected is None:
            bad = [f"GET {path}: {answer}" for path, answer in sorted(self._bad.items())]
            return tuple(bad) or ("the API server's list of kinds",)
        return tuple(self._word(path) for path in sorted(expected) if not self._settled(path)) or (
            "the objects of a list, to be indexed",
        )

    async def answered(
        self, path: str, response: aiohttp.ClientResponse, *, watch: bool, continued: bool = False
    ) -> None:
        """Look at the answer to a list or watch at *path*; *continued* is a list that goes on where another ended."""
        if response.status != 200:
            self._bad[path] = str(response.status)
            return
        self._bad.pop(path, None)
        if path not in (streams(self._insights) or ()):
            return
        if watch:
            self._watched.add(path)
        elif path in self._watched:
            self._again(path)
        else:
            before = not continued or self._empty.get(path, True)
            self._empty[path] = _is_empty(await response.read()) and before

    def unanswered(self, path: str) -> None:
        """Note that nobody answered at *path*."""
        self._bad[path] = "no answer"

    def _settled(self, path: str) -> bool:
        return path in self._watched and path not in self._bad

    def _word(self, path: str) -> str:
        if path in self._bad:
            return f"GET {path}: {self._bad[path]}"
        return f"{path} is not {'watched' if path in self._empty else 'listed'} yet"


def _is_empty(body: bytes) -> bool:
    """Return whether a list has no items; only a text that may be such a list is parsed."""
    if _EMPTY.search(body) is None:
        return False
    try:
        return not json.loads(body).get("items")
    except ValueError:  # cut off: kopf lists again
        return False


class Login:
    """kopf's login handler for one life of the embedded operator."""

    def __init__(
        self,
        connection: Connection,
        *,
        progress: IndexProgress,
        away_limit: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        """Connect as *connection* says; *progress* is told of lists and watches.

        An aggregated API that answers 503 for longer than *away_limit* seconds of *clock* counts as missing.
        """
        self._connection = connection
        self._away_limit = away_limit
        self._clock = clock or SystemClock()
        self._source = AccessSource(settings=connection.kube)
        self._progress = progress
        self._access: Access | None = None
        self._logins = 0
        self._away: dict[str, float] = {}
        """By path, since when it answers 503."""
        self._closed = False
        self._sessions: list[aiohttp.ClientSession] = []

    async def session(self, **_: object) -> kopf.AiohttpSession:
        """Return a new session; after a refusal with credentials that were read again."""
        if self._closed:
            raise kopf.PermanentError(_ENDED)
        if self._access is not None:
            self._logins += 1  # a login that is of no use is repeated at once by kopf
            await asyncio.sleep(min(0.5 * 2 ** min(self._logins, _MOST_DOUBLINGS), _LONGEST_WAIT))
        try:
            access = await (self._source.current() if self._access is None else self._source.refreshed(self._access))
        except ConfigError as error:
            raise kopf.TemporaryError(str(error), delay=_LOGIN_RETRY) from error
        self._access = access
        session = aiohttp.ClientSession(
            connector=Connector(tls=True if access.ssl is None else access.ssl),
            middlewares=(self._send,),
            proxy=access.proxy,
        )
        self._sessions = [*(each for each in self._sessions if not each.closed), session]
        return kopf.AiohttpSession(server=str(access.base), aiohttp_session=session)

    async def close(self) -> None:
        """Close the connections, and have no more; kopf does so too, but not where it is cancelled or hangs."""
        self._closed = True
        for session in self._sessions:
            await session.close()

    async def _send(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if self._closed:
            raise aiohttp.ClientConnectionError(_ENDED)
        if request.method not in _READS and self._connection.fenced():
            raise aiohttp.ClientConnectionError("this instance does not lead any more, and writes nothing")
        access = await self._source.current()
        request.headers.update(access.headers)
        request.server_hostname = access.server_hostname
        if access.proxy_headers is not None and request.proxy is not None:
            request.proxy_headers = CIMultiDict(access.proxy_headers)
        code = NO_ANSWER
        path = request.url.path.removeprefix(access.base.path.rstrip("/"))
        try:
            response = await handler(request)
            code = str(response.status)
        finally:
            if code == NO_ANSWER and request.method == "GET":
                self._progress.unanswered(path)
            if self._connection.observe is not None:
                host = access.base.host_port_subcomponent or ""
                self._connection.observe(request.method, code=code, host=host)
        if response.status < 400:
            self._logins = 0
        if request.method == "GET":
            self._forgive(path, response)
            query = request.url.query
            await self._progress.answered(path, response, watch="watch" in query, continued="continue" in query)
        return response

    def _forgive(self, path: str, response: aiohttp.ClientResponse) -> None:
        """Make 404 of an aggregated API that stays away: kopf would wait for it, with all that it serves."""
        if response.status != 503 or not _GROUP_VERSION.fullmatch(path):
            self._away.pop(path, None)
            return
        now = self._clock.monotonic()
        if now - self._away.setdefault(path, now) >= self._away_limit:
            response.status = 404
