"""Deletion: what runs before an object may go, and what holds it, on a real API server (field cases F1 to F3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from runner.execution.executor import RunRequest
from runner.kube.objects import conditions_of, finalizers_of, uid_of
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor, failed, succeeded
from runner.testing.harness import running_operator
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import Finalizer, Watch
from tests.integration.reconcile.conftest import Probes

OURS = "reconcile.example.com/ours"


@pytest.fixture
def held(watch: Watch) -> Watch:
    """Watch Probes with a finalizer."""
    return replace(watch, finalizer=Finalizer(name=OURS, vars={"gone": True}))


async def test_the_finalizer_is_on_before_the_first_run(probes: Probes, held: Watch, settings: Settings) -> None:
    """A run sees the object with our finalizer already on it, behind those that others put there."""
    executor = ScriptedExecutor()
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("one", finalizers=["example.com/theirs"])
        await wait_until(lambda: _count(executor, 1), what="the run")
    assert finalizers_of(executor.requests[0].obj) == ("example.com/theirs", OURS)


async def test_a_deletion_runs_the_finalizer_once_and_the_object_goes(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """A deleted object gets one finalizing run, and is gone after its success; the log tells both, as no problem."""
    executor, sink = ScriptedExecutor(), RecordingSink()
    async with running_operator([held], settings=settings, executor=executor, sink=sink):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 1), what="the run")
        await probes.delete("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [False, True]
    (record,) = [record for record in sink.records if record["msg"] == "The finalizer is removed: the object may go"]
    assert (record["level"], record["finalizer"]) == ("info", OURS)
    assert sink.sentences().count("The object is being deleted: the finalizer's run starts") == 1
    levels = [record["level"] for record in sink.records if "its status is not written" in record["msg"]]
    assert levels in ([], ["debug"])


async def test_a_failing_finalizer_keeps_the_object_and_says_why(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """While the finalizing run fails the object stays with a Failure; then only ours is taken off (field case F2)."""
    executor = ScriptedExecutor(outcomes=[succeeded(), failed("still attached"), failed("still attached"), succeeded()])
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("one", finalizers=["example.com/theirs"])
        await wait_until(lambda: _count(executor, 1), what="the run")
        await probes.delete("one")
        await wait_until(lambda: _count(executor, 3), what="the second finalizing run")
        failure = [c for c in conditions_of(executor.requests[2].obj) if c["type"] == "Failure"]
        assert [(c["status"], c["message"]) for c in failure] == [("True", "still attached")]
        await wait_until(lambda: _finalizers_are(probes, "one", ("example.com/theirs",)), what="ours to go")


async def test_an_object_deleted_during_its_run_is_finalized_after_it(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """The run under way ends as the ordinary run it is, then one finalizing run follows (field case F1)."""

    async def script(request: RunRequest) -> None:
        if not request.finalizing:
            await probes.delete("one")

    executor = ScriptedExecutor(during=script)
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [False, True]
    assert executor.most_at_once_per_object == 1


async def test_an_object_recreated_during_its_run_never_gets_the_old_status(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """The status of a run belongs to its UID; the new object of the name gets a run of its own (field case F1)."""
    uids: list[str] = []

    async def script(request: RunRequest) -> None:
        uids.append(uid_of(request.obj))
        if len(uids) == 1:
            await probes.delete("one")
            await probes.create("one", spec={"size": 9})

    executor = ScriptedExecutor(outcomes=[failed("of the old one"), succeeded()], during=script)
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 2), what="the new object's run")
        await wait_until(lambda: _successful(probes, "one"), what="its success")
    assert "Failure" not in {entry["type"] for entry in conditions_of(executor.requests[1].obj)}
    assert uids[1] == uid_of(await probes.get("one")) != uids[0]


async def test_an_object_deleted_before_we_held_it_goes_without_a_run(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """No finalizer is added to an object in deletion, and nothing runs for it (field case F3 b)."""
    await probes.create("one", finalizers=["example.com/theirs"])
    await probes.delete("one")
    executor = ScriptedExecutor()
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("barrier")
        await wait_until(lambda: _count(executor, 1), what="the barrier's run")
    assert [request.obj["metadata"]["name"] for request in executor.requests] == ["barrier"]
    assert finalizers_of(await probes.get("one")) == ("example.com/theirs",)


async def test_a_deletion_while_the_operator_was_down_is_finalized(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """An object that was deleted while nobody watched gets its finalizing run at the start (field case F3 a)."""
    await probes.create("one", finalizers=[OURS])
    await probes.delete("one")
    executor = ScriptedExecutor()
    async with running_operator([held], settings=settings, executor=executor):
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [True]


async def test_an_invalid_period_annotation_holds_up_no_deletion(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """The finalizer runs although the period annotation is no duration (field case Q2)."""
    executor = ScriptedExecutor()
    await probes.create("one", finalizers=[OURS], annotations={PERIOD_ANNOTATION: "soon"})
    await probes.delete("one")
    async with running_operator([held], settings=settings, executor=executor):
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")


async def test_a_finalizing_run_that_asks_for_time_is_repeated(probes: Probes, held: Watch, settings: Settings) -> None:
    """A finalizing run that asked to come back has not finished: the finalizer stays until a run doesn't ask."""
    again = succeeded(requeue_after=timedelta(milliseconds=20))
    executor = ScriptedExecutor(outcomes=[succeeded(), again, again, succeeded()])
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 1), what="the run")
        await probes.delete("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [False, True, True, True]


async def test_a_finalizing_run_that_asks_for_zero_time_has_finished(
    probes: Probes, held: Watch, settings: Settings
) -> None:
    """A requeue after zero is no wish to be repeated: the object goes."""
    executor = ScriptedExecutor(outcomes=[succeeded(), succeeded(requeue_after=timedelta(0))])
    async with running_operator([held], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 1), what="the run")
        await probes.delete("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [False, True]


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()


async def _count(executor: ScriptedExecutor, count: int) -> bool:
    return len(executor.requests) >= count


async def _finalizers_are(probes: Probes, name: str, expected: tuple[str, ...]) -> bool:
    return finalizers_of(await probes.get(name)) == expected


async def _successful(probes: Probes, name: str) -> bool:
    return (await probes.conditions(name)).get("Successful") == "True"
