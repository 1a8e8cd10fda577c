"""Warm runs of real Ansible around the life of their fork server: death, changes on disk, the operator's own end."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.clock import SystemClock
from runner.errors import ExecutionError
from runner.execution.chosen import WarmContent
from runner.execution.cold import ColdLauncher
from runner.execution.executor import Outcome
from runner.execution.leftovers import PREFIX, SERVER_PREFIX, kill_all_runs
from runner.execution.play import PlayExecutor
from runner.execution.processes import MARK, OWNER_MARK, SERVER_IDENT, marked_with
from runner.execution.warm.far import procfs
from runner.execution.warm.launcher import WarmLauncher
from runner.execution.warm.server import ServerPlan
from runner.logs import Logger
from runner.owner import own_identity
from runner.testing.kubeconfig import GivenKubeconfig
from runner.testing.leftovers import no_other_servers
from runner.testing.waiting import ended, eventually
from runner.watches.model import Content
from tests.integration.execution.bench import Bench

OURS = {OWNER_MARK: own_identity()}
SERVERS = {**OURS, MARK: SERVER_IDENT}
HUNG = 300.0
"""Seconds; only what hangs takes so long."""
IS_READY = "The fork server is ready: runs are warm"
SAYS = "- ansible.builtin.fail: {{msg: it says {word}}}\n"
WAITS = """
- ansible.builtin.file: {{path: {root}/here, state: touch}}
- ansible.builtin.wait_for: {{path: {root}/go, sleep: 1}}
"""
RESCUED = """
- block:
    - ansible.builtin.command:
        argv: [/bin/sh, -c, "touch {root}/here; until [ -e {root}/go ]; do sleep 0.1; done"]
  rescue:
    - ansible.builtin.file: {{path: {root}/rescued, state: touch}}
"""


class Warm:
    """An operator's execution, warm."""

    def __init__(self, bench: Bench, *, content: Content) -> None:
        """Run *content*, a role or playbook."""
        self.bench = bench
        self.content = content
        self._others = marked_with(OURS)  # the session may have a server of its own
        logger = Logger(level="debug", sink=bench.sink)
        self.launcher = WarmLauncher(
            ServerPlan(settings=bench.settings, content=_warm_content(content)),
            fallback=ColdLauncher(settings=bench.settings, plays_found=True),
            clock=SystemClock(),
            delay=lambda _: 0.0,
            logger=logger,
        )
        self._executor = PlayExecutor(
            settings=bench.settings,
            launcher=self.launcher,
            kubeconfigs=GivenKubeconfig(bench.kubeconfig),
            clock=SystemClock(),
            logger=logger,
        )

    async def run(self) -> Outcome:
        """Run the content once."""
        return await self._executor.run(self.bench.request(self.content))

    def records(self, sentence: str) -> list[dict[str, Any]]:
        """Return the log's records of that sentence."""
        return [dict(record) for record in self.bench.sink.records if record["msg"] == sentence]

    @property
    def processes(self) -> set[int]:
        """Return all living ones of servers and runs."""
        return marked_with(OURS) - self._others

    @property
    def of_runs(self) -> set[int]:
        """Return all living ones of runs; fork servers start and end others at any time."""
        before = self.processes
        of_servers = marked_with(SERVERS)  # no process that has a run's mark gets this one
        return (before - of_servers) & self.processes

    @property
    def ways(self) -> list[str]:
        """Return how each run went."""
        return [str(record["executor"]) for record in self.records("The play starts")]


