"""What starts a run, what a run leaves in the status, and when the next one comes: on a real API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from runner.execution.executor import RunRequest
from runner.execution.overrides import RUN_TIMEOUT_ANNOTATION
from runner.kube.events import EVENTS
from runner.kube.objects import conditions_of, generation_of, resource_version_of
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor, failed, succeeded
from runner.testing.harness import running_operator
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import LabelRequirement, Watch
from tests.integration.reconcile.conftest import Probes

DONE = {"Running": "True", "Successful": "True", "Failure": "False"}
FAILED = {"Running": "False", "Successful": "False", "Failure": "True"}


async def test_a_new_object_runs_once_and_its_status_tells(probes: Probes, watch: Watch, settings: Settings) -> None:
    """A created object is run once, and its conditions say Successful, with the generation that this belongs to."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")
    (request,) = executor.requests
    assert request.obj["spec"] == {"size": 1}
    assert not request.finalizing
    successful = next(c for c in conditions_of(await probes.get("one")) if c["type"] == "Successful")
    assert successful["observedGeneration"] == 1


async def test_an_object_that_existed_before_is_run_at_the_start(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """Objects that were there before the operator are reconciled when it starts."""
    await probes.create("early")
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await wait_until(lambda: _conditions_are(probes, "early", DONE), what="Successful")
    assert len(executor.requests) == 1


async def test_only_a_spec_change_starts_a_run(probes: Probes, watch: Watch, settings: Settings) -> None:
    """Labels, annotations and status writes move the resource version and start nothing; one edit is one run (W2)."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")
        before = await probes.get("one")
        await probes.patch("one", {"metadata": {"labels": {"tier": "gold"}}})
        annotated = await probes.patch("one", {"metadata": {"annotations": {"note": "hello"}}})
        await probes.patch("one", {"status": {"lastCheckedAt": "2026-01-01T00:00:00Z"}}, subresource="status")
        assert generation_of(annotated) == generation_of(before)
        assert resource_version_of(annotated) != resource_version_of(before)
        edited = await probes.patch("one", {"spec": {"size": 2}})  # the barrier: it comes after all of the others
        assert generation_of(edited) == generation_of(before) + 1
        await wait_until(lambda: _observed(probes, "one", generation_of(edited)), what="the edit's run")
    assert [request.obj["spec"]["size"] for request in executor.requests] == [1, 2]


async def test_annotations_start_a_run_where_the_watch_asks_for_it(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """With watchAnnotationsChanges an annotation starts a run, a label still doesn't (field case W2)."""
    executor = ScriptedExecutor()
    watching = replace(watch, watch_annotations_changes=True)
    async with running_operator([watching], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")
        await probes.patch("one", {"metadata": {"labels": {"tier": "gold"}}})
        await probes.patch("one", {"metadata": {"annotations": {"note": "hello"}}})
        await wait_until(lambda: _count(executor, 2), what="the annotation's run")
    annotations = [request.obj["metadata"].get("annotations") for request in executor.requests]
    assert annotations == [None, {"note": "hello"}]


async def test_a_failure_is_told_and_tried_again_until_it_succeeds(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """A failing run says Failure, is repeated with back-off, and Failure goes when a run succeeds (field case ST2)."""
    seen: list[dict[str, str]] = []

    async def script(request: RunRequest) -> None:
        seen.append({entry["type"]: entry["status"] for entry in conditions_of(request.obj)})

    executor = ScriptedExecutor(outcomes=[failed("no such image"), failed("no such image"), succeeded()], during=script)
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")
    assert len(executor.requests) == 3
    assert [entry.get("Failure") for entry in seen] == [None, "True", "True"]


async def test_the_message_of_a_failure_stands_in_the_condition(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """The Failure condition carries the messages of the run."""
    executor = ScriptedExecutor(outcomes=[failed("no such image", "and no network")])
    async with running_operator(
        [watch], settings=replace(settings, backoff=replace(settings.backoff, base=60, cap=60)), executor=executor
    ):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", FAILED), what="Failure")
    failure = next(c for c in conditions_of(await probes.get("one")) if c["type"] == "Failure")
    assert (failure["reason"], failure["message"]) == ("Failed", "no such image\nand no network")


async def test_a_run_beyond_its_time_limit_is_told_and_tried_again(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """Runs get the watch's limit, or their object's own; one that passed it is a Failure and one Event."""
    limited = replace(watch, run_timeout=timedelta(minutes=5))
    over = replace(failed("The run took longer than 5m0s"), timed_out=True)
    executor = ScriptedExecutor(outcomes=[over, over, succeeded(), succeeded()])
    async with running_operator([limited], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")
        await probes.create("two", annotations={RUN_TIMEOUT_ANNOTATION: "90s"})
        await wait_until(lambda: _conditions_are(probes, "two", DONE), what="Successful")
        events = await probes.kube.list(EVENTS, namespace=probes.namespace)
    assert [request.time_limit.total_seconds() for request in executor.requests] == [300, 300, 300, 90]
    told = [event for event in events if event["reason"] == "RunTimeout"]
    assert [(event["type"], event["message"], event["count"]) for event in told] == [
        ("Warning", "The run took longer than 5m0s", 2)
    ]


async def test_an_executor_that_breaks_leaves_a_failure(probes: Probes, watch: Watch, settings: Settings) -> None:
    """A bug in an executor ends in Failure with its text, not in Running for ever, and is tried again."""
    executor = ScriptedExecutor(outcomes=[ValueError("no JSON at column 7"), succeeded()])
    slow = replace(settings, backoff=replace(settings.backoff, base=2.0, cap=2.0))
    async with running_operator([watch], settings=slow, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _failure_says(probes, "one", "no JSON at column 7"), what="Failure")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")


async def test_a_spec_edit_does_not_wait_for_the_back_off(probes: Probes, watch: Watch, settings: Settings) -> None:
    """An edit of a failing object runs at once, however long its back-off is."""
    slow = replace(settings, backoff=replace(settings.backoff, base=3600.0, cap=3600.0))
    executor = ScriptedExecutor(outcomes=[failed("x"), succeeded()])
    async with running_operator([watch], settings=slow, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", FAILED), what="Failure")
        await probes.patch("one", {"spec": {"size": 2}})
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")


async def test_a_period_repeats_the_run(probes: Probes, watch: Watch, settings: Settings) -> None:
    """With a reconcile period the run comes again without any change."""
    executor = ScriptedExecutor()
    periodic = replace(watch, reconcile_period=timedelta(milliseconds=50))
    async with running_operator([periodic], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 4), what="three periods")


async def test_a_requested_requeue_wins_over_the_period(probes: Probes, watch: Watch, settings: Settings) -> None:
    """`requeue_after` decides when the next run is, the conditions are written all the same."""
    executor = ScriptedExecutor(outcomes=[succeeded(requeue_after=timedelta(milliseconds=50)), succeeded()])
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 2), what="the requested run")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")


async def test_an_invalid_period_annotation_is_told_and_runs_nothing(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """A period that is no duration is a Failure that names the annotation; mended, the object runs (field case Q2)."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one", annotations={PERIOD_ANNOTATION: "1d"})
        await wait_until(lambda: _failure_says(probes, "one", PERIOD_ANNOTATION), what="Failure")
        assert executor.requests == []
        await probes.patch("one", {"metadata": {"annotations": {PERIOD_ANNOTATION: "0s"}}})
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")


async def test_manage_status_false_writes_nothing(probes: Probes, watch: Watch, settings: Settings) -> None:
    """With manageStatus: false the run happens and the status stays as the role left it (field case ST1)."""
    executor = ScriptedExecutor()
    async with running_operator([replace(watch, manage_status=False)], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _count(executor, 1), what="the run")
    assert "status" not in await probes.get("one")


async def test_a_selector_follows_the_labels(probes: Probes, watch: Watch, settings: Settings) -> None:
    """An object runs when its labels come to match, and its queued periodic runs end when they stop (field case W2)."""
    selecting = replace(
        watch,
        selector=(LabelRequirement(key="tier", operator="In", values=("gold",)),),
        reconcile_period=timedelta(milliseconds=30),
    )
    executor = ScriptedExecutor()
    async with running_operator([selecting], settings=settings, executor=executor):
        await probes.create("one")
        await probes.create("barrier", labels={"tier": "gold"})
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
        assert not executor.runs_of("one")
        await probes.patch("one", {"metadata": {"labels": {"tier": "gold"}}})
        await wait_until(lambda: _ran(executor, "one", 3), what="runs of the matching object")
        await probes.patch("one", {"metadata": {"labels": {"tier": "lead"}}})
        reached = len(executor.runs_of("barrier")) + 3
        await wait_until(lambda: _ran(executor, "barrier", reached), what="periods of the barrier")
        count = len(executor.runs_of("one"))
        await wait_until(lambda: _ran(executor, "barrier", reached + 5), what="more periods of the barrier")
        assert len(executor.runs_of("one")) == count


async def test_workers_limit_what_runs_at_once(probes: Probes, watch: Watch, settings: Settings) -> None:
    """With two workers no more than two objects run at once, and never one object twice (field case CC1)."""
    gate = asyncio.Event()
    executor = ScriptedExecutor(during=lambda _: _pass(gate))
    async with running_operator([replace(watch, max_concurrent_reconciles=2)], settings=settings, executor=executor):
        for number in range(6):
            await probes.create(f"p{number}")
        await wait_until(lambda: _count(executor, 2), what="two runs at once")
        for number in range(6):
            await probes.patch(f"p{number}", {"spec": {"size": 2}})
        gate.set()
        for number in range(6):
            await wait_until(lambda n=number: _observed(probes, f"p{n}", 2), what=f"p{number}'s edit")  # type: ignore[misc]
    assert executor.most_at_once == 2
    assert executor.most_at_once_per_object == 1


async def test_a_drain_lets_the_run_finish(probes: Probes, watch: Watch, settings: Settings) -> None:
    """A stop hands out no new keys, and the run that is under way ends and writes its status."""
    gate = asyncio.Event()
    executor = ScriptedExecutor(during=lambda _: _pass(gate))
    async with running_operator([watch], settings=settings, executor=executor) as operator:
        await probes.create("one")
        await probes.create("two")
        await wait_until(lambda: _count(executor, 1), what="the first run")
        operator.stop()
        gate.set()
    ran = {request.obj["metadata"]["name"] for request in executor.requests}
    assert len(ran) == 1
    assert await probes.conditions(ran.pop()) == DONE


async def test_each_reconcile_has_a_log_line_with_its_object(probes: Probes, watch: Watch, settings: Settings) -> None:
    """The line that tells a reconcile's end names object, kind and what comes next."""
    sink = RecordingSink()
    periodic = replace(watch, reconcile_period=timedelta(hours=1))
    async with running_operator([periodic], settings=settings, executor=ScriptedExecutor(), sink=sink):
        await probes.create("one")
        await wait_until(lambda: _conditions_are(probes, "one", DONE), what="Successful")
    (line,) = [record for record in sink.records if record["msg"] == "Reconciled"]
    assert (line["name"], line["namespace"], line["gvk"]) == ("one", probes.namespace, str(watch.gvk))
    assert (line["decision"], line["requeueAfterSeconds"]) == ("RequeueAfter", 3600.0)


async def _conditions_are(probes: Probes, name: str, expected: dict[str, str]) -> bool:
    conditions = await probes.conditions(name)
    obj = await probes.get(name)
    reasons = {entry["type"]: entry["reason"] for entry in conditions_of(obj)}
    return conditions == expected and (expected != DONE or reasons["Running"] == "Successful")


async def _observed(probes: Probes, name: str, generation: int) -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get(name))}
    successful = entries.get("Successful", {})
    return successful.get("status") == "True" and successful.get("observedGeneration") == generation


async def _failure_says(probes: Probes, name: str, text: str) -> bool:
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get(name))}
    return text in entries.get("Failure", {}).get("message", "")


async def _pass(gate: asyncio.Event) -> None:
    await gate.wait()


async def _count(executor: ScriptedExecutor, count: int) -> bool:
    return len(executor.requests) >= count


async def _ran(executor: ScriptedExecutor, name: str, count: int) -> bool:
    return len(executor.runs_of(name)) >= count
