"""How a connection to the API server or to the HTTP proxy on the way comes up, for `forward` and `tunnel` alike."""

from __future__ import annotations

import asyncio
import socket

from aiohappyeyeballs import AddrInfoType, start_connection

_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_HEAD_START = 0.25
"""Seconds that one address of a host gets before the next one is tried beside it (RFC 8305), as the HTTP library has
it: an address that swallows everything must not use up the time-out."""


def make_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket that notices a server which went without a word: watches and tunnels may be silent for long."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in _KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    return made


async def dial(host: str, *, port: int) -> socket.socket:
    """Return a socket that is connected and doesn't block, to the first of the host's addresses that takes it.

    Raises:
        OSError: none does.
    """
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    connected = await start_connection(addresses, happy_eyeballs_delay=_HEAD_START, socket_factory=make_socket)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
