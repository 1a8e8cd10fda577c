"""The probes that a kubelet asks."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import aiohttp
import pytest

from runner.clock import SystemClock
from runner.errors import ConfigError
from runner.logs import Logger, RecordingSink
from runner.observe.health import Finding, HealthServer
from runner.observe.vitals import Heartbeat


class Answer:
    """A check whose answer a test sets."""

    finding: Finding | None = None

    def __call__(self) -> Finding | None:
        """Return it."""
        return self.finding


@pytest.fixture
def live() -> Answer:
    """Return a check of /healthz that passes until a test says otherwise."""
    return Answer()


@pytest.fixture
def ready() -> Answer:
    """Return a check of /readyz that passes until a test says otherwise."""
    return Answer()


@pytest.fixture
def sink() -> RecordingSink:
    """Return a place for log records."""
    return RecordingSink()


@pytest.fixture
async def server(live: Answer, ready: Answer, sink: RecordingSink) -> AsyncIterator[HealthServer]:
    """Serve on a free loopback port."""
    health = HealthServer(
        address=("127.0.0.1", 0),
        live={"workers": live},
        ready={"watch-Probe.v1": ready},
        logger=Logger(sink=sink),
    )
    await health.start()
    yield health
    await health.stop()


async def _get(server: HealthServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
        return answer.status, await answer.text()


def _blocking_get(server: HealthServer, path: str) -> tuple[int, str]:
    """Ask without letting the event loop turn."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("path", ["/healthz", "/healthz/ping", "/healthz/healthz", "/readyz", "/readyz/readyz"])
async def test_all_is_well(server: HealthServer, path: str) -> None:
    """Each probe answers `ok` while its checks pass, as the peer's do."""
    assert await _get(server, path) == (200, "ok")


async def test_a_failing_readiness_check_leaves_the_process_alive(server: HealthServer, ready: Answer) -> None:
    """A failing check turns /readyz into a 500 that says why; /healthz does not care."""
    ready.finding = Finding(sentence="forbidden: cannot list probes")
    assert await _get(server, "/readyz") == (
        500,
        "[+]readyz ok\n[-]watch-Probe.v1 failed: forbidden: cannot list probes\nreadyz check failed\n",
    )
    assert await _get(server, "/healthz") == (200, "ok")


async def test_a_failing_liveness_check_leaves_the_peers_checks_alone(server: HealthServer, live: Answer) -> None:
    """/healthz fails with the reason; `ping` and `healthz` by name still answer `ok`."""
    live.finding = Finding(sentence="stuck")
    status, text = await _get(server, "/healthz")
    assert (status, "[-]workers failed: stuck" in text) == (500, True)
    assert (await _get(server, "/healthz/workers"))[0] == 500
    assert await _get(server, "/healthz/ping") == (200, "ok")


async def test_a_remark_shows_only_to_who_asks_for_it(server: HealthServer, ready: Answer) -> None:
    """A finding that doesn't fail leaves the probe at `ok`, and `?verbose` tells it."""
    ready.finding = Finding(sentence="missing", fails=False)
    assert await _get(server, "/readyz") == (200, "ok")
    assert await _get(server, "/readyz?verbose") == (
        200,
        "[+]readyz ok\n[+]watch-Probe.v1 ok: missing\nreadyz check passed\n",
    )
    assert (await _get(server, "/readyz/watch-Probe.v1?verbose"))[1].startswith("[+]watch-Probe.v1 ok: missing\n")


async def test_verbose_lists_all_checks(server: HealthServer) -> None:
    """`?verbose` prints each check even when all pass, in the peer's form."""
    expected = "[+]healthz ok\n[+]ping ok\n[+]workers ok\nhealthz check passed\n"
    assert await _get(server, "/healthz?verbose") == (200, expected)


async def test_a_check_may_be_excluded(server: HealthServer, live: Answer) -> None:
    """`?exclude=NAME` leaves a check out, as the peer's server does."""
    live.finding = Finding(sentence="stuck")
    assert await _get(server, "/healthz?exclude=workers") == (200, "ok")


async def test_an_unknown_check_names_those_that_exist(server: HealthServer) -> None:
    """A check that isn't there answers 404 with the names of the others."""
    status, text = await _get(server, "/healthz/nothing")
    assert (status, text) == (404, "no check nothing; there are healthz, ping, workers\n")


