"""The brake that a person puts on one object: nothing runs for it, and everything that was missed runs once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from runner.execution.executor import RunRequest
from runner.kube.events import EVENTS
from runner.kube.objects import Object, conditions_of, finalizers_of, resource_version_of
from runner.settings import Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.watches.model import Finalizer, Watch
from runner.watches.pausing import PAUSED_ANNOTATION
from tests.integration.reconcile.conftest import Probes

OURS = "reconcile.example.com/ours"
ON: Object = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}
OFF: Object = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
GO_ON = "No run starts for this object while it has the annotation ansible-operator.io/paused; remove it to go on."


async def test_a_paused_object_runs_for_nothing_and_once_when_it_goes_on(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """Neither edits nor periods start a run of a paused object, as condition and Event say; one run makes it up."""
    executor = ScriptedExecutor()
    periodic = replace(watch, reconcile_period=timedelta(milliseconds=200))
    async with running_operator([periodic], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _is(probes, "one", "Successful"), what="Successful")
        await probes.patch("one", ON)
        await wait_until(lambda: _is(probes, "one", "Paused"), what="Paused")
        before = len(executor.requests)
        for size in (2, 3, 4):
            await probes.patch("one", {"spec": {"size": size}})
        await _barrier(probes, executor, "barrier")
        paused = await probes.get("one")
        found = {entry["type"]: entry for entry in conditions_of(paused)}
        assert (found["Paused"]["reason"], found["Paused"]["message"]) == ("AnnotationSet", GO_ON)
        assert found["Successful"]["status"] == "True"  # what the last run left stays
        assert _of("one", executor.requests[before:]) == []
        events = await probes.kube.list(EVENTS, namespace=probes.namespace)
        told = [(event["type"], event["message"], event["count"]) for event in events if event["reason"] == "Paused"]
        assert told == [("Normal", GO_ON, 1)]
        executor_after = len(executor.requests)
        await probes.patch("one", OFF)
        await wait_until(lambda: _ran(executor, "one", since=executor_after), what="the run that makes it up")
        assert _of("one", executor.requests[executor_after:])[0].obj["spec"] == {"size": 4}
        assert "Paused" not in await probes.conditions("one")


async def test_without_a_period_going_on_is_one_run(probes: Probes, watch: Watch, settings: Settings) -> None:
    """Three missed edits are one run, and so is a pause without any."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one", annotations={PAUSED_ANNOTATION: "yes"})
        await wait_until(lambda: _is(probes, "one", "Paused"), what="Paused")
        for size in (2, 3, 4):
            await probes.patch("one", {"spec": {"size": size}})
        await _barrier(probes, executor, "first")
        await probes.patch("one", OFF)
        await wait_until(lambda: _is(probes, "one", "Successful"), what="Successful")
        await probes.patch("one", ON)
        await wait_until(lambda: _is(probes, "one", "Paused"), what="Paused")
        await _barrier(probes, executor, "second")
        assert len(_of("one", executor.requests)) == 1
        await probes.patch("one", {"metadata": {"annotations": {PAUSED_ANNOTATION: "false"}}})
        await wait_until(lambda: _is(probes, "one", "Successful"), what="Successful")
        await _barrier(probes, executor, "third")
    assert [request.obj["spec"]["size"] for request in _of("one", executor.requests)] == [4, 4]


async def test_a_paused_deletion_waits_and_keeps_its_finalizer(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """No finalizer's run starts while the object is paused, the condition says so, and a restart changes nothing."""
    held = replace(watch, finalizer=Finalizer(name=OURS, vars={"gone": True}))
    executor = ScriptedExecutor()
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _is(probes, "one", "Successful"), what="Successful")
        await probes.patch("one", ON)
        await probes.delete("one")
        await wait_until(lambda: _says(probes, "one", f"{GO_ON} Its deletion waits, too."), what="the sentence")
    version = resource_version_of(await probes.get("one"))
    restarted = ScriptedExecutor()
    async with running_operator([held], settings=settings, executor=restarted):
        await _barrier(probes, restarted, "barrier")
        left = await probes.get("one")
        assert (resource_version_of(left), finalizers_of(left)) == (version, (OURS,))
        assert _of("one", restarted.requests) == []
        await probes.patch("one", OFF)
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in _of("one", restarted.requests)] == [True]


async def _barrier(probes: Probes, executor: ScriptedExecutor, name: str) -> None:
    """Have another object run, which comes after all that was done to the first one (one worker, one line)."""
    await probes.create(name)
    await wait_until(lambda: _ran(executor, name), what=f"the run of {name}")


def _of(name: str, requests: list[RunRequest]) -> list[RunRequest]:
    return [request for request in requests if request.obj["metadata"]["name"] == name]


async def _ran(executor: ScriptedExecutor, name: str, *, since: int = 0) -> bool:
    return bool(_of(name, executor.requests[since:]))


async def _is(probes: Probes, name: str, type_: str) -> bool:
    return (await probes.conditions(name)).get(type_) == "True"


async def _says(probes: Probes, name: str, message: str) -> bool:
    return any(entry.get("message") == message for entry in conditions_of(await probes.get(name)))


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()
