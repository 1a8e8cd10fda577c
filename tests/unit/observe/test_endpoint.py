"""`/metrics` over HTTP and HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from runner.errors import ConfigError
from runner.localdev.pki import Authority
from runner.logs import Logger, RecordingSink
from runner.observe.endpoint import Guard, Listener, MetricsServer
from runner.observe.endpoint_tls import ServingCertificate
from runner.observe.metrics import Metrics


@contextlib.asynccontextmanager
async def serving(
    metrics: Metrics, *, tls: Callable[[], ssl.SSLContext] | None = None, guard: Guard | None = None
) -> AsyncIterator[MetricsServer]:
    """Serve on a free loopback port."""
    server = MetricsServer(
        address=("127.0.0.1", 0), text=metrics.text, logger=Logger(sink=RecordingSink()), tls=tls, guard=guard
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def get(url: str, *, method: str = "GET", **options: object) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send one request over a connection of its own."""
    async with aiohttp.ClientSession() as session, session.request(method, url, **options) as answer:  # type: ignore[arg-type]
        yield answer


async def test_the_page_is_what_prometheus_reads() -> None:
    """The content type names the text format 0.0.4, and a parser reads the whole page, without a watch too."""
    async with serving(Metrics()) as server, get(f"http://127.0.0.1:{server.port}/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        names = {family.name for family in text_string_to_metric_families(await answer.text())}
    assert {"ansible_operator_build_info", "process_cpu_seconds"} < names


async def test_the_page_is_compressed_for_who_asks() -> None:
    """A scraper that takes gzip gets it."""
    async with serving(Metrics()) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        async with get(url, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert "ansible_operator_build_info" in await answer.text()
        async with get(url, headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers


async def test_a_page_of_many_objects_is_compressed_too() -> None:
    """Some megabytes go the same way."""
    page = "x 1\n" * 500_000
    server = MetricsServer(address=("127.0.0.1", 0), text=lambda: page, logger=Logger(sink=RecordingSink()))
    await server.start()
    async with get(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert await answer.text() == page
    await server.stop()


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/metrics", 405), ("GET", "/", 404)])
async def test_nothing_else_is_served(method: str, path: str, status: int) -> None:
    """The endpoint has one page, for reading."""
    async with (
        serving(Metrics()) as server,
        get(f"http://127.0.0.1:{server.port}{path}", method=method) as answer,
    ):
        assert answer.status == status


async def test_a_taken_port_names_flag_and_remedy() -> None:
    """The operator doesn't start without the metrics that it was asked for."""
    async with serving(Metrics()) as first:
        assert first.port is not None
        second = MetricsServer(address=("127.0.0.1", first.port), text=str, logger=Logger(sink=RecordingSink()))
        with pytest.raises(ConfigError, match=r"--metrics-bind-address 127.0.0.1:\d+: .*choose another port, or 0"):
            await second.start()
        await second.stop()


async def test_no_address_serves_nothing() -> None:
    """`0` switches the endpoint off."""
    server = MetricsServer(address=None, text=str, logger=Logger(sink=RecordingSink()))
    await server.start()
    assert server.port is None
    await server.stop()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_without_a_host_both_families_are_served() -> None:
    """A scraper of a cluster with IPv6 alone reaches `:8443`, as well as one with IPv4."""
    server = MetricsServer(address=("", 0), text=lambda: "x 1\n", logger=Logger(sink=RecordingSink()))
    await server.start()
    try:
        for host in ("127.0.0.1", "[::1]"):
            async with get(f"http://{host}:{server.port}/metrics") as answer:
                assert await answer.text() == "x 1\n"
    finally:
        await server.stop()


async def test_localhost_is_the_ipv4_loopback() -> None:
    """The name works on machines with and without IPv6."""
    listener = Listener(address=("localhost", 0))
    await listener.start(web.Application())
    async with get(f"http://127.0.0.1:{listener.port}/") as answer:
        assert answer.status == 404
    await listener.stop()


class Closed:
    """A guard that lets nobody through."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Refuse."""
        return web.Response(status=403, text=request.path)


async def test_a_guard_stands_before_the_page() -> None:
    """Whom the guard refuses gets the guard's answer."""
    async with (
        serving(Metrics(), guard=Closed()) as server,
        get(f"http://127.0.0.1:{server.port}/metrics") as answer,
    ):
        assert (answer.status, await answer.text()) == (403, "/metrics")


class Mounted:
    """A folder for a certificate, and what a client sees of the server that uses it."""

    def __init__(self, folder: Path) -> None:
        """Start without a certificate."""
        self.folder = folder / "certs"
        self.folder.mkdir()
        self.sink = RecordingSink()
        self.readings: list[bool] = []
        self.certificate = ServingCertificate(self.folder, logger=Logger(sink=self.sink), observe=self.readings.append)

    def mount(self, scratch: Path) -> int:
        """Put a new pair there, and return its serial number."""
        scratch.mkdir()
        certificate = Authority(scratch).issue("tls", common_name="metrics", hosts=["localhost", "127.0.0.1"])
        for path in (certificate, certificate.with_suffix(".key")):
            path.replace(self.folder / path.name)
        return x509.load_pem_x509_certificate((self.folder / "tls.crt").read_bytes()).serial_number

    async def seen(self, server: MetricsServer) -> x509.Certificate:
        """Read the page, and return the certificate that a further new connection gets."""
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        async with get(f"https://127.0.0.1:{server.port}/metrics", ssl=trusting) as answer:
            assert answer.status == 200
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return x509.load_der_x509_certificate(found)


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    """Give an empty folder for certificates."""
    return Mounted(tmp_path)


async def test_without_a_certificate_a_self_signed_one_serves(mounted: Mounted) -> None:
    """It is for localhost and 127.0.0.1, and the log says so."""
    async with serving(Metrics(), tls=mounted.certificate.context) as server:
        names = (await mounted.seen(server)).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert "No serving certificate is mounted; using a self-signed one" in mounted.sink.sentences()
    assert mounted.readings == []


async def test_plain_http_is_refused_by_the_tls_port(mounted: Mounted) -> None:
    """With TLS nothing is readable without it."""
    async with serving(Metrics(), tls=mounted.certificate.context) as server:
        with pytest.raises(aiohttp.ClientError):
            async with get(f"http://127.0.0.1:{server.port}/metrics"):
                pass


async def test_a_renewed_certificate_serves_the_next_connection(mounted: Mounted, tmp_path: Path) -> None:
    """A new pair in the folder is used from the next connection on, without a restart."""
    first = mounted.mount(tmp_path / "first")
    async with serving(Metrics(), tls=mounted.certificate.context) as server:
        assert (await mounted.seen(server)).serial_number == first
        assert (await mounted.seen(server)).serial_number == first
        second = mounted.mount(tmp_path / "second")
        assert (await mounted.seen(server)).serial_number == second
    assert mounted.readings == [True, True]


async def test_a_certificate_that_is_mounted_late_replaces_the_self_signed_one(
    mounted: Mounted, tmp_path: Path
) -> None:
    """The folder may be filled after the start."""
    async with serving(Metrics(), tls=mounted.certificate.context) as server:
        await mounted.seen(server)
        late = mounted.mount(tmp_path / "late")
        assert (await mounted.seen(server)).serial_number == late


async def test_a_broken_renewal_leaves_the_old_certificate(mounted: Mounted, tmp_path: Path) -> None:
    """While files don't fit together the old pair serves, the log says it once, and the repair is noticed."""
    first = mounted.mount(tmp_path / "first")
    async with serving(Metrics(), tls=mounted.certificate.context) as server:
        (mounted.folder / "tls.crt").write_text("broken")
        assert (await mounted.seen(server)).serial_number == first
        assert (await mounted.seen(server)).serial_number == first
        assert mounted.readings == [True, False]
        repaired = mounted.mount(tmp_path / "second")
        assert (await mounted.seen(server)).serial_number == repaired
    sentences = mounted.sink.sentences()
    assert sentences.count("The serving certificate cannot be read; the one before it serves") == 1


async def test_a_broken_certificate_at_the_start_is_refused(mounted: Mounted, tmp_path: Path) -> None:
    """The error names both files and the remedy."""
    mounted.mount(tmp_path / "first")
    (mounted.folder / "tls.key").write_text("broken")
    server = MetricsServer(
        address=("127.0.0.1", 0), text=str, logger=Logger(sink=mounted.sink), tls=mounted.certificate.context
    )
    with pytest.raises(ConfigError, match=r"cannot use the certificate .*tls.crt with the key .*tls.key.*self-signed"):
        await server.start()


def test_a_self_signed_key_is_not_on_disk(mounted: Mounted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that Python needs for the key is gone as soon as it was read."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    mounted.certificate.context()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("", False),
        ("xgzip", False),
        ("deflate", False),
        ("GZIP;q=0.001", True),
        ("br, gzip;q=1.0", True),
        ("*", True),
    ],
)
async def test_gzip_is_only_for_who_takes_it(accepted: str, compressed: bool) -> None:  # noqa: FBT001
    """A quality of nought refuses a coding."""
    async with serving(Metrics()) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        async with get(url, headers={"Accept-Encoding": accepted}) as answer:
            assert (answer.headers.get("Content-Encoding") == "gzip") is compressed


async def test_a_page_that_is_no_utf8_is_served() -> None:
    """Half a character is written as its code: one bad label hides no other metric."""
    server = MetricsServer(address=("127.0.0.1", 0), text=lambda: "\ud800 1\n", logger=Logger(sink=RecordingSink()))
    await server.start()
    async with get(f"http://127.0.0.1:{server.port}/metrics") as answer:
        assert (answer.status, await answer.text()) == (200, "\\ud800 1\n")
    await server.stop()