async def test_there_is_no_livez(server: HealthServer) -> None:
    """/livez answers 404, as the peer's server does."""
    assert (await _get(server, "/livez"))[0] == 404


async def test_a_change_of_what_fails_is_logged_once(server: HealthServer, live: Answer, sink: RecordingSink) -> None:
    """However often the kubelet asks, the log has one line for the failure and one for its end."""
    live.finding = Finding(sentence="stuck")
    await _get(server, "/healthz")
    await _get(server, "/healthz")
    live.finding = None
    await _get(server, "/healthz")
    await _get(server, "/healthz")
    told = [record["msg"] for record in sink.records if "probe " in record["msg"]]
    assert told == ["A health probe fails", "A health probe passes again"]


async def test_a_blocked_event_loop_is_told_at_once(sink: RecordingSink) -> None:
    """While nothing else turns in the process /healthz answers 500 with the reason; afterwards it is well again."""
    heartbeat = Heartbeat(clock=SystemClock(), interval=0.01)

    def check() -> Finding | None:
        return Finding(sentence=f"blocked for {heartbeat.age} s") if heartbeat.age > 0.2 else None

    health = HealthServer(address=("127.0.0.1", 0), live={"event-loop": check}, ready={}, logger=Logger(sink=sink))
    await heartbeat.start()
    await health.start()
    try:
        assert (await _get(health, "/healthz?exclude=event-loop"))[0] == 200
        status, text = _blocking_get(health, "/healthz")
        while status == 200:  # this loop is what blocks the event loop
            status, text = _blocking_get(health, "/healthz")
        assert "[-]event-loop failed: blocked for" in text
        while (await _get(health, "/healthz"))[0] != 200:
            pass
    finally:
        await health.stop()
        await heartbeat.stop()


async def test_a_taken_port_is_a_sentence(server: HealthServer) -> None:
    """A port in use is refused with the flag's name and the remedy."""
    assert server.port is not None
    second = HealthServer(address=("127.0.0.1", server.port), live={}, ready={}, logger=Logger(sink=RecordingSink()))
    with pytest.raises(ConfigError, match=r"--health-probe-bind-address 127.0.0.1:\d+: .*choose another port"):
        await second.start()
    await second.stop()


async def test_a_stopped_server_frees_its_port(sink: RecordingSink) -> None:
    """The next server takes the same port at once."""
    first = HealthServer(address=("127.0.0.1", 0), live={}, ready={}, logger=Logger(sink=sink))
    await first.start()
    assert first.port is not None
    await _get(first, "/healthz")
    await first.stop()
    second = HealthServer(address=("127.0.0.1", first.port), live={}, ready={}, logger=Logger(sink=sink))
    await second.start()
    await second.stop()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_without_a_host_both_families_are_served(sink: RecordingSink) -> None:
    """A kubelet of a cluster with IPv6 alone reaches `:6789`, as well as one with IPv4."""
    health = HealthServer(address=("", 0), live={}, ready={}, logger=Logger(sink=sink))
    await health.start()
    try:
        for host in ("127.0.0.1", "[::1]"):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{host}:{health.port}/healthz") as answer,
            ):
                assert await answer.text() == "ok"
    finally:
        await health.stop()


_WITHOUT_FILES = """
import asyncio, os, resource
from runner.logs import Logger
from runner.observe.health import HealthServer

async def main():
    health = HealthServer(address=("127.0.0.1", 0), live={}, ready={}, logger=Logger())
    spare = os.dup(0)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, spare + 1))  # one more: the listening socket
    try:
        await health.start()
    except OSError as error:
        print("the start says:", error.strerror)

asyncio.run(main())
"""


def test_trouble_of_the_thread_ends_the_start() -> None:
    """Where the server's own event loop cannot be made the start raises why, and doesn't wait for ever."""
    ended = subprocess.run(
        [sys.executable, "-c", _WITHOUT_FILES], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == "the start says: Too many open files\n"


async def test_no_address_serves_nothing() -> None:
    """Switched off, start and stop do nothing."""
    health = HealthServer(address=None, live={}, ready={}, logger=Logger(sink=RecordingSink()))
    await health.start()
    assert health.port is None
    await health.stop()
