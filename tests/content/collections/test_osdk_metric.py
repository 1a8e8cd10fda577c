"""Our `operator_sdk.util.osdk_metric` as Ansible runs it: arguments in, a request to the operator, a result out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runner.logs import Logger, RecordingSink
from runner.observe.metrics import Metrics
from runner.observe.user_metrics_server import UserMetricsServer

COLLECTIONS = Path(__file__).parents[3] / "runner/collections"
MODULE = "ansible_collections.operator_sdk.util.plugins.modules.osdk_metric"


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


def url(server: UserMetricsServer) -> str:
    """Return where *server* takes metrics."""
    return f"http://localhost:{server.port}/metrics"


async def run(server: UserMetricsServer, *, environ: dict[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    """Run the module in a process of its own, and return its result without the echo of the arguments."""
    address = {} if "address" in arguments else {"address": url(server)}
    given = {"name": "thing", "description": "About it", **address}
    code = f"""
import sys
sys.path.insert(0, {str(COLLECTIONS)!r})
from ansible.module_utils import basic
basic._ANSIBLE_PROFILE = "legacy"  # the wrapper around a module sets it, from ansible-core 2.19 on
from {MODULE} import main
main()
"""
    wanted = {name: value for name, value in {**given, **arguments}.items() if name != "address" or value}
    text = json.dumps({"ANSIBLE_MODULE_ARGS": wanted})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, text, stdout=asyncio.subprocess.PIPE, env=environ or {}
    )
    output, _ = await process.communicate()
    result: dict[str, Any] = json.loads(output)
    return {key: value for key, value in result.items() if key != "invocation"}


def shown(metrics: Metrics) -> list[str]:
    """Return the samples of `thing`."""
    return [line for line in metrics.text().splitlines() if line.startswith("thing")]


async def test_a_metric_is_sent(server: UserMetricsServer, metrics: Metrics) -> None:
    """The task is changed, and the metric is there; Jinja's text becomes booleans and numbers."""
    assert await run(server, counter={"increment": "yes"}) == {"changed": True}
    assert await run(server, counter={"add": "2.5"}) == {"changed": True}
    assert shown(metrics) == ["thing 3.5"]


async def test_an_empty_operation_creates_the_metric(server: UserMetricsServer, metrics: Metrics) -> None:
    """`summary: {}` is sent as an object of nulls, and the metric is there without an observation."""
    assert await run(server, summary={}) == {"changed": True}
    assert shown(metrics) == ["thing_count 0", "thing_sum 0"]


async def test_a_refusal_fails_the_task(server: UserMetricsServer) -> None:
    """The task fails with the operator's text and the status code, also where no kind is given."""
    negative = await run(server, counter={"add": -1})
    assert negative == {"failed": True, "msg": "counter metrics cannot decrease in value\n", "status_code": 400}
    assert (await run(server))["msg"] == "a request should contain at least one metric\n"


async def test_arguments_are_checked_by_ansible(server: UserMetricsServer, metrics: Metrics) -> None:
    """An unknown operation, a wrong type and a missing name never reach the operator."""
    assert "Unsupported parameters" in (await run(server, counter={"multiply": 2}))["msg"]
    assert "float" in (await run(server, gauge={"set": "a lot"}))["msg"]
    assert "name" in (await run(server, name=None, gauge={}))["msg"]
    assert not list(metrics.user.collect())


async def test_a_proxy_is_not_asked_for_this_machine(server: UserMetricsServer, metrics: Metrics) -> None:
    """Playbooks in a cluster with an HTTP proxy reach their own operator."""
    environ = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}
    assert await run(server, environ=environ, gauge={"set": 0.5}) == {"changed": True}
    assert shown(metrics) == ["thing 0.5"]


async def test_no_answer_fails_the_task_with_the_address(server: UserMetricsServer) -> None:
    """Where nobody listens, the message names address and flag instead of a traceback."""
    address = url(server)
    await server.stop()
    result = await run(server, address=address, gauge={})
    assert result["failed"]
    assert result["msg"].startswith(f"cannot send the metric to {address}: ")
    assert "--user-metrics-bind-address" in result["msg"]


async def test_the_operators_address_is_the_default(server: UserMetricsServer, metrics: Metrics) -> None:
    """A task that names no address sends to the operator of its run; one that does, to that one."""
    named = {"OPERATOR_USER_METRICS_ADDRESS": url(server)}
    assert await run(server, environ=named, address="", gauge={"set": 1}) == {"changed": True}
    assert shown(metrics) == ["thing 1"]
    elsewhere = {"OPERATOR_USER_METRICS_ADDRESS": "http://localhost:1/metrics"}
    assert await run(server, environ=elsewhere, address=url(server), gauge={"set": 2}) == {"changed": True}
    assert shown(metrics) == ["thing 2"]


async def test_an_operator_without_metrics_only_makes_it_warn(server: UserMetricsServer, metrics: Metrics) -> None:
    """The task succeeds, says that nothing was sent and why, and no other operator on this machine is asked."""
    result = await run(server, environ={"OPERATOR_USER_METRICS_ADDRESS": ""}, address="", gauge={})
    assert not result["changed"]
    assert "failed" not in result
    assert "--user-metrics-bind-address" in result["msg"]
    assert result["warnings"]
    assert not list(metrics.user.collect())
