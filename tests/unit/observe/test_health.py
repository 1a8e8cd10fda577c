"""The probes that a kubelet asks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from runner.errors import ConfigError
from runner.logs import Logger, RecordingSink
from runner.observe.health import HealthServer, parse_bind_address


class Plane:
    """A check whose answer a test sets."""

    reason: str | None = None

    def __call__(self) -> str | None:
        """Return the reason."""
        return self.reason


@pytest.fixture
def plane_check() -> Plane:
    """Return a check that passes until a test says otherwise."""
    return Plane()


@pytest.fixture
async def server(plane_check: Plane) -> AsyncIterator[HealthServer]:
    """Serve on a free loopback port."""
    logger = Logger(sink=RecordingSink())
    health = HealthServer(address=("127.0.0.1", 0), checks={"watch Probe": plane_check}, logger=logger)
    await health.start()
    yield health
    await health.stop()


async def _get(server: HealthServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("path", ["/healthz", "/healthz/ping", "/healthz/healthz", "/readyz", "/readyz/readyz"])
async def test_all_is_well(server: HealthServer, path: str) -> None:
    """Each probe answers `ok` while its checks pass, as the peer's do."""
    assert await _get(server, path) == (200, "ok")


async def test_a_failing_check_makes_only_readiness_fail(server: HealthServer, plane_check: Plane) -> None:
    """A failing check turns /readyz into a 500 that says why; the process stays alive."""
    plane_check.reason = "forbidden: cannot list probes"
    status, text = await _get(server, "/readyz")
    assert status == 500
    assert "[-]watch Probe failed: forbidden: cannot list probes" in text
    assert await _get(server, "/healthz") == (200, "ok")


async def test_verbose_lists_all_checks(server: HealthServer) -> None:
    """`?verbose` prints each check even when all pass."""
    assert await _get(server, "/readyz?verbose") == (200, "[+]readyz ok\n[+]watch Probe ok\n")


async def test_an_unknown_check_names_those_that_exist(server: HealthServer) -> None:
    """A check that isn't there answers 404 with the names of the others."""
    status, text = await _get(server, "/healthz/nothing")
    assert (status, text) == (404, "no check nothing; there are healthz, ping\n")


async def test_a_taken_port_is_a_sentence(server: HealthServer) -> None:
    """A port in use is refused with the flag's name and the remedy."""
    assert server.port is not None
    second = HealthServer(address=("127.0.0.1", server.port), checks={}, logger=Logger(sink=RecordingSink()))
    with pytest.raises(ConfigError, match=r"--health-probe-bind-address 127.0.0.1:\d+: .*choose another port"):
        await second.start()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":6789", ("0.0.0.0", 6789)),  # noqa: S104 - as the peer listens
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        ("0", None),
        ("", None),
    ],
)
def test_bind_addresses(text: str, expected: tuple[str, int] | None) -> None:
    """`host:port` and `:port` are taken, `0` and nothing switch the server off."""
    assert expected == parse_bind_address(text, flag="--x")


@pytest.mark.parametrize("text", ["6789", "host:", "host:http"])
def test_bind_address_without_a_port_names_the_flag(text: str) -> None:
    """An address without a port number is refused with the flag and the remedy."""
    with pytest.raises(ConfigError, match=r"--health-probe-bind-address=.*no port in it; write host:port"):
        parse_bind_address(text, flag="--health-probe-bind-address")
