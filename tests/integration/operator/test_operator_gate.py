"""The limit on plays of all watches together, and the memory guard: what an object's user and a probe see of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from runner.assembly import Shared
from runner.execution.executor import RunRequest
from runner.execution.memory import FreeMemory
from runner.kube.client import KubeClient
from runner.kube.objects import name_of
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.testing.waiting import eventually
from runner.watches.model import Content, Watch
from tests.integration.operator.probing import Probe
from tests.integration.reconcile.conftest import Probes

GROUP = "gate.example.com"
MIB = 1024 * 1024
SHORT = "Memory is short: no new run starts until there is more"


@dataclass(kw_only=True)
class Runs:
    """An executor whose runs last until a test ends them."""

    doors: dict[str, asyncio.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the executor."""
        self.executor = ScriptedExecutor(during=self._last)

    async def _last(self, request: RunRequest) -> None:
        await self.doors.setdefault(name_of(request.obj), asyncio.Event()).wait()

    def end(self, name: str) -> None:
        """Let the present and all later runs of the object *name* end."""
        self.doors.setdefault(name, asyncio.Event()).set()

    @property
    def names(self) -> list[str]:
        """Return what started, in its order."""
        return [name_of(request.obj) for request in self.executor.requests]


@pytest.fixture
def runs() -> Runs:
    """Give runs that last."""
    return Runs()


@pytest.fixture
async def webs(kube: KubeClient, namespace: str) -> Probes:
    """Give the objects of one kind."""
    return Probes(kube=kube, resource=await install_crd(kube, crd("Web", group=GROUP)), namespace=namespace)


@pytest.fixture
async def shops(kube: KubeClient, namespace: str) -> Probes:
    """Give the objects of another kind."""
    return Probes(kube=kube, resource=await install_crd(kube, crd("Shop", group=GROUP)), namespace=namespace)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Return settings with one play at most."""
    return replace(settings, execution=replace(settings.execution, max_running_plays=1, min_free_memory=0))


def watching(*probes: Probes) -> list[Watch]:
    """Return a watch with two workers for each kind."""
    return [Watch(gvk=one.resource.gvk, content=Content(), max_concurrent_reconciles=2) for one in probes]


async def test_the_limit_holds_over_all_watches_and_who_waits_is_not_running(
    webs: Probes, shops: Probes, settings: Settings, runs: Runs
) -> None:
    """An object says Running when something runs for it; while it waits its status is as it was."""
    sink = RecordingSink()
    texts: list[Callable[[], str]] = []

    def keep(shared: Shared) -> Shared:
        texts.append(shared.metrics.text)
        return shared

    def waiting(count: int) -> bool:
        return f"ansible_operator_waiting_plays {count}\n" in texts[0]()

    async with running_operator(
        watching(webs, shops), settings=settings, executor=runs.executor, sink=sink, adjust=keep
    ):
        await webs.create("first")
        await eventually(lambda: runs.names == ["first"])
        await shops.create("second")
        await eventually(lambda: waiting(1))
        assert "ansible_operator_running_plays 1\n" in texts[0]()
        assert (await webs.conditions("first"))["Running"] == "True"
        assert await shops.conditions("second") == {}

        runs.end("first")
        await eventually(lambda: runs.names == ["first", "second"])
        assert (await shops.conditions("second"))["Running"] == "True"
        await wait_until(lambda: _successful(webs, "first"), what="the first end")
        runs.end("second")
        await wait_until(lambda: _successful(shops, "second"), what="the second end")
    assert runs.executor.most_at_once == 1


async def _successful(probes: Probes, name: str) -> bool:
    return (await probes.conditions(name)).get("Successful") == "True"


async def test_what_runs_is_what_is_there_when_the_turn_comes(
    webs: Probes, shops: Probes, settings: Settings, runs: Runs
) -> None:
    """A change made while an object waits is in its first run; one that was deleted meanwhile runs nothing."""
    runs.end("changed")
    runs.end("last")
    async with running_operator(watching(webs, shops), settings=settings, executor=runs.executor) as operator:
        await webs.create("first")
        await eventually(lambda: runs.names == ["first"])
        await shops.create("changed")
        await shops.create("deleted")
        await eventually(lambda: operator.waiting == 2)
        await shops.patch("changed", {"spec": {"size": 2}})
        await shops.delete("deleted")
        runs.end("first")
        await webs.create("last")
        await eventually(lambda: "last" in runs.names)
        await wait_until(lambda: _successful(shops, "changed"), what="the end of the changed one")

    sizes = [request.obj["spec"]["size"] for request in runs.executor.runs_of("changed")]
    assert set(sizes) == {2}
    assert runs.executor.runs_of("deleted") == []


async def test_who_waits_at_the_drain_starts_nothing(
    webs: Probes, shops: Probes, settings: Settings, runs: Runs
) -> None:
    """The operator ends with the plays that run; the others are the next operator's, and no status tells of them."""
    sink = RecordingSink()
    async with running_operator(
        watching(webs, shops), settings=settings, executor=runs.executor, sink=sink
    ) as operator:
        await webs.create("first")
        await eventually(lambda: runs.names == ["first"])
        await shops.create("second")
        await eventually(lambda: operator.waiting == 1)
        operator.stop()
        await eventually(lambda: operator.waiting == 0)
        runs.end("first")
    assert runs.names == ["first"]
    assert await shops.conditions("second") == {}
    (stopping,) = [record for record in sink.records if str(record["msg"]).startswith("Stopping")]
    assert stopping["running"] == 1


async def test_no_run_starts_while_memory_is_short(webs: Probes, settings: Settings, runs: Runs, probe: Probe) -> None:
    """Readiness and one log line say so with figures, liveness is untouched, and it goes on by itself."""
    free = FreeMemory(size=10 * MIB, source="/sys/fs/cgroup")
    sink = RecordingSink()
    runs.end("one")
    guarded = replace(settings, execution=replace(settings.execution, min_free_memory=64 * MIB, max_running_plays=0))

    def with_memory(shared: Shared) -> Shared:
        return replace(shared, memory=lambda: free)

    async with running_operator(
        watching(webs), settings=guarded, executor=runs.executor, sink=sink, adjust=with_memory
    ):
        await probe.until("/readyz", status=200)
        await webs.create("one")
        text = await probe.until("/readyz", status=500, text="[-]memory failed: 1 runs wait for memory: 10Mi are free")
        assert "(/sys/fs/cgroup), --min-free-memory asks for 64Mi; 0 are running" in text
        assert await probe.get("/healthz") == (200, "ok")
        assert await webs.conditions("one") == {}
        assert runs.names == []

        free = FreeMemory(size=1000 * MIB, source="/sys/fs/cgroup")
        await wait_until(lambda: _successful(webs, "one"), what="the end of the run")
        await probe.until("/readyz", status=200)
    assert [record["free"] for record in sink.records if record["msg"] == SHORT] == ["10Mi"]
