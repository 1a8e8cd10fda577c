"""How many runs at once, and who is next (field case CC1)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from runner.assembly import Shared
from runner.execution.executor import RunRequest
from runner.kube.objects import name_of
from runner.settings import Settings
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.testing.waiting import eventually
from runner.watches.loader import load_watches
from runner.watches.model import Watch
from tests.integration.reconcile.conftest import PROBES, Probes

VARIABLE = "MAX_CONCURRENT_RECONCILES_PROBE_RECONCILE_EXAMPLE_COM"


def loaded(folder: Path, *, settings: Settings, workers: str) -> Watch:
    """Return the watch of a watches.yaml with `MAX_CONCURRENT_RECONCILES_...=workers` in the environment."""
    (folder / "roles" / "probe").mkdir(parents=True)
    entry = f"- {{group: {PROBES.group}, version: {PROBES.version}, kind: {PROBES.kind}, role: probe}}\n"
    (folder / "watches.yaml").write_text(entry)
    watches = load_watches(Path("watches.yaml"), settings=settings, environ={VARIABLE: workers}, cwd=folder)
    return watches.watches[0]


async def created(probes: Probes, count: int) -> None:
    """Create that many objects, some at a time."""
    for start in range(0, count, 50):
        await asyncio.gather(*(probes.create(f"p{number}") for number in range(start, min(start + 50, count))))


async def test_three_hundred_objects_and_three_workers(probes: Probes, settings: Settings, tmp_path: Path) -> None:
    """The variable beats the flag: three runs at once and never four, never two on one object, and each object once."""
    settings = replace(settings, max_concurrent_reconciles=8)
    watch = replace(loaded(tmp_path, settings=settings, workers="3"), manage_status=False)
    executor = ScriptedExecutor(seconds=0.002)
    await created(probes, 300)
    async with running_operator([watch], settings=settings, executor=executor):
        await eventually(lambda: len(executor.requests) >= 300, limit=120)
    assert len({name_of(request.obj) for request in executor.requests}) == len(executor.requests) == 300
    assert (executor.most_at_once, executor.most_at_once_per_object) == (3, 1)


async def test_a_broken_number_leaves_the_flags(probes: Probes, settings: Settings, tmp_path: Path) -> None:
    """With a variable of zero the flag's number runs at once, and no more."""
    settings = replace(settings, max_concurrent_reconciles=2)
    watch = loaded(tmp_path, settings=settings, workers="0")
    gate = asyncio.Event()

    async def script(_: RunRequest) -> None:
        await gate.wait()

    executor = ScriptedExecutor(during=script)
    await created(probes, 4)
    async with running_operator([watch], settings=settings, executor=executor):
        await eventually(lambda: len(executor.requests) == 2)
        gate.set()
        await eventually(lambda: len(executor.requests) == 4)
    assert executor.most_at_once == 2


async def test_a_fresh_object_is_served_ahead_of_periodic_runs(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """With forty periodic runs in line for the only worker, a new object's run is the next one."""
    gate, held = asyncio.Event(), asyncio.Event()
    seen: list[Shared] = []

    async def script(_: RunRequest) -> None:
        if len(executor.requests) >= 100:  # each object ran, and its period is what brings it back
            held.set()
            await gate.wait()

    def remember(shared: Shared) -> Shared:
        seen.append(shared)
        return shared

    executor = ScriptedExecutor(during=script)
    periodic = replace(watch, reconcile_period=timedelta(milliseconds=50), manage_status=False)
    await created(probes, 41)
    async with running_operator([periodic], settings=settings, executor=executor, adjust=remember):
        await asyncio.wait_for(held.wait(), timeout=60)
        await eventually(lambda: _depth(seen[0]) == 40)
        await probes.create("fresh")
        await eventually(lambda: _depth(seen[0]) == 41)
        before = len(executor.requests)
        gate.set()
        await eventually(lambda: len(executor.requests) > before)
        assert name_of(executor.requests[before].obj) == "fresh"


def _depth(shared: Shared) -> float:
    """Return how many keys are in line, as /metrics tells."""
    return sum(map(float, re.findall(r"^workqueue_depth\{.*\} (\S+)$", shared.metrics.text(), re.MULTILINE)))
