"""Field cases W1 and W2: what starts a run, and what doesn't."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runner.execution.parameters import parameters_for
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.objects import Object, finalizers_of, generation_of, resource_version_of
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.testing.cluster import CONFIG_MAPS, SECRETS, wait_until
from runner.testing.executor import ScriptedExecutor
from runner.testing.harness import running_operator
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import Content, Finalizer, LabelRequirement, Watch
from tests.integration.reconcile.conftest import Probes

OURS = "bugs.example.com/f"
CANARY = "CANARY-W1"


@pytest.fixture(params=[SECRETS, CONFIG_MAPS], ids=["Secret", "ConfigMap"])
async def plain(request: pytest.FixtureRequest, kube: KubeClient, namespace: str) -> AsyncIterator[Probes]:
    """Give the Secrets, then the ConfigMaps, of a fresh namespace; what is left loses its finalizers at the end."""
    resource: Resource = request.param
    objects = Probes(kube=kube, resource=resource, namespace=namespace)
    yield objects
    for name in await objects.names():
        await objects.patch(name, {"metadata": {"finalizers": None}})


def data(plain: Probes, value: str) -> Object:
    """Return the content of an object that holds *value*."""
    return {"stringData" if plain.resource == SECRETS else "data": {"k": value}}


@pytest.mark.parametrize("manage_status", [False, True])
async def test_each_change_of_content_of_a_kind_without_generation_runs_once(
    plain: Probes, settings: Settings, sink: RecordingSink, *, manage_status: bool
) -> None:
    """Data or a label is one run each, a no-op is none, no status write is tried, no value logged (field case W1)."""
    executor = ScriptedExecutor()
    watch = Watch(
        gvk=plain.resource.gvk,
        content=Content(),
        manage_status=manage_status,
        finalizer=Finalizer(name=OURS),
        selector=(LabelRequirement(key="case", operator="In", values=("w1",)),),  # the namespace has some of its own
    )
    case = {"case": "w1"}
    async with running_operator([watch], settings=settings, executor=executor, sink=sink):
        await plain.create("one", content=data(plain, CANARY), labels=case)
        await wait_until(lambda: _ran(executor, "one", 1), what="the first run")
        await plain.patch("one", data(plain, f"{CANARY}-2"))
        await wait_until(lambda: _ran(executor, "one", 2), what="the data's run")
        await plain.patch("one", {"metadata": {"labels": {"tier": "gold"}}})
        await wait_until(lambda: _ran(executor, "one", 3), what="the label's run")
        before = await plain.get("one")
        await plain.patch("one", data(plain, f"{CANARY}-2"))  # what it says already
        apply: Object = {
            "metadata": {"managedFields": [{}]}
        }  # bookkeeping of the API server's: a new version, no new content
        assert resource_version_of(await plain.patch("one", apply)) != resource_version_of(before)
        await plain.create("barrier", content=data(plain, CANARY), labels=case)
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
        assert len(executor.runs_of("one")) == 3
        assert generation_of(before) == 0
        assert "status" not in await plain.get("one")
        await plain.delete("one")
        await wait_until(lambda: _gone(plain, "one"), what="the object to go")
    assert [request.finalizing for request in executor.runs_of("one")] == [False, False, False, True]
    assert [record for record in sink.records if record["level"] == "error"] == []
    assert CANARY not in repr(sink.records)


async def test_a_kind_of_the_core_group_has_its_variables(plain: Probes, settings: Settings) -> None:
    """The empty group leaves `__kind` and `__kind_spec`, the latter empty where there is no spec (field case W1)."""
    executor = ScriptedExecutor()
    watch = Watch(gvk=plain.resource.gvk, content=Content(), manage_status=False)
    async with running_operator([watch], settings=settings, executor=executor):
        await plain.create("one", content=data(plain, "x"))
        await wait_until(lambda: _ran(executor, "one", 1), what="the run")
    variables = parameters_for(executor.runs_of("one")[0]).variables
    kind = plain.resource.gvk.kind.lower()
    assert variables[f"__{kind}_spec"] == {}
    assert variables[f"__{kind}"]["data"] != {}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [({}, [1, 2]), ({"watch_annotations_changes": True}, [1, 1, 2])],
    ids=["default", "watchAnnotationsChanges"],
)
async def test_metadata_and_status_start_nothing_unasked(
    probes: Probes, watch: Watch, settings: Settings, *, keys: dict[str, Any], expected: list[int]
) -> None:
    """By default only the spec starts a run; with the option annotations do, and nothing else (field case W2)."""
    executor = ScriptedExecutor()
    watching = replace(watch, finalizer=Finalizer(name=OURS), **keys)
    async with running_operator([watching], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _successful(probes, "one", 1), what="the first success")
        await probes.patch("one", {"metadata": {"labels": {"tier": "gold"}}})
        await probes.patch("one", {"status": {"note": "x", "conditions": None}}, subresource="status")
        finalizers = [*finalizers_of(await probes.get("one")), "z.example.com/after"]
        await probes.patch("one", {"metadata": {"finalizers": finalizers}})
        await probes.patch("one", {"metadata": {"ownerReferences": []}})
        await probes.patch("one", {"metadata": {"annotations": {"note": "hello"}}})
        await wait_until(lambda: _ran(executor, "one", len(expected) - 1), what="the annotation's run, if any")
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
        await probes.patch("one", {"spec": {"size": 2}})
        await wait_until(lambda: _successful(probes, "one", 2), what="the edit's success")
    assert [request.obj["spec"]["size"] for request in executor.runs_of("one")] == expected


async def test_mending_a_period_annotation_is_the_one_annotation_that_counts(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """A valid period that becomes another valid one, or invalid, starts no run by itself (field cases W2 and Q2)."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one", annotations={PERIOD_ANNOTATION: "1h"})
        await wait_until(lambda: _successful(probes, "one", 1), what="the first success")
        for value in ("2h", "nonsense"):
            await probes.patch("one", {"metadata": {"annotations": {PERIOD_ANNOTATION: value}}})
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
        assert len(executor.runs_of("one")) == 1
        await probes.patch("one", {"metadata": {"annotations": {PERIOD_ANNOTATION: None}}})
        await wait_until(lambda: _ran(executor, "one", 2), what="the run of what is mended")


