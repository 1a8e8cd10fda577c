"""`/healthz` and `/readyz` on the peer's port, answered by a thread and an event loop of their own.

The peer's two probes are static pings. Here liveness and readiness are what their checks say. A server in the
operator's own event loop could not tell that this loop is blocked: the kubelet would see a time-out and no reason. So
the checks are called in the server's thread, and may only read.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from runner.errors import ConfigError
from runner.logs import Logger
from runner.observe.address import Address, bound
from runner.observe.connections import BoundedRunner


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check has to say."""

    sentence: str
    fails: bool = True
    """False: all is well enough, but a person who asks with `?verbose` should know."""


Check = Callable[[], Finding | None]
"""Returns None when all is well. Called in the server's thread: it reads, and never waits."""

_SHUTDOWN = 2.0


def well() -> Finding | None:
    """Find nothing: the check that only says that the process answers."""
    return None


class HealthServer:
    """Serves the two probes; `start` binds, `stop` closes."""

    def __init__(
        self,
        *,
        address: Address | None,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        logger: Logger,
    ) -> None:
        """Serve on *address* (host, port; port 0 takes a free one; None serves nothing) what the checks say.

        Args:
            address: where.
            live: the checks of `/healthz`, beside the peer's `healthz` and `ping`.
            ready: the checks of `/readyz`, beside the peer's `readyz`.
            logger: told when the failing checks of a probe change.
        """
        self._address = address
        self._probes = {
            "healthz": {"healthz": well, "ping": well, **live},
            "readyz": {"readyz": well, **ready},
        }
        self._failing: dict[str, tuple[str, ...]] = {}
        self._logger = logger
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] | None = None
        self.port: int | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address is taken or not ours.
        """
        if self._address is None:
            return
        listening = _bound(self._address)
        self.port = listening.getsockname()[1]
        started: concurrent.futures.Future[Callable[[], object]] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, args=(listening, started), name="health", daemon=True)
        self._thread.start()
        self._end = await asyncio.wrap_future(started)
        self._logger.info("Serving health probes", port=self.port)

    async def stop(self) -> None:
        """Stop listening."""
        if self._end is not None and self._thread is not None and self._thread.is_alive():
            self._end()
            await asyncio.to_thread(self._thread.join)

    def _run(self, listening: socket.socket, started: concurrent.futures.Future[Callable[[], object]]) -> None:
        try:
            with listening, asyncio.Runner() as loop:
                loop.run(self._serve(listening, started))
        except BaseException as error:  # whatever it is, somebody waits for this thread
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, listening: socket.socket, started: concurrent.futures.Future[Callable[[], object]]) -> None:
        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        for probe in self._probes:
            app.add_routes([web.get(f"/{probe}", self._answer), web.get(f"/{probe}/{{check:.+}}", self._answer)])
        runner = BoundedRunner(app, shutdown_timeout=_SHUTDOWN)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            started.set_result(lambda: loop.call_soon_threadsafe(ending.set))
            await ending.wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        probe = request.path.split("/")[1]
        checks: Mapping[str, Check] = self._probes[probe]
        wanted = request.match_info.get("check")
        if wanted is not None and wanted not in checks:
            return web.Response(status=404, text=f"no check {wanted}; there are {', '.join(checks)}\n")
        if wanted is not None:
            checks = {wanted: checks[wanted]}
        excluded = request.query.getall("exclude", [])
        findings = {name: check() for name, check in checks.items() if name not in excluded}
        failed = {name: found.sentence for name, found in findings.items() if found is not None and found.fails}
        if wanted is None:
            self._note(probe, failed=failed)
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [_line(name, findings.get(name), excluded=name in excluded) for name in checks]
        verdict = f"{wanted or probe} check {'failed' if failed else 'passed'}"
        return web.Response(status=500 if failed else 200, text="\n".join([*lines, verdict]) + "\n")

    def _note(self, probe: str, *, failed: Mapping[str, str]) -> None:
        """Log a change of what fails; probes come every few seconds."""
        if tuple(failed) == self._failing.get(probe, ()):
            return
        self._failing[probe] = tuple(failed)
        if failed:
            self._logger.error("A health probe fails", probe=probe, failed=dict(failed))
        else:
            self._logger.info("A health probe passes again", probe=probe)


def _line(name: str, finding: Finding | None, *, excluded: bool) -> str:
    if excluded:
        return f"[+]{name} excluded: ok"
    if finding is None:
        return f"[+]{name} ok"
    return f"[-]{name} failed: {finding.sentence}" if finding.fails else f"[+]{name} ok: {finding.sentence}"


def _bound(address: Address) -> socket.socket:
    try:
        return bound(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on --health-probe-bind-address {address[0]}:{address[1]}: "
            f"{error.strerror or error}; choose another port, or 0 to switch it off"
        ) from error
