"""The warm launcher over time: starts that fail, replacements that wait, and what its metrics say; time is by hand."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from runner.execution.chosen import WarmContent
from runner.execution.cold import ColdLauncher
from runner.execution.warm.launcher import WarmLauncher
from runner.execution.warm.server import ServerPlan
from runner.observe.metrics_warm import WarmMetrics
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually
from tests.unit.execution.warm.warm_near_bench import NearBench

FAILED = "A fork server could not be started"
IS_READY = "The fork server is ready"
CHANGED = 2.0
"""Seconds: more than the quiet that is waited for after a change."""


class Timed:
    """A launcher, its clock and its metrics."""

    def __init__(self, bench: NearBench, plan: ServerPlan) -> None:
        """Start nothing."""
        self.bench = bench
        self.clock = FakeClock()
        self.registry = CollectorRegistry()
        self.launcher = WarmLauncher(
            plan,
            fallback=ColdLauncher(settings=plan.settings, plays_found=True),
            clock=self.clock,
            delay=lambda failures: 2.0**failures,
            logger=bench.logger,
            metrics=WarmMetrics(self.registry),
        )

    def starts(self, reason: str, result: str) -> float:
        """Return how many servers were started."""
        return self._value("ansible_operator_fork_server_starts_total", reason=reason, result=result)

    def plays(self, executor: str, reason: str = "") -> float:
        """Return how many plays were."""
        return self._value("ansible_operator_launched_plays_total", executor=executor, reason=reason)

    @property
    def is_ready(self) -> float:
        """Return the gauge."""
        return self._value("ansible_operator_fork_server_ready")

    @property
    def cold_modules(self) -> float:
        """Return the counter."""
        return self._value("ansible_operator_cold_modules_total")

    def _value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    async def failed(self, times: int, *, first: str = "first") -> None:
        """Wait until so many starts have failed, and the next one is waited for; *first* is why the first one was."""
        await eventually(lambda: self.starts(first, "failed") + self.starts("failed", "failed") == times)
        await eventually(lambda: self.clock.sleeping == 1)

    async def fail(self, times: int, *, first: str = "first") -> None:
        """Let so many starts fail, each after its pause, until the next one is waited for."""
        for done in range(1, times):
            await self.failed(done, first=first)
            await self.clock.advance(min(2.0**done, 600))
        await self.failed(times, first=first)

    async def play(self, line: str = "true") -> None:
        """Run a shell line as a play."""
        assert await (await self.launcher.launch(self.bench.command(line))).wait() == 0


@asynccontextmanager
async def timed(bench: NearBench, plan: ServerPlan) -> AsyncIterator[Timed]:
    """Give a launcher that is started, and stop it."""
    one = Timed(bench, plan)
    await one.launcher.start()
    try:
        yield one
    finally:
        await one.launcher.stop()


async def test_a_server_that_cannot_start_is_tried_seldom_and_told_once_for_each_reason(bench: NearBench) -> None:
    """It is up to ten minutes between two tries; the operator is ready, and says why its runs are cold."""
    trouble = bench.root / "trouble"
    trouble.write_text("bad line 3")
    async with timed(bench, bench.plan("trouble")) as one:
        for times in range(1, 12):
            await one.failed(times)
            await one.clock.advance(min(2.0**times, 600) - 1)
            assert one.clock.sleeping == 1
            if times == 10:
                trouble.write_text("bad line 4")
            await one.clock.advance(1)
        await one.failed(12)
        assert await one.launcher.ready() is None
        said = str(one.launcher.why_cold())
        assert one.is_ready == 0
        await one.play()
        assert one.plays("cold", "failing") == 1
    assert said.startswith("the executor is cold because the fork server ended with exit code 3")
    first, second = [record for record in bench.records(FAILED) if record["level"] == "error"]
    assert "bad line 3" in str(first["error"])
    assert "bad line 4" in str(second["error"])
    assert second["triedAgain"]


async def test_files_that_keep_changing_do_not_keep_the_operator_from_being_ready(bench: NearBench) -> None:
    """After three starts without a server it is known that runs go cold, whatever has changed between them."""
    (bench.root / "trouble").write_text("bad ansible.cfg")
    async with timed(bench, bench.plan("trouble")) as one:
        for times in (1, 2):
            await eventually(lambda: one.clock.sleeping == 1 and len(bench.records(FAILED)) == times)  # noqa: B023 - awaited here
            assert await one.launcher.ready() == "the fork server of warm Ansible is still starting"
            (bench.root / ".ansible.cfg").write_text(f"[defaults]\nforks = {times}\n")
            await eventually(lambda: one.clock.sleeping == 1 and one.launcher.changes >= times)  # noqa: B023 - likewise
            await one.clock.advance(CHANGED)
        await asyncio.wait_for(one.launcher.settled(), 60)
        assert await one.launcher.ready() is None


async def test_a_change_on_disk_ends_the_wait_after_failed_starts(bench: NearBench) -> None:
    """Whoever mends ansible.cfg, installs a package or a collection need not wait for the next try."""
    trouble = bench.root / "trouble"
    trouble.write_text("bad ansible.cfg")
    async with timed(bench, bench.plan("trouble")) as one:
        await one.fail(11)
        trouble.unlink()
        before = one.clock.monotonic()
        (bench.root / ".ansible.cfg").write_text("[defaults]\n")
        await eventually(lambda: one.clock.sleeping == 1 and one.launcher.changes == 1)
        await one.clock.advance(CHANGED)
        await eventually(lambda: bench.records(IS_READY))
        assert one.clock.monotonic() - before == CHANGED
        assert one.launcher.why_cold() is None
        assert one.starts("changed", "ready") == 1
        assert one.is_ready == 1
        await one.play()
        assert one.plays("warm") == 1


async def test_a_server_that_is_right_is_replaced_once_a_minute_at_most(bench: NearBench) -> None:
    """Some roles write into their own folder at each run; the first change after a quiet time is followed at once."""
    tasks = bench.root / "roles/r/tasks/main.yml"
    tasks.parent.mkdir(parents=True)
    tasks.write_text("")
    async with timed(bench, bench.plan(content=WarmContent(roles=(bench.root / "roles/r",)))) as one:
        await eventually(lambda: bench.records(IS_READY))
        await _change(tasks, "- copy:\n", one=one, count=1)
        await one.clock.advance(CHANGED)
        await eventually(lambda: len(bench.records(IS_READY)) == 2)

        await _change(tasks, "- template:\n", one=one, count=2)
        await one.clock.advance(59)
        await one.play()
        assert one.clock.sleeping == 1
        assert len(bench.records(IS_READY)) == 2
        await one.clock.advance(1)
        await eventually(lambda: len(bench.records(IS_READY)) == 3)
    assert one.starts("changed", "ready") == 2
    assert one.plays("warm") == 1


async def _change(path: Path, text: str, *, one: Timed, count: int) -> None:
    path.write_text(text)
    await eventually(lambda: one.launcher.changes == count and one.clock.sleeping == 1)


async def test_a_death_ends_the_wait_for_a_replacement_that_cannot_start(bench: NearBench) -> None:
    """While a server goes on the next try may be far away; when it dies after a long life one starts at once."""
    trouble, tasks = bench.root / "trouble", bench.root / "roles/r/tasks/main.yml"
    tasks.parent.mkdir(parents=True)
    tasks.write_text("")
    async with timed(bench, bench.plan("trouble", content=WarmContent(roles=(bench.root / "roles/r",)))) as one:
        await eventually(lambda: bench.records(IS_READY))
        trouble.write_text("bad line 3")
        await _change(tasks, "- copy:\n", one=one, count=1)
        await one.clock.advance(CHANGED)
        await one.fail(8, first="changed")
        trouble.unlink()
        before = one.clock.monotonic()
        os.kill(int(str(bench.records(IS_READY)[0]["pid"])), signal.SIGKILL)
        await eventually(lambda: len(bench.records(IS_READY)) == 2)
        assert one.clock.monotonic() == before


async def test_a_death_is_counted_as_the_reason_of_the_next_start_and_of_cold_plays(bench: NearBench) -> None:
    """So an alert can tell a fork server that crashes from content that somebody changes."""
    async with timed(bench, bench.plan()) as one:
        await eventually(lambda: bench.records(IS_READY))
        os.kill(int(str(bench.records(IS_READY)[0]["pid"])), signal.SIGKILL)
        await eventually(lambda: one.clock.sleeping == 1)
        await one.play()
        assert one.plays("cold", "died") == 1
        await one.clock.advance(2)
        await eventually(lambda: len(bench.records(IS_READY)) == 2)
    assert (one.starts("first", "ready"), one.starts("died", "ready")) == (1, 1)


async def test_plays_and_modules_that_the_server_refuses_are_counted(bench: NearBench) -> None:
    """Modules by the number that comes with the end of a run, whichever run they were of."""
    async with timed(bench, bench.plan("refuses")) as one:
        await one.play()
        assert one.plays("cold", "starting") == 1
        await eventually(lambda: bench.records(IS_READY))
        await one.play()
        assert one.plays("cold", "refused") == 1
    async with timed(bench, bench.plan("cold modules")) as one:
        await asyncio.wait_for(one.launcher.settled(), 60)
        await one.play()
        await one.play()
        assert one.cold_modules == 6
