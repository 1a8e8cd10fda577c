"""The outermost layer: only who means this machine gets in.

The proxy listens on loopback, but a web browser on the same machine does too what a foreign page says: a page whose
name is made to resolve to 127.0.0.1 (DNS rebinding) comes with that name as its Host, and a page that just sends a form
to localhost comes with its Origin. Programs send neither.
"""

from __future__ import annotations

import ipaddress
import re

from aiohttp import web

from runner.proxy.exchange import Exchange, Handler
from runner.proxy.refusals import refusal

_NAMES = frozenset({"localhost"})
_AUTHORITY = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^:\[\]@/?#\s]+))(?::\d*)?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://", re.IGNORECASE)


def refuse_foreign_hosts(handler: Handler) -> Handler:
    """Return the layer: a Host or an Origin that is no name or address of loopback gets 403."""

    async def handle(exchange: Exchange) -> web.StreamResponse:
        headers = exchange.request.headers
        for host in headers.getall("Host", []):
            if not is_loopback(host):
                return _refused("Host", host)
        for origin in headers.getall("Origin", []):
            scheme = _ORIGIN.match(origin)
            if scheme is None or not is_loopback(origin[scheme.end() :]):
                return _refused("Origin", origin)
        return await handler(exchange)

    return handle


def is_loopback(authority: str) -> bool:
    """Tell whether *authority* (a host, maybe with a port) names this machine's loopback."""
    parts = _AUTHORITY.fullmatch(authority.strip())
    if parts is None:
        return False
    name = (parts["six"] or parts["name"]).lower().removesuffix(".")
    if name in _NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _refused(header: str, value: str) -> web.Response:
    return refusal(
        message=f"the operator's proxy serves programs on its own machine only, and the request's {header} is "
        f"{value[:80]!r}: ask for http://localhost or http://127.0.0.1 with the proxy's port"
    )
