"""Free loopback ports for the servers of a control plane.

They are taken from below the kernel's ephemeral range: a port inside it may become the source port of somebody's
connection between the moment that it was found free and the moment that a server binds it.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterable
from pathlib import Path

from runner.errors import LocalPlaneError

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 20_000
_TRIES = 2_000


def ephemeral_start() -> int:
    """Return the first port that the kernel gives to outgoing connections."""
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def free_ports(count: int, *, avoid: Iterable[int] = ()) -> list[int]:
    """Return *count* different free ports, none of them in *avoid*."""
    upper = ephemeral_start()
    lowest = _LOWEST if upper - _LOWEST > 1_000 else 1_024
    found: list[int] = []
    taken = set(avoid)
    for _ in range(_TRIES):
        if len(found) == count:
            return found
        port = random.randrange(lowest, max(upper, lowest + 1_000))  # noqa: S311 - nothing depends on its secrecy
        if port not in taken and is_free(port):
            taken.add(port)
            found.append(port)
    raise LocalPlaneError(f"found no {count} free ports on 127.0.0.1 between {lowest} and {upper}: stop some servers")


def is_free(port: int) -> bool:
    """Tell whether a server could bind *port* on 127.0.0.1."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Go's listeners do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
