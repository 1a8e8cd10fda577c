"""Field case Q2 and `requeue_after`: when the next run is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from runner.kube.objects import Object, conditions_of, finalizers_of, resource_version_of
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import wait_until
from runner.testing.executor import ScriptedExecutor, failed, succeeded
from runner.testing.harness import ExecutorFor, running_operator
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import Finalizer, Watch
from tests.integration.cases.conftest import Playbook
from tests.integration.reconcile.conftest import Probes

PERIODS: Mapping[str, float | None] = {
    "2s": 2.0,
    "1h2m4s": 3724.0,
    "300ms": 0.3,
    "1.5h": 5400.0,
    "0": None,
    "0s": None,
    "-1s": None,
}
"""What the annotation says, and the seconds to the next run; None: no periodic run."""
INVALID = ("5", "1d", "1x3m9s", "", " 5s")


@pytest.fixture
def three_seconds(watch: Watch) -> Watch:
    """Watch Probes every three seconds."""
    return replace(watch, reconcile_period=timedelta(seconds=3))


async def test_each_valid_annotation_wins_over_the_watch(
    probes: Probes, three_seconds: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """Every form of Go's durations decides over the watch's period, zero and less meaning never (field case Q2)."""
    names = {f"p{number}": text for number, text in enumerate(PERIODS)}
    async with running_operator([three_seconds], settings=settings, executor=ScriptedExecutor(), sink=sink):
        for name, text in names.items():
            await probes.create(name, annotations={PERIOD_ANNOTATION: text})
        for name in names:
            await wait_until(lambda: _decided(sink, name), what=f"the decision for {name}")  # noqa: B023 - awaited within its turn
    assert {text: _delays(sink, name)[0] for name, text in names.items()} == dict(PERIODS)


@pytest.mark.parametrize(
    ("watch_period", "flag", "expected"),
    [
        (timedelta(seconds=3), timedelta(0), 3.0),
        (timedelta(seconds=3), timedelta(hours=10), 3.0),
        (None, timedelta(hours=10), 36000.0),
        (None, timedelta(0), None),
        (timedelta(0), timedelta(hours=10), None),
    ],
)
async def test_the_watch_wins_over_the_flag(
    probes: Probes,
    watch: Watch,
    settings: Settings,
    sink: RecordingSink,
    *,
    watch_period: timedelta | None,
    flag: timedelta,
    expected: float | None,
) -> None:
    """The watch's period comes before the flag's, and its zero means never (field case Q2; the issue's rule)."""
    watching = replace(watch, reconcile_period=watch_period)
    flagged = replace(settings, reconcile_period=flag)
    async with running_operator([watching], settings=flagged, executor=ScriptedExecutor(), sink=sink):
        await probes.create("one")
        await wait_until(lambda: _decided(sink, "one"), what="the decision")
    assert _delays(sink, "one")[0] == expected


async def test_invalid_annotations_are_told_once_and_recover_when_mended(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """What is no duration is a Failure naming it, written once, no run and no loop; mended, it runs (field case Q2)."""
    executor = ScriptedExecutor()
    names = {f"p{number}": text for number, text in enumerate(INVALID)}
    patient = replace(settings, backoff=replace(settings.backoff, base=3600.0, cap=3600.0))
    async with running_operator([watch], settings=patient, executor=executor, sink=sink):
        for name, text in names.items():
            await probes.create(name, annotations={PERIOD_ANNOTATION: text})
        for name, text in names.items():
            await wait_until(lambda: _failure_has(probes, name, PERIOD_ANNOTATION, f'"{text}"'), what=name)  # noqa: B023 - awaited within its turn
        await probes.create("barrier")
        await wait_until(lambda: _successful(probes, "barrier"), what="the barrier")
        assert [request.obj["metadata"]["name"] for request in executor.requests] == ["barrier"]
        assert {name: len(_delays(sink, name)) for name in names} == dict.fromkeys(names, 1)
        for name in names:
            mended = None if name == "p0" else "1h"
            await probes.patch(name, {"metadata": {"annotations": {PERIOD_ANNOTATION: mended}}})
        for name in names:
            await wait_until(lambda: _successful(probes, name), what=f"the success of {name}")  # noqa: B023 - awaited within its turn
    assert {name: _delays(sink, name)[-1] for name in names} == {**dict.fromkeys(names, 3600.0), "p0": None}


async def test_an_invalid_annotation_is_tried_again_without_writing_again(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """While the annotation stays broken the tries get rarer, and the object is not written again (field case Q2)."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor, sink=sink):
        await probes.create("one", annotations={PERIOD_ANNOTATION: "1d"})
        await wait_until(lambda: _failure_has(probes, "one", PERIOD_ANNOTATION), what="the Failure")
        first = resource_version_of(await probes.get("one"))
        await wait_until(lambda: _tried(sink, "one", 4), what="four tries")
        assert resource_version_of(await probes.get("one")) == first
    delays = [delay or 0.0 for delay in _delays(sink, "one")]
    assert delays == sorted(delays)
    assert delays[3] > 4 * delays[0] > 0
    assert executor.requests == []


async def test_a_removed_annotation_counts_from_the_next_reconcile(
    probes: Probes, three_seconds: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """Without its annotation the object is back at the watch's period after its next run (field case Q2)."""
    executor = ScriptedExecutor()
    async with running_operator([three_seconds], settings=settings, executor=executor, sink=sink):
        await probes.create("one", annotations={PERIOD_ANNOTATION: "1h"})
        await wait_until(lambda: _tried(sink, "one", 1), what="the first decision")
        await probes.patch("one", {"metadata": {"annotations": {PERIOD_ANNOTATION: None}}})
        await probes.create("barrier")
        await wait_until(lambda: _tried(sink, "barrier", 1), what="the barrier's decision")
        assert len(executor.runs_of("one")) == 1
        await probes.patch("one", {"spec": {"size": 2}})
        await wait_until(lambda: _tried(sink, "one", 2), what="the next decision")
    assert _delays(sink, "one")[:2] == [3600.0, 3.0]


async def test_a_deleted_object_leaves_no_timer(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """The deletion cancels the periodic run, however far away it is: nothing of the object stays in the queue."""
    executor = ScriptedExecutor()
    async with running_operator(
        [replace(watch, reconcile_period=timedelta(hours=10))], settings=settings, executor=executor, sink=sink
    ):
        await probes.create("one")
        await wait_until(lambda: _tried(sink, "one", 1), what="the first decision")
        await probes.delete("one")
        await wait_until(lambda: _tried(sink, "one", 2), what="the decision about the deletion")
    assert _delays(sink, "one") == [36000.0, None]
    assert len(executor.requests) == 1


LAST_PERIOD_WINS = """
- operator_sdk.util.requeue_after: {time: 1h}
- operator_sdk.util.requeue_after: {time: 500ms}
- operator_sdk.util.k8s_status:
    api_version: bugs.example.com/v1
    kind: Probe
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status: {finished: true}
"""


async def test_a_play_that_asks_to_come_back_goes_on_to_its_end(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink, plays: ExecutorFor, playbook: Playbook
) -> None:
    """After requeue_after the tasks still reach the API, conditions are written, the last period counts."""
    watching = replace(watch, content=playbook("main.yml", LAST_PERIOD_WINS), reconcile_period=timedelta(hours=2))
    async with running_operator([watching], settings=settings, executor=plays, sink=sink):
        await probes.create("one")
        await wait_until(lambda: _tried(sink, "one", 1), what="the first run", limit=120)
        status = (await probes.get("one"))["status"]
        assert status["finished"] is True
        await wait_until(lambda: _tried(sink, "one", 2), what="the requested run", limit=120)
        await wait_until(lambda: _successful(probes, "one"), what="the success")
    assert _delays(sink, "one")[:2] == [0.5, 0.5]
    assert "Set the reconciliation to occur after 500ms" in sink.sentences()


async def test_a_period_that_cannot_be_used_is_a_failure_with_a_sentence(
    probes: Probes, watch: Watch, settings: Settings, plays: ExecutorFor, playbook: Playbook
) -> None:
    """A broken period of requeue_after fails the run, and the condition quotes it."""
    content = playbook("main.yml", "- operator_sdk.util.requeue_after: {time: soon}")
    patient = replace(settings, backoff=replace(settings.backoff, base=3600.0, cap=3600.0))
    async with running_operator([replace(watch, content=content)], settings=patient, executor=plays):
        await probes.create("one")
        await wait_until(lambda: _failure_has(probes, "one", "soon"), what="the Failure", limit=120)
    assert (await probes.conditions("one"))["Running"] == "False"


async def test_a_failed_run_backs_off_whatever_it_asked_for(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """A run that asked for a period and then failed is a failure: its retry is the back-off's."""
    asked = replace(failed("x"), requeue_after=timedelta(hours=1))
    async with running_operator([watch], settings=settings, executor=ScriptedExecutor(outcomes=[asked]), sink=sink):
        await probes.create("one")
        await wait_until(lambda: _successful(probes, "one"), what="the retry")
    first = _delays(sink, "one")[0]
    assert first is not None
    assert first < 1.0


async def test_a_finalizer_run_that_asks_for_time_keeps_the_finalizer_that_long(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """It has not finished: the finalizer stays, the status tells, and the run is repeated after the period it named."""
    again = succeeded(requeue_after=timedelta(milliseconds=40))
    executor = ScriptedExecutor(outcomes=[again, again])
    held = replace(watch, finalizer=Finalizer(name="bugs.example.com/f"), reconcile_period=timedelta(hours=1))
    await probes.create("one", finalizers=["bugs.example.com/f"])
    await probes.delete("one")
    async with running_operator([held], settings=settings, executor=executor, sink=sink):
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
    assert [request.finalizing for request in executor.requests] == [True, True, True]
    assert all(finalizers_of(request.obj) == ("bugs.example.com/f",) for request in executor.requests)
    assert {c["type"]: c["status"] for c in conditions_of(executor.requests[1].obj)}["Failure"] == "False"
    assert _delays(sink, "one")[:2] == [0.04, 0.04]


def _delays(sink: RecordingSink, name: str) -> list[float | None]:
    """Return the seconds to the next turn after each reconcile of an object; None where there is none."""
    decided = [r for r in sink.records if r["msg"] == "Reconciled" and r["name"] == name]
    return [record.get("requeueAfterSeconds") for record in decided]


async def _decided(sink: RecordingSink, name: str) -> bool:
    return bool(_delays(sink, name))


async def _tried(sink: RecordingSink, name: str, times: int) -> bool:
    return len(_delays(sink, name)) >= times


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()


async def _successful(probes: Probes, name: str) -> bool:
    entries: dict[str, Object] = {entry["type"]: entry for entry in conditions_of(await probes.get(name))}
    return entries.get("Running", {}).get("reason") == "Successful"


async def _failure_has(probes: Probes, name: str, *texts: str) -> bool:
    messages = [c["message"] for c in conditions_of(await probes.get(name)) if c["type"] == "Failure"]
    return any(all(text in message for text in texts) for message in messages)
