"""The addresses that servers listen on, by Go's rules: checked by the command line, split by the assembly, then bound.

`bound` is what the health probes and both metrics endpoints listen with.
"""

from __future__ import annotations

import re
import socket

Address = tuple[str, int]
"""Host (empty: all interfaces) and port (0: a free one)."""

_HIGHEST_PORT = 65535
_BACKLOG = 128
EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - probes and scrapes come from elsewhere
"""The hosts that mean all interfaces."""


def split_address(text: str) -> Address | None:
    """Split `host:port` (an empty host: all interfaces); None where `0` or nothing switches the server off.

    Raises:
        ValueError: no port in it, or none that there is; the text says what to write.
    """
    if text in {"", "0"}:
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not re.fullmatch(r"[0-9]+", port):
        raise ValueError("no port in it; write host:port, :port, or 0 to switch it off")
    if int(port) > _HIGHEST_PORT:
        raise ValueError(f"the port is above {_HIGHEST_PORT}")
    return host.strip("[]"), int(port)


def bound(address: Address) -> socket.socket:
    """Return a socket that listens on *address*; raise OSError where it is taken or not ours.

    An unspecified host is all interfaces with IPv4 and IPv6, on a machine without IPv6 with IPv4 alone. A name, such as
    `localhost`, is its IPv4 address: a machine may know an IPv6 one that it refuses to listen on.
    """
    host, port = address
    if host in EVERYWHERE and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)
