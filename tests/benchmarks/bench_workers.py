"""How long five objects take whose role takes five seconds: `pytest tests/benchmarks/bench_workers.py -s`.

Not part of the suite: it measures, it doesn't judge. Prints the wall time from the creation of the objects until all
of them are Successful, and what of that is not the role's own five seconds.
"""

from __future__ import annotations

import time

import pytest

from runner.testing.cluster import wait_until
from tests.integration.operator.conftest import Project, StartOperator

_OBJECTS = 5
_SECONDS = 5


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 10])
async def test_workers(project: Project, start: StartOperator, workers: int) -> None:
    """Print the time that all objects take with this many workers."""
    operator = start(f"--max-concurrent-reconciles={workers}")
    await wait_until(lambda: _ready(operator.ready), what="readiness")
    begun = time.monotonic()
    for number in range(_OBJECTS):
        await project.create(f"t{number}", seconds=_SECONDS)
    await wait_until(lambda: _all_successful(project), what="all to succeed", limit=500)
    wall = time.monotonic() - begun
    rounds = -(-_OBJECTS // workers)
    ideal = rounds * _SECONDS
    print(
        f"\n{_OBJECTS} objects, {workers} workers: {wall:.1f} s; the role's own time is {ideal} s, overhead "
        f"{wall - ideal:.1f} s, {(wall - ideal) / _OBJECTS:.1f} s an object"
    )


async def _ready(ready: object) -> bool:
    return bool(ready() if callable(ready) else ready)


async def _all_successful(project: Project) -> bool:
    return all([await project.successful(f"t{number}") for number in range(_OBJECTS)])
