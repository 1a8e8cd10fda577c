"""A real run counts as activity of its reconcile while its process lives."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runner.clock import SystemClock
from runner.observe.activity import Activity
from runner.testing.waiting import eventually
from tests.integration.execution.bench import Bench, Warm


async def test_a_run_is_busy_as_long_as_its_process(tmp_path: Path, warm: Warm) -> None:
    """While a play waits, its worker is never idle, however short the grace; without a process it is."""
    bench, activity = Bench(tmp_path, warm=warm), Activity(clock=SystemClock())
    begun, go = tmp_path / "begun", tmp_path / "go"
    tasks = f"""
- ansible.builtin.copy: {{content: "", dest: "{begun}"}}
- ansible.builtin.wait_for: {{path: "{go}", sleep: 1}}
"""

    async def reconcile() -> None:
        with activity.holding("Probe default/a"):
            assert (await bench.run(bench.request(bench.tasks(tasks)))).success

    run = asyncio.create_task(reconcile())
    await eventually(begun.exists)
    assert (activity.held, activity.idle(longer_than=-1)) == (1, [])
    go.touch()
    await run
    with activity.holding("Probe default/a"):
        assert len(activity.idle(longer_than=-1)) == 1
