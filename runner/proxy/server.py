"""The proxy's server: HTTP/1.1 on loopback, each request an `Exchange` that a `Handler` answers.

It knows nothing of Kubernetes but how a refusal looks. What a handler gets wrong ends here: an error of ours becomes a
`Status` answer, a bug becomes 500 and one line of the log, and a connection is never left hanging.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from typing import Any

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from runner.clock import Clock, SystemClock
from runner.errors import ConfigError, KubeError, LeaderElectionLost, OperatorError
from runner.kube.errors import STATUS_REASONS
from runner.logs import Logger
from runner.proxy.connection import Server, is_begun
from runner.proxy.exchange import Exchange, Handler
from runner.proxy.fence import is_upgrade
from runner.proxy.refusals import refusal
from runner.proxy.request_info import parse
from runner.proxy.upstream import connection_options

HOST = "127.0.0.1"
MOST_READ = 4 * 1024 * 1024
"""Bytes of a body that is read whole; the API server's own limit is 3 MiB. One that is passed on has no limit here."""
_LONGEST_HEADER = 1024 * 1024
"""Bytes, of the request line too; Go's servers take as much in all."""
_MOST_HEADERS = 1000
_GRACE = 2.0
"""Seconds that requests under way get at the end, but for those that go on for as long as they are let."""
_BACKLOG = 1024
_EXPECTED = "100-continue"
_MEANT_FOR_ALL = re.compile(
    r"accept|authorization|content-|cookie|expect|host|if-|impersonate-|origin|range|sec-|user-agent|x-stream-"
)
"""How the names of headers begin that `Connection` can't make those of one connection: nobody could strip them."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_GONE = 499
"""The status in the log where the client left before it had an answer, as nginx has it."""


class ProxyServer:
    """A Service of the assembly: listens between `start` and `stop`."""

    def __init__(
        self, *, handler: Handler, port: int, logger: Logger, clock: Clock | None = None, grace: float = _GRACE
    ) -> None:
        """Listen nowhere yet.

        Args:
            handler: answers each request.
            port: on 127.0.0.1; 0 takes a free one.
            logger: gets a line per request at debug level, and bugs of the handler.
            clock: measures the requests.
            grace: seconds that requests under way get when the server stops.
        """
        self._handler = handler
        self._wanted = port
        self._logger = logger
        self._clock = clock or SystemClock()
        self._grace = grace
        self._runner: web.ServerRunner | None = None
        self._under_way: dict[asyncio.Task[Any], Exchange] = {}

    @property
    def port(self) -> int:
        """Return the port that the server listens on, after `start`."""
        if self._runner is None:
            raise RuntimeError("the proxy is not started")
        port: int = self._runner.addresses[0][1]
        return port

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the port is taken, or it may not be taken.
        """
        options: dict[str, Any] = {
            "access_log": None,
            "logger": _log,
            "auto_decompress": False,
            "max_line_size": _LONGEST_HEADER,
            "max_field_size": _LONGEST_HEADER,
            "max_headers": _MOST_HEADERS,
        }
        server = Server(self._handle, request_factory=_request, handler_cancellation=True, **options)
        runner = web.ServerRunner(server, shutdown_timeout=self._grace)
        await runner.setup()
        try:
            await web.SockSite(runner, _listening(self._wanted), backlog=_BACKLOG).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(
                f"the proxy cannot listen on {HOST}:{self._wanted}: {os.strerror(error.errno or 0)}; "
                "give a free port with --proxy-port (0 takes any), or stop the program that has this one"
            ) from error
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening and end all requests: what only streams at once, the others after a moment."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        for task, exchange in self._under_way.items():
            if _endless(exchange):
                task.cancel()
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=self._grace)
        for task in self._under_way:
            task.cancel()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; the boundary that no error passes."""
        began = self._clock.monotonic()
        if (refused := _refused(request)) is not None:
            return refused
        exchange = Exchange(request=request, info=parse(request.method, request.raw_path))
        task = asyncio.current_task()
        assert task is not None, "aiohttp runs handlers in tasks"  # noqa: S101 - for the type checker
        self._under_way[task] = exchange
        status = _GONE
        try:
            await _continue(request)
            response = await self._answer(exchange)
            status = response.status
            return response
        finally:
            del self._under_way[task]
            self._logger.debug(
                "Proxied a request",
                method=request.method,
                path=exchange.info.path,
                status=status,
                seconds=round(self._clock.monotonic() - began, 4),
                run=exchange.caller.run if exchange.caller else "",
            )

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        try:
            return await self._handler(exchange)
        except ConnectionError:
            raise  # the client is gone, or must see that its answer was cut: aiohttp closes the connection
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        except Exception as error:  # the boundary of all handlers: a bug must not hang a client
            answer = _answer_for(error)
            if answer.status == 500:
                path = exchange.info.path
                self._logger.error("The proxy failed on a request", method=exchange.info.method, path=path, error=error)
            if is_begun(exchange.request):
                raise ConnectionResetError("the answer was under way") from error
            return answer


def _for_developers(record: logging.LogRecord) -> bool:
    """Make the library's record of what a client did wrong one for developers."""
    if record.exc_info and isinstance(record.exc_info[1], (HttpProcessingError, RequestPayloadError, ConnectionError)):
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return True


