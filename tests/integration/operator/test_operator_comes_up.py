"""Workers begin when the executor has come up, so that an operator's first runs aren't hundreds of cold ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runner.assembly import Shared
from runner.kube.client import KubeClient
from runner.settings import Settings
from runner.testing.cluster import crd, install_crd
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.testing.waiting import eventually
from runner.watches.model import Content, Watch
from tests.integration.reconcile.conftest import Probes

GROUP = "comes-up.example.com"


class Slow(ScriptedExecutor):
    """An executor that comes up when a test says so."""

    def __init__(self) -> None:
        """Be down."""
        super().__init__()
        self.asked = asyncio.Event()
        self.up = asyncio.Event()

    async def settled(self) -> None:
        """Wait for the test."""
        self.asked.set()
        await self.up.wait()


def _in_line(texts: list[Callable[[], str]]) -> float:
    lines = [line for line in texts[0]().splitlines() if line.startswith("workqueue_depth{")]
    return sum(float(line.split()[-1]) for line in lines)


async def test_workers_wait_until_the_executor_has_come_up(
    kube: KubeClient, namespace: str, settings: Settings
) -> None:
    """Meanwhile changes are taken in and stand in line; an operator that is stopped before that doesn't wait for it."""
    slow = Slow()
    texts: list[Callable[[], str]] = []

    def keep(shared: Shared) -> Shared:
        texts.append(shared.metrics.text)
        return shared

    probes = Probes(kube=kube, resource=await install_crd(kube, crd("Late", group=GROUP)), namespace=namespace)
    watches = [Watch(gvk=probes.resource.gvk, content=Content())]
    await probes.create("before")
    async with running_operator(watches, settings=settings, executor=slow, adjust=keep):
        await asyncio.wait_for(slow.asked.wait(), 60)
        await probes.create("after")
        await eventually(lambda: _in_line(texts) == 2)
        assert slow.requests == []
        slow.up.set()
        await eventually(lambda: slow.runs_of("before") and slow.runs_of("after"))
    down = Slow()
    async with running_operator(watches, settings=settings, executor=down):
        await asyncio.wait_for(down.asked.wait(), 60)
    assert down.requests == []
