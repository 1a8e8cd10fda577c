"""EC2Instance's launch, killed after each of its calls in turn: one instance, whatever the moment (E1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from runner.kube.objects import Object, conditions_of
from runner.localdev.operator_process import OperatorProcess
from runner.testing.cluster import wait_until
from tests.content.ec2_instance.role_harness import EC2_INSTANCES, Bench
from tests.operators.conftest import RunLog, StartFor, StartOperator
from tests.operators.crash_gate import CrashGate

ALL = ("pending", "running", "stopping", "stopped", "shutting-down", "terminated")
LAG = 20.0
"""Seconds for which AWS describes no new instance: the stored attempt's client token is what prevents a second one."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When the operator is killed."""

    call: str
    """After which call, as a regular expression."""
    lag: float = 0.0
    """Seconds until AWS describes what was launched."""
    launched: bool = True
    """Whether there is an instance then."""


MOMENTS = {
    "the finalizer is set": Moment(call=r"^(PATCH|PUT) \S+/ec2instances/\S+ .*finalizers", launched=False),
    "the attempt is stored": Moment(call=r"^(PATCH|PUT) \S+/status .*launchAttempt", launched=False),
    "the instance is launched": Moment(call=r"^AWS RunInstances$"),
    "it is launched and not to be seen yet": Moment(call=r"^AWS RunInstances$", lag=LAG),
    "its id is stored": Moment(call=r"^(PATCH|PUT) \S+/status .*\"instanceId\": ?\"i-"),
}


@dataclass(frozen=True, kw_only=True)
class Crashes:
    """A bench whose operator's calls go through a gate."""

    bench: Bench
    gate: CrashGate
    runs: RunLog
    start: StartOperator

    async def crash(
        self, name: str, *, operator: OperatorProcess, launched: bool | None = None
    ) -> OperatorProcess | None:
        """Create an object, kill *operator* when the gate holds a call, and see that the next one finishes the launch.

        *launched* says whether there must be an instance at the kill; None: that isn't known. Return that next one;
        None where the launch ended without a held call.
        """
        obj = await self.bench.create(name=name, checkInterval="1h")
        await wait_until(lambda: self._held_or_done(name), what=f"{name} to be held or launched", limit=200)
        if not self.gate.reached.is_set():
            return None
        operator.kill()
        if launched is not None:
            assert bool(self.bench.mine(obj, *ALL)) is launched, self.gate.held
        ended = len(self.runs.ends)
        following = self.start()
        self.gate.disarm()
        await wait_until(lambda: self._ran(ended), what=f"a run of {name} by the next operator", limit=200)
        await self._check(obj)
        return following

    async def _check(self, obj: Object) -> None:
        """Assert what holds after each crash; then let the object go."""
        name = obj["metadata"]["name"]
        await wait_until(lambda: self._done(name), what=f"{name} to be Successful", limit=200)
        told = f"killed after {self.gate.held}"
        (instance,) = self.bench.mine(obj, *ALL)
        status = (await self.bench.get(name))["status"]
        assert (status["instanceId"], instance.state) == (instance.id, "running"), told
        assert [one.id for one in self.bench.aws.instances() if one.state != "terminated"] == [instance.id], told
        await self.bench.release_all()
        await self.bench.kube.delete(EC2_INSTANCES, namespace=self.bench.namespace, name=name)
        await wait_until(self._empty, what=f"{name} to go", limit=200)
        self.bench.aws.terminate(instance.id)

    async def _held_or_done(self, name: str) -> bool:
        return self.gate.reached.is_set() or await self._done(name)

    async def _ran(self, before: int) -> bool:
        return len(self.runs.ends) > before

    async def _done(self, name: str) -> bool:
        entries = {entry["type"]: entry for entry in conditions_of(await self.bench.get(name))}
        ended = entries.get("Running", {}).get("reason") == "Successful"
        return ended and entries.get("Ready", {}).get("status") == "True"

    async def _empty(self) -> bool:
        return not await self.bench.kube.list(EC2_INSTANCES, namespace=self.bench.namespace)


@pytest.fixture
def crashes(bench: Bench, gated: tuple[Bench, CrashGate], runs: RunLog, start_for: StartFor) -> Iterator[Crashes]:
    """Give a bench whose operators start with the gate before them."""
    seen, gate = gated
    with start_for(seen) as start:
        yield Crashes(bench=bench, gate=gate, runs=runs, start=start)


@pytest.mark.timeout(900)
async def test_a_crash_at_each_important_moment_leaves_one_instance(crashes: Crashes) -> None:
    """The operator is killed when a call was carried out and nobody heard of it; the next one finishes the launch."""
    operator: OperatorProcess | None = crashes.start()
    for number, moment in enumerate(MOMENTS.values()):
        crashes.bench.aws.configure(visible_after=moment.lag)
        crashes.gate.arm(re.compile(moment.call, re.DOTALL).search)
        assert operator is not None
        operator = await crashes.crash(f"moment{number}", operator=operator, launched=moment.launched)
        assert operator is not None, f"no call matches {moment.call}: {crashes.gate.calls}"


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lag", [0.0, LAG])
async def test_a_crash_after_every_call_of_a_launch_leaves_one_instance(crashes: Crashes, lag: float) -> None:
    """After each call to Kubernetes or AWS that a launch makes, in turn: one instance, its id in the status."""
    crashes.bench.aws.configure(visible_after=lag)
    operator: OperatorProcess | None = crashes.start()
    moments: list[str] = []
    while operator is not None:
        crashes.gate.arm_beyond(moments)
        operator = await crashes.crash(f"call{len(moments) + 1}", operator=operator)
        if operator is not None:
            moments.append(crashes.gate.held_key)
    print(f"{len(moments)} moments", *moments, sep="\n")
    assert len(moments) >= 16  # as many as a launch made when this was first counted
    assert "AWS RunInstances (1)" in moments
