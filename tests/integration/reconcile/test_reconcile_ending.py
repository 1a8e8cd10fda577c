"""Runs that are ended by the end of the grace period, and what their objects say then: on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly.operator import AlwaysLeading
from runner.errors import LeaderElectionLost, OperatorError
from runner.execution.executor import RunRequest
from runner.kube.objects import conditions_of, finalizers_of, resource_version_of
from runner.localdev.plane import ControlPlane
from runner.reconcile.reconciler import ENDED
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.faults import ActiveRule, HttpFaultProxy, Rule
from runner.testing.harness import running_operator
from runner.watches.model import Finalizer, Watch
from tests.integration.reconcile.conftest import Probes

OURS = "reconcile.example.com/ours"
LATE = "failed waiting for all runnables to end within grace period of 200ms"


@pytest.fixture
def hasty(settings: Settings) -> Settings:
    """Return settings with a grace period that no run here keeps to."""
    return replace(settings, graceful_shutdown_timeout=0.2)


class Losing(AlwaysLeading):
    """A leadership that is lost when the test says so, and whose client is not fenced."""

    def __init__(self) -> None:
        """Lead."""
        self.lost = asyncio.Event()

    async def hold(self) -> None:
        """Lose it."""
        await self.lost.wait()
        raise LeaderElectionLost


@pytest.mark.parametrize("finalizing", [False, True])
async def test_a_run_ended_by_the_grace_period_is_told(
    probes: Probes, watch: Watch, hasty: Settings, *, finalizing: bool
) -> None:
    """The object, also one in deletion, says that its run was ended, and `run` fails in the peer's words."""
    held = replace(watch, finalizer=Finalizer(name=OURS))
    await probes.create("one", finalizers=[OURS])
    if finalizing:
        await probes.delete("one")
    executor = ScriptedExecutor(during=_for_ever)
    with pytest.raises(OperatorError, match=LATE):
        await _stop_after([held], settings=hasty, executor=executor, what=lambda: executor.requests)
    (request,) = executor.cancelled
    assert request.finalizing is finalizing
    found = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
    assert found["Running"]["status"] == "False"
    assert (found["Failure"]["status"], found["Failure"]["message"]) == ("True", ENDED)
    assert finalizers_of(await probes.get("one")) == (OURS,)


async def test_the_status_of_others_is_left_alone(probes: Probes, watch: Watch, hasty: Settings) -> None:
    """With manageStatus=false the end of the grace period writes nothing."""
    executor = ScriptedExecutor(during=_for_ever)
    created = await probes.create("one")
    unmanaged = replace(watch, manage_status=False)
    with pytest.raises(OperatorError, match=LATE):
        await _stop_after([unmanaged], settings=hasty, executor=executor, what=lambda: executor.requests)
    assert resource_version_of(await probes.get("one")) == resource_version_of(created)


async def test_a_run_that_had_ended_keeps_its_own_end(
    probes: Probes, watch: Watch, hasty: Settings, plane: ControlPlane, tmp_path: Path
) -> None:
    """Where only the status of a run was missing, it is that status which is written."""
    held: list[ActiveRule] = []
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:

        async def script(_: RunRequest) -> None:
            held.append(proxy.rule(Rule(method="PUT", path=r"/probes/one/status$", hold=True, times=1)))

        through = replace(hasty, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))
        executor = ScriptedExecutor(during=script)
        await probes.create("one")
        with pytest.raises(OperatorError, match=LATE):
            await _stop_after([watch], settings=through, executor=executor, what=lambda: held and held[0].hits)
        held[0].cancel()
    assert await probes.conditions("one") == {"Running": "True", "Successful": "True", "Failure": "False"}


async def test_lost_leadership_ends_a_run_without_a_word(probes: Probes, watch: Watch, settings: Settings) -> None:
    """A run that is cancelled as another instance may lead now leaves its object as it was."""
    executor, leadership = ScriptedExecutor(during=_for_ever), Losing()
    before = ""
    with pytest.RaisesGroup(LeaderElectionLost):
        async with running_operator([watch], settings=settings, executor=executor, leadership=leadership):
            await probes.create("one")
            await wait_until(lambda: _is(executor.requests), what="the run")
            before = resource_version_of(await probes.get("one"))
            leadership.lost.set()
            await wait_until(lambda: _is(executor.cancelled), what="the end of the run")
    assert resource_version_of(await probes.get("one")) == before


async def _stop_after(
    watches: Sequence[Watch], *, settings: Settings, executor: ScriptedExecutor, what: Callable[[], object]
) -> None:
    """Run an operator until *what* is true, and stop it then."""
    async with running_operator(watches, settings=settings, executor=executor):
        await wait_until(lambda: _is(what()), what="the run")


async def _for_ever(_: RunRequest) -> None:
    await asyncio.Event().wait()


async def _is(condition: object) -> bool:
    return bool(condition)
