"""The memory of an operator that runs alone: idle, with runs held open, and idle again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median

from runner.testing.cluster import wait_until
from tools.bench.contestants import Running
from tools.bench.latency import Lane
from tools.bench.processes import machine, memory
from tools.bench.results import Results
from tools.bench.watching import successful

_SAMPLES = 5
_LIMIT = 300.0


async def measure(lane: Lane, *, settle: float, results: Results) -> None:
    """Measure one operator, which nobody has given work yet; *settle* is for how many seconds it shall have rested."""
    running, held = lane.running, lane.running.project.held
    results.add("memory/start", lane.name, value=running.started_in)
    busy, total = machine()
    await asyncio.sleep(settle)
    later = machine()
    results.add("machine/busy", lane.name, value=(later[0] - busy) / max(later[1] - total, 0.01))
    await running.calm()
    results.add("memory/idle", lane.name, value=await _typical(running))
    await _first(lane)
    idle, before = await _typical(running), _reached(running)
    results.add("memory/rested", lane.name, value=idle)
    created = [
        await lane.objects.create(f"held-{number}", spec={"size": number}, test=successful) for number in range(held)
    ]
    peak = await _peak(running, before=before)
    results.add("memory/held", lane.name, value=(await _typical(running) - idle) / held)
    results.add("memory/peak", lane.name, value=(peak - idle) / held)
    running.project.over.touch()
    await asyncio.gather(*(lane.passed(future) for _, future in created))
    await running.calm()
    results.add("memory/after", lane.name, value=await _typical(running))


async def _first(lane: Lane) -> None:
    """Let a run pass that isn't held: the first one fills caches, and there is one in an operator's life."""
    over = lane.running.project.over
    over.touch()
    _, future = await lane.objects.create("first", spec={"size": 0}, test=successful)
    await lane.passed(future)
    await lane.running.calm()
    over.unlink()


def _reached(running: Running) -> int:
    """Return how many runs have come to where they are held."""
    return len(list(running.project.reached.iterdir()))


async def _peak(running: Running, *, before: int) -> float:
    """Return the most that was held until all runs wait; *before* of them had done so earlier."""
    samples: list[float] = []

    async def all_wait() -> bool:
        samples.append(memory(running.pid))
        await asyncio.sleep(0.1)
        return _reached(running) - before >= running.project.held

    await wait_until(all_wait, what=f"{running.name}: all runs to wait", limit=_LIMIT)
    return max(samples)


async def _typical(running: Running) -> float:
    """Return the middle one of samples over some seconds."""
    samples: Sequence[float] = [await _sample(running) for _ in range(_SAMPLES)]
    return median(samples)


async def _sample(running: Running) -> float:
    await asyncio.sleep(1)
    return memory(running.pid)
