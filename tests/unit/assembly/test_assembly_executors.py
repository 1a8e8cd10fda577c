"""Which executor an operator gets for its watches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly import Surroundings, build_executor
from runner.assembly.run_access import RunAccess
from runner.assembly.services import Service
from runner.clock import SystemClock
from runner.execution.chosen import ChosenExecutor
from runner.execution.executor import KnowsReadiness
from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.settings import Settings
from runner.watches.model import Content, Watch

STARTING = "the fork server of warm Ansible is still starting"


def executor_for(*, flag: str, keys: tuple[str, ...]) -> ChosenExecutor:
    """Return the executor of an operator with *flag*, and with a watch for each of *keys*."""
    settings = Settings()
    around = Surroundings(
        settings=replace(settings, execution=replace(settings.execution, executor=flag)),
        access=RunAccess(),
        logger=Logger(sink=RecordingSink()),
        clock=SystemClock(),
        plays_found=True,
    )
    watches = [
        Watch(gvk=GVK("x.io", "v1", f"Kind{number}"), content=Content(role=Path("/r")), executor=key)
        for number, key in enumerate(keys)
    ]
    return build_executor(watches, around=around)


@pytest.mark.parametrize(
    ("flag", "keys", "warm"),
    [
        ("warm", ("",), True), ("warm", ("cold", ""), True), ("cold", ("", "warm"), True),
        ("warm", ("cold",), False), ("cold", ("", "cold"), False), ("warm", (), False),
    ],
)  # fmt: skip
async def test_a_fork_server_is_waited_for_where_a_watch_may_be_warm(
    flag: str, keys: tuple[str, ...], *, warm: bool
) -> None:
    """Readiness asks for it then, and not where all runs are cold: nothing is loaded for nobody."""
    assert await executor_for(flag=flag, keys=keys).ready() == (STARTING if warm else None)


async def test_the_operator_starts_and_stops_it_and_the_probe_asks_it() -> None:
    """It is a service beside the others; without a fork server there is nothing to do."""
    executor = executor_for(flag="cold", keys=("",))

    assert isinstance(executor, Service)
    assert isinstance(executor, KnowsReadiness)
    await executor.start()
    await executor.stop()
