"""An API server that refuses, delays and conflicts: no run is repeated for it and no writer loses anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.execution.executor import RunRequest
from runner.kube.objects import conditions_of, finalizers_of
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.faults import ActiveRule, HttpFaultProxy, Rule
from runner.testing.harness import running_operator
from runner.watches.model import Finalizer, Watch
from tests.integration.reconcile.conftest import Probes

STATUS = r"/probes/one/status$"


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[HttpFaultProxy]:
    """Stand in front of the plane's API server."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def through(settings: Settings, proxy: HttpFaultProxy, tmp_path: Path) -> Settings:
    """Return settings with which the operator speaks to the API server through the proxy."""
    return replace(settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))


async def test_a_write_between_read_and_write_costs_no_second_run(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """The status lands after a Conflict, the other's field is kept, and the role runs once (field case ST1)."""
    held: list[ActiveRule] = []

    async def script(_: RunRequest) -> None:
        held.append(proxy.rule(Rule(method="PUT", path=STATUS, hold=True, times=1)))

    executor = ScriptedExecutor(during=script)
    async with running_operator([watch], settings=through, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _is(bool(held)), what="the run")
        await held[0].wait_hit()
        await probes.patch("one", {"status": {"url": "http://other"}}, subresource="status")
        held[0].release()
        await wait_until(lambda: _successful(probes), what="the status to land")
    assert (await probes.get("one"))["status"]["url"] == "http://other"
    assert len(executor.requests) == 1
    puts = [record for record in proxy.requests if record.method == "PUT" and record.path.endswith("/one/status")]
    assert len(puts) == 3  # running, done with a Conflict, done again


@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_a_status_that_cannot_be_written_is_written_later_without_a_run(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy, status: int
) -> None:
    """When all tries are used up the computed status is kept, and written from the queue; the role ran once."""
    refused: list[ActiveRule] = []

    async def script(_: RunRequest) -> None:
        refused.append(proxy.rule(Rule(method="PUT", path=STATUS, status=status, headers={"Retry-After": "0"})))

    executor = ScriptedExecutor(during=script)
    impatient = replace(through, status=replace(through.status, attempts=2))
    async with running_operator([watch], settings=impatient, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _is(bool(refused) and refused[0].hits >= 4), what="two rounds of refusals")
        refused[0].cancel()
        await wait_until(lambda: _successful(probes), what="the kept status to land")
    assert len(executor.requests) == 1


async def test_a_missing_right_is_named_in_the_condition(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """Where a step is forbidden, Failure names verb, resource, name and namespace, and nothing runs."""
    proxy.rule(Rule(method="PATCH|PUT", path=r"/probes/one$", status=403))
    executor = ScriptedExecutor()
    held = replace(watch, finalizer=Finalizer(name="reconcile.example.com/ours"))
    async with running_operator([held], settings=through, executor=executor):
        await probes.create("one")
        expected = f"patch probes.reconcile.example.com one in namespace {probes.namespace}"
        await wait_until(lambda: _failure_has(probes, expected), what="the condition")
    assert executor.requests == []


async def test_a_conflict_on_the_finalizer_is_tried_again(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """Somebody else's finalizer that arrives between our read and write stays in front of ours (field case F2)."""
    held = proxy.rule(Rule(method="PATCH", path=r"/probes/one$", hold=True, times=1))
    executor = ScriptedExecutor()
    watching = replace(watch, finalizer=Finalizer(name="reconcile.example.com/ours"))
    async with running_operator([watching], settings=through, executor=executor):
        await probes.create("one")
        await held.wait_hit()
        await probes.patch("one", {"metadata": {"finalizers": ["example.com/theirs"]}})
        held.release()
        await wait_until(lambda: _successful(probes), what="the run")
    assert finalizers_of(await probes.get("one")) == ("example.com/theirs", "reconcile.example.com/ours")
    assert len(executor.requests) == 1


async def _is(condition: bool) -> bool:  # noqa: FBT001 - an awaitable made of a condition
    return condition


async def _successful(probes: Probes) -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
    return entries.get("Running", {}).get("reason") == "Successful"


async def _failure_has(probes: Probes, text: str) -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
    return text in entries.get("Failure", {}).get("message", "")
