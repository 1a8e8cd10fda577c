"""An API server that refuses, delays and conflicts: no run is repeated for it and no writer loses anything."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from runner.execution.executor import RunRequest
from runner.kube.client import KubeClient
from runner.kube.objects import GVK, conditions_of, finalizers_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import crd, install_crd, remove_crd, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.faults import ActiveRule, HttpFaultProxy, Rule
from runner.testing.harness import running_operator
from runner.watches.model import Finalizer, LabelRequirement, Watch
from runner.workqueue.request import Request
from tests.integration.reconcile.conftest import Probes

STATUS = r"/probes/one/status$"
NO_PAGE = b"404 page not found"
"""What an API server answers for a path that it doesn't serve, not yet or not any more."""


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


async def test_a_missing_right_that_cannot_be_told_waits_as_long(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """Where the Failure that names a missing right gets through neither, the key waits for the grant all the same."""
    proxy.rule(Rule(method="PATCH|PUT", path=r"/probes/one$", status=403))
    proxy.rule(Rule(method="PUT", path=STATUS, status=409))
    sink = RecordingSink()
    held = replace(watch, finalizer=Finalizer(name="reconcile.example.com/ours"))
    impatient = replace(through, status=replace(through.status, attempts=2))
    async with running_operator([held], settings=impatient, executor=ScriptedExecutor(), sink=sink):
        await probes.create("one")
        await wait_until(lambda: _is("Reconciled" in sink.sentences()), what="the decision")
    (line,) = [record for record in sink.records if record["msg"] == "Reconciled"]
    assert line["requeueAfterSeconds"] == 30.0
    assert "Observed a panic" not in sink.sentences()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", r"/probes/one$"),
        ("GET", r"/apis/reconcile.example.com/v1$"),
        ("PATCH", r"/probes/one$"),
        ("PUT", STATUS),
    ],
    ids=["read", "discovery", "finalizer", "status"],
)
async def test_a_404_that_errs_loses_no_key(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy, *, method: str, path: str
) -> None:
    """An object that is there is run without another event, whichever request a starting server answers with 404."""
    executor = ScriptedExecutor()
    held = replace(watch, finalizer=Finalizer(name="reconcile.example.com/ours"))
    async with running_operator([held], settings=through, executor=executor):
        await probes.create("zero")
        await wait_until(lambda: _is(len(executor.requests) == 1), what="the watch to stand")
        if "apis" in path:  # the kind is known by now: a first 404 of the object lets it be asked for again
            proxy.rule(Rule(method="GET", path=r"/probes/one$", status=404, body=NO_PAGE, times=1))
        erring = proxy.rule(Rule(method=method, path=path, status=404, body=NO_PAGE, times=1))
        await probes.create("one")
        await wait_until(lambda: _successful(probes), what="the run")
    assert erring.hits == 1
    assert len(executor.runs_of("one")) == 1


async def test_a_status_that_answers_404_after_the_run_is_written_later(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """The run is not repeated for a 404 of its status: the status is kept and written by itself."""
    erring: list[ActiveRule] = []

    async def script(_: RunRequest) -> None:
        erring.append(proxy.rule(Rule(method="PUT", path=STATUS, status=404, body=NO_PAGE, times=1)))

    executor = ScriptedExecutor(during=script)
    async with running_operator([watch], settings=through, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _successful(probes), what="the status to land")
    assert [rule.hits for rule in erring] == [1]
    assert len(executor.requests) == 1


@pytest.mark.parametrize("leaving", ["deleted", "relabelled"])
async def test_nothing_is_kept_of_an_object_that_left(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy, *, leaving: str
) -> None:
    """A status that waits, and what was told, is dropped when the object is deleted or leaves the selector."""
    refused: list[ActiveRule] = []

    async def script(_: RunRequest) -> None:
        refused.append(proxy.rule(Rule(method="PUT", path=STATUS, status=409)))

    choosy = replace(watch, selector=(LabelRequirement(key="tier", operator="Exists"),))
    impatient = replace(through, status=replace(through.status, attempts=1))
    executor = ScriptedExecutor(during=script)
    async with running_operator([choosy], settings=impatient, executor=executor) as operator:
        parts = operator._controllers[0].reconciler._parts
        request = Request(watch.gvk, probes.namespace, "one")
        await probes.create("one", spec={"ansible_host": "x"}, labels={"tier": "gold"})
        await wait_until(lambda: _is(bool(refused) and refused[0].hits >= 2), what="a status that waits")
        assert len(parts.pending) == 1
        if leaving == "deleted":
            await probes.delete("one")
        else:
            await probes.patch("one", {"metadata": {"labels": {"tier": None}}})
        await wait_until(lambda: _is(not len(parts.pending)), what="the status to be dropped")
        await wait_until(lambda: _is(request not in parts.notices._told), what="the notice to go")


async def test_nothing_is_kept_of_a_kind_that_left(
    kube: KubeClient, namespace: str, watch: Watch, settings: Settings
) -> None:
    """Objects that went with their CRD leave neither a turn nor a notice behind, and are run when they are back."""
    gvk = GVK("reconcile.example.com", "v1", f"Fleeting{namespace.removeprefix('test-').replace('-', '')}")
    executor, sink = ScriptedExecutor(), RecordingSink()
    periodic = replace(watch, gvk=gvk, reconcile_period=timedelta(hours=1))
    definition = crd(gvk.kind, group=gvk.group)
    async with running_operator([periodic], settings=settings, executor=executor, sink=sink) as operator:
        fleeting = Probes(kube=kube, resource=await install_crd(kube, definition), namespace=namespace)
        await fleeting.create("one", spec={"ansible_host": "x"})
        await wait_until(lambda: _is("Reconciled" in sink.sentences()), what="the run")
        (controller,) = operator._controllers
        assert (controller.queue.delayed, len(controller.reconciler._parts.notices._told)) == (1, 1)
        await remove_crd(kube, definition["metadata"]["name"])
        await wait_until(lambda: _is(not controller.queue.delayed), what="the turn to be cancelled")
        await wait_until(lambda: _is(not controller.reconciler._parts.notices._told), what="the notice to go")
        fleeting = Probes(kube=kube, resource=await install_crd(kube, definition), namespace=namespace)
        await fleeting.create("one")
        await wait_until(lambda: _is(len(executor.requests) == 2), what="the next run")


async def _is(condition: bool) -> bool:  # noqa: FBT001 - an awaitable made of a condition
    return condition


async def _successful(probes: Probes, name: str = "one") -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get(name))}
    return entries.get("Running", {}).get("reason") == "Successful"


async def _failure_has(probes: Probes, text: str) -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
    return text in entries.get("Failure", {}).get("message", "")


async def test_deletions_cost_no_discovery(
    probes: Probes, watch: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """A 404 that names the object says that its kind is served: the operator asks for the kind once in its life."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=through, executor=executor):
        for name in ("a", "b", "c"):
            await probes.create(name)
        for name in ("a", "b", "c"):  # a status that is written to what was just deleted is another matter
            await wait_until(partial(_successful, probes, name), what="the runs")
        for name in ("a", "b", "c"):
            await probes.delete(name)
        await probes.create("barrier")
        await wait_until(lambda: _is(executor.runs_of("barrier") != []), what="the keys of the deletions to be done")
    asked = [record for record in proxy.requests if re.search(r"/apis/reconcile\.example\.com/v1$", record.path)]
    assert len(asked) == 1
