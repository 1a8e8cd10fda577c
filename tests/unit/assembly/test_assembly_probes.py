"""What readiness says of the executor: why nothing could run, and what a person should know although all can."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.assembly.probes import ExecutorWatch
from runner.observe.health import Finding
from runner.testing.executor import ScriptedExecutor
from runner.testing.waiting import eventually


@dataclass
class _Talkative(ScriptedExecutor):
    """An executor that says of itself what a test wants."""

    said: str | None = None
    missing: str | None = None
    asked: list[None] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def ready(self) -> str | None:
        """Say whether a run could start."""
        self.asked.append(None)
        return self.missing

    def remark(self) -> str | None:
        """Say what a person should know."""
        return self.said


async def test_a_remark_is_as_it_is_now() -> None:
    """Whether runs are warm is known without asking, so what the probe says isn't as old as the last question."""
    executor = _Talkative()
    watch = ExecutorWatch(executor, interval=3600.0)
    await watch.start()
    await eventually(lambda: watch.check() is None)
    executor.said = "the executor is cold because it died"
    assert watch.check() == Finding(sentence="the executor is cold because it died", fails=False)
    executor.said = None
    assert watch.check() is None
    assert len(executor.asked) == 1
    await watch.stop()


async def test_what_keeps_runs_from_starting_comes_before_a_remark() -> None:
    """Readiness fails with the reason, whatever else there is to say."""
    executor = _Talkative(said="the executor is cold", missing="there is no ansible-runner")
    watch = ExecutorWatch(executor, interval=3600.0)
    await watch.start()
    await eventually(lambda: watch.check() == Finding(sentence="there is no ansible-runner"))
    await watch.stop()


async def test_an_executor_that_has_nothing_to_say_is_ready() -> None:
    """Both ways to speak are optional."""
    watch = ExecutorWatch(ScriptedExecutor(), interval=3600.0)
    await watch.start()
    assert watch.check() is None
    await watch.stop()
