"""One object in two watches: two versions of one kind; and one kind in two groups (field case W3)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runner.execution.executor import Outcome, RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, conditions_of, finalizers_of, name_of
from runner.localdev.plane import ControlPlane
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import crd, install_crd, remove_crd, wait_until
from runner.testing.executor import ScriptedExecutor, failed
from runner.testing.faults import HttpFaultProxy
from runner.testing.harness import running_operator
from runner.testing.waiting import eventually
from runner.watches.model import Content, Finalizer, LabelRequirement, Watch
from tests.integration.reconcile.conftest import Probes

FIRST = Finalizer(name="versions.example.com/first")
SECOND = Finalizer(name="versions.example.com/second")


@pytest.fixture
async def things(kube: KubeClient, namespace: str) -> AsyncIterator[Probes]:
    """Give a kind that is served in v1 and v2 (v2 is stored), seen as v1."""
    group = f"g{secrets.token_hex(4)}.example.com"
    body = crd("Thing", group=group, versions=("v2", "v1"))
    stored = await install_crd(kube, body)
    resource = Resource(gvk=GVK(group, "v1", "Thing"), plural="things", subresources=stored.subresources)
    things = Probes(kube=kube, resource=resource, namespace=namespace)
    yield things
    for name in await things.names():
        await things.patch(name, {"metadata": {"finalizers": None}})
    await remove_crd(kube, body["metadata"]["name"])


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The watches on the two versions, in the order of the file."""

    first: Watch
    second: Watch

    def both(self) -> list[Watch]:
        """Return them."""
        return [self.first, self.second]


@pytest.fixture
def pair(things: Probes) -> Pair:
    """Give a watch on v1, then one on v2."""
    first = Watch(gvk=things.resource.gvk, content=Content(), max_concurrent_reconciles=1)
    return Pair(first=first, second=replace(first, gvk=replace(first.gvk, version="v2")))


def runs(executor: ScriptedExecutor, watch: Watch, *, name: str = "one") -> list[RunRequest]:
    """Return the runs of *watch* for one object."""
    return [request for request in executor.runs_of(name) if request.watch.gvk == watch.gvk]


async def test_both_roles_run_and_never_at_once(things: Probes, pair: Pair, settings: Settings) -> None:
    """Each version's role runs for each change, and no object has two runs at the same time."""
    executor = ScriptedExecutor(seconds=0.02)
    wide = [replace(watch, max_concurrent_reconciles=3) for watch in pair.both()]
    names = ["one", "two", "three"]
    async with running_operator(wide, settings=settings, executor=executor):
        for name in names:
            await things.create(name)
        for size in range(2, 6):
            for name in names:
                await things.patch(name, {"spec": {"size": size}})

        def all_saw_the_last_edit() -> bool:
            lists = [runs(executor, watch, name=name) for watch in wide for name in names]
            return all(found and found[-1].obj["spec"]["size"] == 5 for found in lists)

        await eventually(all_saw_the_last_edit)
    assert executor.most_at_once_per_object == 1
    assert executor.most_at_once > 1


async def test_who_waits_for_the_object_costs_no_worker(things: Probes, pair: Pair, settings: Settings) -> None:
    """While one version's run holds the object, the only worker of the other version serves another object."""
    gate = asyncio.Event()

    async def script(request: RunRequest) -> None:
        if name_of(request.obj) == "one":
            await gate.wait()

    executor = ScriptedExecutor(during=script)
    async with running_operator(pair.both(), settings=settings, executor=executor):
        await things.create("one")
        await eventually(lambda: executor.runs_of("one"))
        await things.create("two")
        await eventually(lambda: executor.runs_of("two"))
        assert len(executor.runs_of("one")) == 1
        holder = executor.runs_of("one")[0].watch.gvk
        assert [request.watch.gvk for request in executor.runs_of("two")] != [holder]
        gate.set()
        await eventually(lambda: len(executor.runs_of("one")) == 2 and len(executor.runs_of("two")) == 2)
    assert executor.most_at_once_per_object == 1


