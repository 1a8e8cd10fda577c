"""`POST /metrics` of roles and playbooks: status codes and texts on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from runner.logs import Logger, RecordingSink
from runner.observe.metrics import Metrics
from runner.observe.user_metrics_server import UserMetricsServer
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually


@pytest.fixture
def metrics() -> Metrics:
    """Give the metrics of an operator."""
    return Metrics()


@pytest.fixture
async def server(metrics: Metrics) -> AsyncIterator[UserMetricsServer]:
    """Take metrics on a free loopback port."""
    server = UserMetricsServer(
        address=("localhost", 0), handle=metrics.user.handle, logger=Logger(sink=RecordingSink())
    )
    await server.start()
    yield server
    await server.stop()


async def ask(
    server: UserMetricsServer, body: str | bytes, *, method: str = "POST", path: str = "/metrics"
) -> tuple[int, str]:
    """Send *body*, and return status and text."""
    url = f"http://127.0.0.1:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body) as answer:
        return answer.status, await answer.text()


async def test_a_metric_is_taken_with_an_empty_200(server: UserMetricsServer, metrics: Metrics) -> None:
    """The module takes anything but 200 for a failure; the content type doesn't matter."""
    body = json.dumps({"name": "jobs", "description": "Jobs.", "counter": {"increment": True, "add": None}})
    assert await ask(server, body) == (200, "")
    assert "# HELP jobs Jobs.\n# TYPE jobs counter\njobs 1\n" in metrics.text()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("{", "the request is no JSON: "),
        ("", "the request is no JSON: "),
        (b"\xff\xfe{", "the request is no JSON: "),
        ('{"name": "x", "gauge": {"set": NaN}}', "the request is no JSON: NaN is no number in JSON"),
        ('{"name": "x", "gauge": {"set": 1e999}}', "gauge.set should be a finite number"),
        ("[" * 100_000, "the request is no JSON"),
        ("[]", "the request should be a JSON object"),
        ('{"name": "x"}', "a request should contain at least one metric\n"),
        ('{"name": "x", "gauge": {}, "counter": {}}', "only one metric can be processed at a time\n"),
        ('{"name": "x", "counter": {"add": -1}}', "counter metrics cannot decrease in value\n"),
    ],
)
async def test_a_wrong_request_is_a_400_with_the_reason(
    server: UserMetricsServer, metrics: Metrics, body: str | bytes, text: str
) -> None:
    """The answer is the sentence that the task will show."""
    status, answer = await ask(server, body)
    assert status == 400
    assert answer.startswith(text)
    assert not list(metrics.user.collect())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_only_post_is_allowed(server: UserMetricsServer, method: str) -> None:
    """Every other method is answered as by the peer."""
    assert await ask(server, "", method=method) == (405, "Method not allowed\n")


async def test_there_is_one_path(server: UserMetricsServer) -> None:
    """Anywhere else is nothing."""
    assert (await ask(server, "{}", path="/"))[0] == 404


async def test_calls_at_once_are_all_counted(server: UserMetricsServer, metrics: Metrics) -> None:
    """Parallel plays lose no count."""
    body = json.dumps({"name": "parallel", "description": "", "counter": {"increment": True}})
    answers = await asyncio.gather(*(ask(server, body) for _ in range(100)))
    assert set(answers) == {(200, "")}
    assert "parallel 100\n" in metrics.text()


async def test_a_taken_port_is_a_warning(server: UserMetricsServer) -> None:
    """The operator goes on without user metrics, and says how to get them."""
    assert server.port is not None
    sink = RecordingSink()
    second = UserMetricsServer(address=("127.0.0.1", server.port), handle=lambda _: None, logger=Logger(sink=sink))
    await second.start()
    assert second.port is None
    (record,) = sink.records
    assert record["level"] == "warn"
    assert "--user-metrics-bind-address" in record["msg"]
    assert record["Address"] == f"127.0.0.1:{server.port}"
    await second.stop()


async def test_a_taken_port_is_taken_over_once_it_is_free(server: UserMetricsServer, metrics: Metrics) -> None:
    """An instance that stood by listens a few seconds after the other one has ended, and tells where, once."""
    assert server.port is not None
    port, sink, clock, urls = server.port, RecordingSink(), FakeClock(), list[str]()
    second = UserMetricsServer(
        address=("127.0.0.1", port),
        handle=metrics.user.handle,
        logger=Logger(sink=sink),
        clock=clock,
        tell_url=urls.append,
    )
    await second.start()
    await clock.advance(60)
    assert urls == []
    assert len(sink.records) == 1
    await server.stop()
    await clock.advance(5)
    await eventually(lambda: second.port)
    assert urls == [f"http://127.0.0.1:{port}/metrics"]
    assert sink.sentences()[1:] == ["Starting to serve metrics listener"]
    assert clock.sleeping == 0
    await second.stop()


@pytest.mark.parametrize(("host", "named"), [("", "localhost"), ("localhost", "localhost"), ("127.0.0.1", "127.0.0.1")])
async def test_the_url_is_one_that_a_run_can_reach(host: str, named: str) -> None:
    """All interfaces are reached by the name of this machine's own."""
    urls: list[str] = []
    server = UserMetricsServer(
        address=(host, 0), handle=lambda _: None, logger=Logger(sink=RecordingSink()), tell_url=urls.append
    )
    await server.start()
    assert urls == [f"http://{named}:{server.port}/metrics"]
    await server.stop()


async def test_no_address_serves_nothing() -> None:
    """`0` switches the endpoint off."""
    server = UserMetricsServer(address=None, handle=lambda _: None, logger=Logger(sink=RecordingSink()))
    await server.start()
    assert server.port is None
    await server.stop()


@pytest.mark.parametrize("kind", ["counter", "gauge", "histogram", "summary"])
async def test_a_lone_surrogate_in_a_description_is_replaced(
    server: UserMetricsServer, metrics: Metrics, kind: str
) -> None:
    """JSON can name half a character, UTF-8 has none: it becomes U+FFFD as in Go, and whole ones stay."""
    body = json.dumps({"name": "sur", "description": "a\ud800b\U0001f600\udc00", kind: {}})
    assert body.isascii()
    assert await ask(server, body) == (200, "")
    families = list(metrics.user.collect())
    assert [family.documentation for family in families] == ["a\ufffdb\U0001f600\ufffd"]
    assert await ask(server, '{"name":"\\ud800","gauge":{}}') == (
        400,
        "'\\ud800' is no metric name; use letters, digits, _ and :, and no digit in front\n",
    )