@pytest.fixture
def of_team_a(watch: Watch) -> Watch:
    """Watch the Probes with the label t=a, with a finalizer and a short period."""
    return replace(
        watch,
        selector=(LabelRequirement(key="t", operator="In", values=("a",)),),
        reconcile_period=timedelta(milliseconds=50),
        finalizer=Finalizer(name=OURS),
    )


async def test_labels_decide_in_and_out_and_in_again(probes: Probes, of_team_a: Watch, settings: Settings) -> None:
    """t=a runs periodically, t=b never, queued runs included, not even by an edit; t=a again runs (field case W2)."""
    executor = ScriptedExecutor()
    async with running_operator([of_team_a], settings=settings, executor=executor):
        await probes.create("barrier", labels={"t": "a"})
        await probes.create("one", labels={"t": "a"})
        await wait_until(lambda: _ran(executor, "one", 3), what="periodic runs")
        await probes.patch("one", {"metadata": {"labels": {"t": "b"}}})
        await _pass_periods(executor, count=3)  # a run that was under way has ended
        count = len(executor.runs_of("one"))
        await probes.patch("one", {"spec": {"size": 2}})
        await _pass_periods(executor, count=5)
        assert len(executor.runs_of("one")) == count
        await probes.patch("one", {"metadata": {"labels": {"t": "a"}}})
        await wait_until(lambda: _ran(executor, "one", count + 2), what="periodic runs again")
    assert executor.runs_of("one")[count].obj["spec"]["size"] == 2


async def test_an_object_that_left_the_selection_is_still_finalized(
    probes: Probes, of_team_a: Watch, settings: Settings
) -> None:
    """Our finalizer on it is honoured whatever its labels are; without ours nothing runs for it (field case W2)."""
    executor = ScriptedExecutor()
    async with running_operator([of_team_a], settings=settings, executor=executor):
        await probes.create("barrier", labels={"t": "a"})
        await probes.create("one", labels={"t": "a"})
        await probes.create("other", labels={"t": "b"}, finalizers=["z.example.com/after"])
        await wait_until(lambda: _ran(executor, "one", 1), what="the first run")
        await probes.patch("one", {"metadata": {"labels": {"t": "b"}}})
        await _pass_periods(executor, count=3)
        count = len(executor.runs_of("one"))
        await probes.delete("other")
        await probes.delete("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
        await _pass_periods(executor, count=2)
    assert [request.finalizing for request in executor.runs_of("one")[count:]] == [True]
    assert executor.runs_of("other") == []
    assert finalizers_of(await probes.get("other")) == ("z.example.com/after",)


async def _pass_periods(executor: ScriptedExecutor, *, count: int) -> None:
    """Wait for *count* further periodic runs of the barrier."""
    reached = len(executor.runs_of("barrier")) + count
    await wait_until(lambda: _ran(executor, "barrier", reached), what="periods of the barrier")


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()


async def _ran(executor: ScriptedExecutor, name: str, count: int) -> bool:
    return len(executor.runs_of(name)) >= count


async def _successful(probes: Probes, name: str, generation: int) -> bool:
    conditions = (await probes.get(name)).get("status", {}).get("conditions") or []
    return any(c["type"] == "Successful" and c.get("observedGeneration") == generation for c in conditions)