async def test_a_stop_waits_for_nobody_who_is_parked(things: Probes, pair: Pair, settings: Settings) -> None:
    """When the operator stops, the run under way ends and the parked key of the other version never runs."""
    gate = asyncio.Event()
    executor = ScriptedExecutor(during=lambda _: _wait(gate))
    async with running_operator(pair.both(), settings=settings, executor=executor) as operator:
        await things.create("one")
        await eventually(lambda: executor.requests)
        operator.stop()
        gate.set()
    assert len(executor.requests) == 1


@dataclass
class SecondFails(ScriptedExecutor):
    """Fails every run of v2."""

    def __post_init__(self) -> None:
        """Script nothing else."""
        super().__init__()

    async def run(self, request: RunRequest) -> Outcome:
        """Run."""
        outcome = await super().run(request)
        return failed("of v2") if request.watch.gvk.version == "v2" else outcome


async def test_only_the_first_watch_writes_conditions(
    plane: ControlPlane, things: Probes, pair: Pair, settings: Settings, tmp_path: Path
) -> None:
    """The second version's role fails and is tried again, and neither the status nor the first version hears of it."""
    executor = SecondFails()
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        through = replace(settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))
        async with running_operator(pair.both(), settings=through, executor=executor):
            await things.create("one")
            await eventually(lambda: len(runs(executor, pair.second)) >= 3)
            await things.patch("one", {"spec": {"size": 2}})  # the barrier
            await wait_until(lambda: _observed(things, 2), what="the edit's run")
            await eventually(lambda: runs(executor, pair.second)[-1].obj["spec"]["size"] == 2)
        written = [record.path for record in proxy.requests if record.method in {"PUT", "PATCH"}]
    assert [request.obj["spec"]["size"] for request in runs(executor, pair.first)] == [1, 2]
    assert written
    assert all(f"/{things.resource.gvk.group}/v1/" in path for path in written)
    assert not await _failure(things)
    assert (await things.conditions("one"))["Failure"] == "False"


async def test_the_two_do_not_wake_each_other(things: Probes, pair: Pair, settings: Settings) -> None:
    """Finalizer and status writes of one version start no run of the other: one run each per change."""
    executor = ScriptedExecutor()
    both = [replace(pair.first, finalizer=FIRST), pair.second]
    async with running_operator(both, settings=settings, executor=executor):
        await things.create("one")
        await eventually(lambda: all(len(runs(executor, watch)) == 1 for watch in both))
        await wait_until(lambda: _observed(things, 1), what="the first run's status")
        await things.patch("one", {"spec": {"size": 2}})
        await eventually(lambda: all(runs(executor, watch)[-1].obj["spec"]["size"] == 2 for watch in both))
        await wait_until(lambda: _observed(things, 2), what="the second run's status")
        await things.create("two")  # the barrier: whatever the writes for `one` woke has come before it
        await eventually(lambda: all(runs(executor, watch, name="two") for watch in both))
    assert [len(runs(executor, watch)) for watch in both] == [2, 2]


async def test_of_two_finalizers_the_first_watchs_holds(things: Probes, pair: Pair, settings: Settings) -> None:
    """Only the first watch's finalizer is put on the object; a deletion runs its role once, and completes."""
    executor = ScriptedExecutor()
    both = [replace(pair.first, finalizer=FIRST), replace(pair.second, finalizer=SECOND)]
    async with running_operator(both, settings=settings, executor=executor):
        await things.create("one")
        await eventually(lambda: all(runs(executor, watch) for watch in both))
        await wait_until(lambda: _observed(things, 1), what="the status")
        assert finalizers_of(await things.get("one")) == (FIRST.name,)
        await things.delete("one")
        await wait_until(lambda: _gone(things), what="the object to go")
    assert [request.watch.gvk.version for request in executor.requests if request.finalizing] == ["v1"]


