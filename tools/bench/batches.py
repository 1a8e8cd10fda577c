"""Twenty objects at once: from the first request until the last one is Successful, and the processor time for each."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

from tools.bench.catalogue import COUNT
from tools.bench.latency import Lane
from tools.bench.results import Results
from tools.bench.watching import RunFailedError, successful

_LIMIT = 300.0
_ORDER = random.Random(8)  # noqa: S311 - no secret


async def measure(workers: dict[int, list[Lane]], *, rounds: Iterator[int], results: Results) -> None:
    """Measure with each number of *workers* and each of its lanes in turn; who fails is left out from then on."""
    for number in rounds:
        for count, lanes in workers.items():
            await _turn(lanes, workers=count, name=f"round-{number}", results=results)


async def _turn(lanes: list[Lane], *, workers: int, name: str, results: Results) -> None:
    for lane in _ORDER.sample(lanes, len(lanes)):
        try:
            await _twenty(lane, workers=workers, name=name, results=results)
        except (RunFailedError, TimeoutError) as error:
            lanes.remove(lane)
            results.note(f"{lane.name} was left out of twenty objects with {workers} workers: {error}")


async def _twenty(lane: Lane, *, workers: int, name: str, results: Results) -> None:
    await lane.running.calm()
    before, begun = lane.running.used().cpu, time.monotonic()
    created = await asyncio.gather(
        *(lane.objects.create(f"{name}-{number}", spec={"size": number}, test=successful) for number in range(COUNT))
    )
    told = await asyncio.gather(*(lane.passed(future, limit=_LIMIT) for _, future in created))
    results.add(f"twenty/{workers}-workers", lane.name, value=max(one.at for one in told) - begun)
    await lane.running.calm()
    results.add(f"twenty/{workers}-cpu", lane.name, value=(lane.running.used().cpu - before) / COUNT)
