"""Addresses of servers, as flags write them."""

from __future__ import annotations

import contextlib
import socket

import pytest

from runner.observe.address import bound, split_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":6789", ("", 6789)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses(text: str, expected: tuple[str, int] | None) -> None:
    """`host:port` and `:port` are taken, `0` and nothing switch the server off."""
    assert split_address(text) == expected


@pytest.mark.parametrize("text", ["6789", "host:", "host:http", "host:\u0661"])
def test_an_address_without_a_port_is_refused_with_the_remedy(text: str) -> None:
    """Where no port number is, the text says what to write; the command line puts the flag in front."""
    with pytest.raises(ValueError, match="no port in it; write host:port"):
        split_address(text)


def test_a_port_that_there_is_not_is_refused() -> None:
    """Ports end at 65535."""
    with pytest.raises(ValueError, match="above 65535"):
        split_address(":65536")


def _answers(host: str, *, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=60):
        return True
    return False


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])  # noqa: S104 - what is tested
def test_an_unspecified_host_is_all_interfaces_of_both_families(host: str) -> None:
    """A cluster with IPv6 alone reaches `:port` as well as one with IPv4, as with Go's servers."""
    with bound((host, 0)) as listening:
        port = listening.getsockname()[1]
        assert (_answers("127.0.0.1", port=port), _answers("::1", port=port)) == (True, True)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
@pytest.mark.parametrize(("host", "other"), [("127.0.0.1", "::1"), ("localhost", "::1"), ("::1", "127.0.0.1")])
def test_a_given_host_is_no_other(host: str, other: str) -> None:
    """A loopback address of one family is not listened on with the other."""
    with bound((host, 0)) as listening:
        port = listening.getsockname()[1]
        assert (_answers(host, port=port), _answers(other, port=port)) == (True, False)