def _warm_content(content: Content) -> WarmContent:
    roles = () if content.role is None else (content.role,)
    return WarmContent(roles=roles, playbooks=() if content.playbook is None else (content.playbook,))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Give a bench, with all temporary files below its `scratch`."""
    made = Bench(tmp_path)
    previous, tempfile.tempdir = tempfile.tempdir, str(made.scratch)
    with no_other_servers():
        yield made
    tempfile.tempdir = previous


@asynccontextmanager
async def _warm(bench: Bench, *, content: Content) -> AsyncIterator[Warm]:
    warm = Warm(bench, content=content)
    await warm.launcher.start()
    try:
        await asyncio.wait_for(warm.launcher.settled(), HUNG)
        assert await warm.launcher.ready() is None
        yield warm
    finally:
        await warm.launcher.stop()
        await eventually(lambda: warm.processes == set())
        assert [path for path in bench.scratch.iterdir() if path.name.startswith((PREFIX, SERVER_PREFIX))] == []


async def test_a_run_after_a_change_sees_what_is_on_disk(bench: Bench) -> None:
    """Tasks are read anew by each run, whether the server was replaced by then or not."""
    content = bench.role(SAYS.format(word="one"))
    async with _warm(bench, content=content) as warm:
        assert "it says one" in str((await warm.run()).failures)
        bench.role(SAYS.format(word="two"))
        assert "it says two" in str((await warm.run()).failures)
        await eventually(lambda: len(warm.records(IS_READY)) == 2, limit=HUNG)
        assert "it says two" in str((await warm.run()).failures)
        assert warm.ways == ["warm", "warm", "warm"]


async def test_a_module_beside_the_role_that_changes_is_never_run_as_it_was(bench: Bench) -> None:
    """Runs go cold until a new server is there."""
    content = bench.role("- probe_says:\n")
    assert content.role is not None
    module = content.role / "library/probe_says.py"
    module.parent.mkdir()
    text = (
        "from ansible.module_utils.basic import AnsibleModule\n"
        "AnsibleModule(argument_spec={{}}).fail_json(msg='it says {word}')\n"
    )
    module.write_text(text.format(word="one"))
    async with _warm(bench, content=content) as warm:
        assert "it says one" in str((await warm.run()).failures)
        module.write_text(text.format(word="two"))
        await eventually(lambda: warm.records("Runs go cold until there is a new fork server"), limit=HUNG)
        assert "it says two" in str((await warm.run()).failures)
        await eventually(lambda: len(warm.records(IS_READY)) == 2, limit=HUNG)
        assert "it says two" in str((await warm.run()).failures)
        assert warm.ways[0] == warm.ways[-1] == "warm"


async def test_a_server_that_is_killed_fails_its_run_and_leaves_nothing_of_it(bench: Bench) -> None:
    """The error says what happened and what is next; the run after it is warm, on a new server."""
    content = bench.role(WAITS.format(root=bench.root))
    async with _warm(bench, content=content) as warm:
        task = asyncio.create_task(warm.run())
        await eventually((bench.root / "here").exists, limit=HUNG)
        os.kill(warm.records(IS_READY)[0]["pid"], signal.SIGKILL)
        with pytest.raises(ExecutionError, match=r"SIGKILL.*retried.*executor: cold"):
            await task
        await eventually(lambda: len(warm.records(IS_READY)) == 2, limit=HUNG)
        assert warm.of_runs == set()
        (bench.root / "go").touch()
        assert (await warm.run()).success
        assert warm.ways == ["warm", "warm"]


async def test_no_rescue_takes_the_death_of_the_module_server_for_a_failed_module(bench: Bench) -> None:
    """How the module ended nobody knows: the play goes no further, and the error says that the run is retried."""
    content = bench.role(RESCUED.format(root=bench.root))
    async with _warm(bench, content=content) as warm:
        task = asyncio.create_task(warm.run())
        await eventually((bench.root / "here").exists, limit=HUNG)
        for server in _named("warm-modules", among=warm.processes):  # another one would be a module of it
            os.kill(server, signal.SIGKILL)
        with pytest.raises(ExecutionError, match=r"server of modules of run \d+ ended before it told .*retried"):
            await task
        assert not (bench.root / "rescued").exists()
        assert warm.of_runs == set()
        (bench.root / "go").touch()
        assert (await warm.run()).success


def _named(name: str, *, among: set[int]) -> list[int]:
    return [pid for pid in among if procfs.read(pid, "comm").decode().strip() == name]


async def test_a_run_that_is_cancelled_is_gone_before_its_executor_is(bench: Bench) -> None:
    """Its runner, its playbook, its worker and its module; the server lives on."""
    content = bench.role(WAITS.format(root=bench.root))
    async with _warm(bench, content=content) as warm:
        task = asyncio.create_task(warm.run())
        await eventually((bench.root / "here").exists, limit=HUNG)
        assert warm.of_runs
        await ended(task)
        assert warm.of_runs == set()
        (bench.root / "go").touch()
        assert (await warm.run()).success
        assert len(warm.records(IS_READY)) == 1


async def test_an_operator_that_ends_at_once_leaves_no_process(bench: Bench) -> None:
    """Neither of a run nor of a fork server, as with cold runs; no new server comes up."""
    content = bench.role(WAITS.format(root=bench.root))
    async with _warm(bench, content=content) as warm:
        task = asyncio.create_task(warm.run())
        await eventually((bench.root / "here").exists, limit=HUNG)
        kill_all_runs()
        assert warm.processes == set()
        with pytest.raises(ExecutionError):
            await task
        await eventually(lambda: warm.launcher.servers == 0)
        assert len(warm.records(IS_READY)) == 1