async def test_one_finalizer_name_in_both_watches_runs_the_firsts(
    things: Probes, pair: Pair, settings: Settings
) -> None:
    """Where both watches name the same finalizer only the first one's role runs for it."""
    executor = ScriptedExecutor()
    both = [replace(watch, finalizer=FIRST) for watch in pair.both()]
    async with running_operator(both, settings=settings, executor=executor):
        await things.create("one")
        await eventually(lambda: all(runs(executor, watch) for watch in both))
        await things.delete("one")
        await wait_until(lambda: _gone(things), what="the object to go")
    assert [request.watch.gvk.version for request in executor.requests if request.finalizing] == ["v1"]


async def test_a_finalizer_that_only_the_second_watch_has_is_its_own(
    things: Probes, pair: Pair, settings: Settings
) -> None:
    """The second watch holds the object where the first one has no finalizer, and lets it go after its run."""
    executor = ScriptedExecutor()
    both = [pair.first, replace(pair.second, finalizer=SECOND)]
    async with running_operator(both, settings=settings, executor=executor):
        await things.create("one")
        await eventually(lambda: all(runs(executor, watch) for watch in both))
        await wait_until(lambda: _observed(things, 1), what="the status")
        assert finalizers_of(await things.get("one")) == (SECOND.name,)
        await things.delete("one")
        await wait_until(lambda: _gone(things), what="the object to go")
    assert [request.watch.gvk.version for request in executor.requests if request.finalizing] == ["v2"]


async def test_finalizers_of_both_that_are_there_are_both_honoured(
    things: Probes, pair: Pair, settings: Settings
) -> None:
    """An object that carries both (from another order of the file) is finalized once by each, and goes."""
    executor = ScriptedExecutor(seconds=0.02)
    await things.create("one", finalizers=[FIRST.name, SECOND.name])
    await things.delete("one")
    both = [replace(pair.first, finalizer=FIRST), replace(pair.second, finalizer=SECOND)]
    async with running_operator(both, settings=settings, executor=executor):
        await wait_until(lambda: _gone(things), what="the object to go")
    assert sorted(request.watch.gvk.version for request in executor.requests) == ["v1", "v2"]
    assert all(request.finalizing for request in executor.requests)
    assert executor.most_at_once_per_object == 1


async def test_the_second_watch_owns_what_the_first_does_not_select(
    things: Probes, pair: Pair, settings: Settings
) -> None:
    """Where the first watch's selector does not match, the second one writes the conditions."""
    executor = SecondFails()
    selecting = replace(pair.first, selector=(LabelRequirement(key="tier", operator="Exists"),))
    async with running_operator([selecting, pair.second], settings=settings, executor=executor):
        await things.create("one")
        await wait_until(lambda: _failure(things), what="the second watch's Failure")
    assert runs(executor, selecting) == []


async def test_one_kind_in_two_groups_is_two_kinds(
    kube: KubeClient, namespace: str, things: Probes, pair: Pair, settings: Settings
) -> None:
    """Kinds of one name and version in two groups are served beside each other, each with its own status."""
    body = crd("Thing", group=f"g{secrets.token_hex(4)}.example.com")
    others = Probes(kube=kube, resource=await install_crd(kube, body), namespace=namespace)
    executor = ScriptedExecutor()
    try:
        watches = [pair.first, replace(pair.first, gvk=others.resource.gvk)]
        async with running_operator(watches, settings=settings, executor=executor):
            await things.create("one")
            await others.create("one")
            await wait_until(lambda: _observed(things, 1), what="the status in the first group")
            await wait_until(lambda: _observed(others, 1), what="the status in the second group")
        assert sorted(r.watch.gvk.group for r in executor.requests) == sorted(w.gvk.group for w in watches)
    finally:
        await remove_crd(kube, body["metadata"]["name"])


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _observed(things: Probes, generation: int) -> bool:
    """Tell whether *generation* succeeded."""
    entries = {entry["type"]: entry for entry in conditions_of(await things.get("one"))}
    found = entries.get("Successful", {})
    return found.get("status") == "True" and found.get("observedGeneration") == generation


async def _failure(things: Probes) -> bool:
    return "of v2" in {entry.get("message") for entry in conditions_of(await things.get("one"))}


async def _gone(things: Probes) -> bool:
    return "one" not in await things.names()
