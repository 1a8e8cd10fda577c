"""Nobody's trouble delays another kind: a play that sleeps, an object that always fails, a kind with many objects."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from runner.errors import ExecutionError
from runner.execution.executor import RunRequest
from runner.kube.objects import GVK
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.watches.model import Content, Watch
from tests.integration.reconcile.conftest import PROBES, Probes

MANY = 100
OTHERS = GVK(PROBES.group, "v1", "Neighbour")


async def test_a_fresh_edit_of_another_kind_waits_for_nobody(probes: Probes, watch: Watch, settings: Settings) -> None:
    """A play of the one kind sleeps, a hundred of it wait, one object always fails: an edit of the other kind runs."""
    neighbours = replace(probes, resource=await install_crd(probes.kube, crd(OTHERS.kind, group=OTHERS.group)))
    woken = asyncio.Event()

    async def during(request: RunRequest) -> None:
        if request.watch.gvk == PROBES:
            await woken.wait()
        if request.obj["metadata"]["name"] == "broken":
            raise ExecutionError("it always fails")

    executor = ScriptedExecutor(during=during)
    other = Watch(gvk=OTHERS, content=Content(), reconcile_period=timedelta(milliseconds=100))
    async with running_operator([watch, other], settings=settings, executor=executor):
        try:
            await asyncio.gather(*(probes.create(f"many-{number}") for number in range(MANY)))
            await wait_until(lambda: _has(executor, PROBES), what="the play that sleeps")
            await neighbours.create("broken")
            await neighbours.create("fresh")
            await wait_until(lambda: _saw(executor, "fresh", size=1), what="the first run")
            await neighbours.patch("fresh", {"spec": {"size": 2}})
            await wait_until(lambda: _saw(executor, "fresh", size=2), what="the edit's run")
            assert [request.watch.gvk for request in executor.requests].count(PROBES) == 1  # it sleeps still
        finally:
            woken.set()


async def test_a_place_that_all_kinds_share_goes_round(probes: Probes, watch: Watch, settings: Settings) -> None:
    """With one place for the plays of all kinds, an edit of the other kind waits for one run, not for a hundred."""
    neighbours = replace(probes, resource=await install_crd(probes.kube, crd(OTHERS.kind, group=OTHERS.group)))
    steps = asyncio.Semaphore(0)

    async def during(_: RunRequest) -> None:
        await steps.acquire()

    executor = ScriptedExecutor(during=during)
    one = replace(settings, execution=replace(settings.execution, max_running_plays=1))
    other = Watch(gvk=OTHERS, content=Content())
    async with running_operator([watch, other], settings=one, executor=executor) as operator:
        try:
            await asyncio.gather(*(probes.create(f"many-{number}") for number in range(MANY)))
            await wait_until(lambda: _has(executor, PROBES), what="the play that has the place")
            await neighbours.create("fresh")
            await wait_until(lambda: _is(operator.waiting == 1), what="its place in the line")
            steps.release()
            await wait_until(lambda: _saw(executor, "fresh", size=1), what="its turn")
            assert [request.watch.gvk for request in executor.requests] == [PROBES, OTHERS]
        finally:
            for _ in range(MANY + 10):
                steps.release()


async def _is(held: bool) -> bool:  # noqa: FBT001 - what is waited for
    return held


async def _has(executor: ScriptedExecutor, gvk: GVK) -> bool:
    return any(request.watch.gvk == gvk for request in executor.requests)


async def _saw(executor: ScriptedExecutor, name: str, *, size: int) -> bool:
    return any(
        request.obj["metadata"]["name"] == name and request.obj["spec"]["size"] == size for request in executor.requests
    )
