"""What a stranger may cost each of our HTTP servers: so many connections, and no line of the log.

A stranger can hold connections open without ever asking something, until the process has no file descriptor left, and
can send what is no HTTP as often as he likes.
"""

from __future__ import annotations

import logging
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

MOST_CONNECTIONS = 256
"""Of one server; the oldest one goes for a new one, so that probes and scrapes always get through."""
_IDLE = 120.0
"""Seconds between two requests on one connection."""
_FAULTS_OF_CLIENTS = (HttpProcessingError, RequestPayloadError, ConnectionError)


class BoundedRunner(web.AppRunner):
    """An `AppRunner` whose sites hold `MOST_CONNECTIONS`, and whose log knows errors of ours alone."""

    def __init__(self, app: web.Application, *, shutdown_timeout: float) -> None:
        """Serve *app*; answers under way get *shutdown_timeout* seconds at the end."""
        options: dict[str, Any] = {"access_log": None, "logger": _log, "keepalive_timeout": _IDLE}
        super().__init__(app, shutdown_timeout=shutdown_timeout, **options)

    @property
    def server(self) -> web.Server | None:
        """Return what makes the protocol of a new connection; a site calls it, and nothing else."""
        server = super().server
        if server is None:
            return None

        def admit() -> RequestHandler:
            for oldest in server.connections[: _surplus(server)]:
                oldest.force_close()
            return server()

        return cast("web.Server", admit)


def _surplus(server: web.Server) -> int:
    """Return how many connections must go before one more may come."""
    return max(0, len(server.connections) - MOST_CONNECTIONS + 1)


class _ClientsFaults(logging.Filter):
    """Makes the records of what clients did wrong records for a developer."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep *record*, maybe with another level."""
        if record.exc_info and isinstance(record.exc_info[1], _FAULTS_OF_CLIENTS):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return True


_log = logging.getLogger("aiohttp.server.ours")
_log.addFilter(_ClientsFaults())
