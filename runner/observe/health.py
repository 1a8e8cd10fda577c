"""`/healthz` and `/readyz` on the peer's port: liveness is this process answering, readiness is what its checks say.

Unlike the peer's static pings, `/readyz` reflects the informers: a kind that was never listed, or whose watch is
refused or broken, makes it fail with the reason; `?verbose` prints all checks either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from runner.errors import ConfigError
from runner.logs import Logger

Check = Callable[[], str | None]
"""Returns None when all is well, else a sentence that says what is not."""


def parse_bind_address(address: str, *, flag: str) -> tuple[str, int] | None:
    """Split `host:port` (`:port` is all interfaces); None where `0` or nothing switches the server off.

    Raises:
        ConfigError: no port in it; the text names *flag*.
    """
    if address in {"", "0"}:
        return None
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        raise ConfigError(f"{flag}={address!r}: no port in it; write host:port, :port, or 0 to switch it off")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - probes come from the node, as with the peer


class HealthServer:
    """Serves the two probes; `start` binds, `stop` closes."""

    def __init__(self, *, address: tuple[str, int] | None, checks: Mapping[str, Check], logger: Logger) -> None:
        """Serve on *address* (host, port; port 0 takes a free one; None serves nothing) what *checks* say."""
        self._address = address
        self._checks = checks
        self._logger = logger
        self._runner: web.AppRunner | None = None
        self.port: int | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address is taken or not ours.
        """
        if self._address is None:
            return
        app = web.Application()
        app.add_routes([
            web.get("/healthz", self._healthz),
            web.get("/healthz/{check}", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/readyz/{check}", self._readyz),
        ])
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, *self._address)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ConfigError(
                f"cannot listen on --health-probe-bind-address {self._address[0]}:{self._address[1]}: "
                f"{error.strerror or error}; choose another port, or 0 to switch it off"
            ) from error
        self.port = self._runner.addresses[0][1]
        self._logger.info("Serving health probes", port=self.port)

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return self._answer(request, checks={"healthz": lambda: None, "ping": lambda: None})

    async def _readyz(self, request: web.Request) -> web.Response:
        return self._answer(request, checks={"readyz": lambda: None, **self._checks})

    def _answer(self, request: web.Request, *, checks: Mapping[str, Check]) -> web.Response:
        wanted = request.match_info.get("check")
        if wanted is not None:
            if wanted not in checks:
                return web.Response(status=404, text=f"no check {wanted}; there are {', '.join(checks)}\n")
            checks = {wanted: checks[wanted]}
        failures = {name: sentence for name, check in checks.items() if (sentence := check()) is not None}
        if not failures and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name} failed: {failures[name]}" if name in failures else f"[+]{name} ok" for name in checks]
        return web.Response(status=500 if failures else 200, text="\n".join(lines) + "\n")