_log = logging.getLogger("aiohttp.server.proxy")
_log.addFilter(_for_developers)


class _Request(web.BaseRequest):
    """A request whose answer gets no `Server` header of the library's."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        if response.headers.get("Server") == SERVER_SOFTWARE:
            del response.headers["Server"]


def _request(  # noqa: PLR0917 - the library calls it
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return _Request(message, payload, protocol, writer, task, loop, client_max_size=MOST_READ)


def _listening(port: int) -> socket.socket:
    return socket.create_server((HOST, port), backlog=_BACKLOG)


def _refused(request: web.BaseRequest) -> web.Response | None:
    if (problem := _malformed(request)) is not None:
        return refusal(message=problem, status=400, reason="BadRequest")
    expected = request.headers.get("Expect", "")
    if expected and expected.lower() != _EXPECTED:
        message = f"the request expects {expected[:80]!r}, and the proxy knows {_EXPECTED} alone; leave the header out"
        return refusal(message=message, status=417, reason="BadRequest")
    return None


def _malformed(request: web.BaseRequest) -> str | None:
    """Return what is wrong with *request* where it can't be passed on as it is, or could be read in two ways."""
    target = request.raw_path
    if not target.startswith("/"):
        return f"the request's target is {target[:80]!r}: the proxy of the operator serves paths, such as /api/v1/pods"
    if not target.isascii() or "#" in target:
        return "the request's path or query has characters that must be percent-encoded"
    if any(_has_no_text(value) for value in request.headers.values()):
        return "a header of the request is not UTF-8"
    if name := next(filter(_MEANT_FOR_ALL.match, connection_options(request.headers)), ""):
        return f"the header Connection names {name}, which the API server must see; leave it out there"
    return None


def _has_no_text(value: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in value) if not value.isascii() else False


async def _continue(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send the body."""
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == _EXPECTED:
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # it is no part of the answer


def _endless(exchange: Exchange) -> bool:
    """Tell whether the answer goes on until somebody ends it."""
    return exchange.info.verb == "watch" or exchange.info.subresource == "log" or is_upgrade(exchange.request)


def _answer_for(error: Exception) -> web.Response:
    match error:
        case LeaderElectionLost():
            return refusal(message="this instance of the operator does not lead any more, so nothing was sent")
        case KubeError(status=status) if status >= 400:
            return refusal(message=str(error), status=status, reason=STATUS_REASONS.get(status, "InternalError"))
        case KubeError():
            return refusal(message=f"the API server did not answer: {error}", status=503, reason="ServiceUnavailable")
        case OperatorError():
            return refusal(message=str(error), status=503, reason="ServiceUnavailable")
        case RequestPayloadError():
            return refusal(message=f"the request's body is broken: {error}", status=400, reason="BadRequest")
    return refusal(
        message=f"the proxy of the operator failed ({type(error).__name__}): its log has the traceback",
        status=500,
        reason="InternalError",
    )


def _too_large() -> web.Response:
    return refusal(
        message=f"the object is larger than {MOST_READ // 1024 // 1024} MiB: the proxy must read it, to note who owns "
        "it, and the API server takes no more than 3 MiB either",
        status=413,
        reason="RequestEntityTooLarge",
    )
