"""Field cases ST1, ST2 and ST4: what stands in the status, when, and who else may write there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runner.assembly import Shared
from runner.clock import SystemClock
from runner.errors import Conflict
from runner.execution.executor import RunRequest
from runner.execution.parameters import parameters_for
from runner.kube.client import KubeClient
from runner.kube.objects import Object, conditions_of, finalizers_of, generation_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import Settings
from runner.status.conditions import OURS
from runner.testing.cluster import crd, wait_until
from runner.testing.executor import ScriptedExecutor, failed, succeeded
from runner.testing.harness import ExecutorFor, running_operator
from runner.testing.informers import Watched
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import Content, Finalizer, Watch
from tests.integration.cases.conftest import Playbook, history_of, objects_of, states_until
from tests.integration.reconcile.conftest import Probes

DONE = {"Running": "True", "Successful": "True", "Failure": "False"}
ROLE_THAT_WRITES_ITS_STATUS = """
- operator_sdk.util.k8s_status:
    api_version: bugs.example.com/v1
    kind: Probe
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status: {url: "http://first", conditions: [{type: Ready, status: "False", reason: Early}]}
- operator_sdk.util.k8s_status:
    api_version: bugs.example.com/v1
    kind: Probe
    name: "{{ ansible_operator_meta.name }}"
    namespace: "{{ ansible_operator_meta.namespace }}"
    status: {url: "http://last", conditions: [{type: Ready, status: "True", reason: Late}]}
"""


@pytest.mark.parametrize("writes", [40, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.parametrize("manage_status", [True, False])
async def test_three_writers_share_one_status(
    probes: Probes,
    watch: Watch,
    settings: Settings,
    plays: ExecutorFor,
    playbook: Playbook,
    *,
    manage_status: bool,
    writes: int,
) -> None:
    """A role's k8s_status, a writer in a tight loop and the operator lose nothing of each other (field case ST1)."""
    watching = replace(watch, content=playbook("main.yml", ROLE_THAT_WRITES_ITS_STATUS), manage_status=manage_status)
    async with running_operator([watching], settings=settings, executor=plays):
        await probes.create("one")
        if manage_status:
            await wait_until(lambda: _condition_is(probes, "Running", "Running"), what="the run to start", limit=180)
        await _write_in_a_tight_loop(probes, first=0, writes=writes)
        await wait_until(
            lambda: _has_url(probes, "http://first", "http://last"), what="the role's first write", limit=180
        )
        await _write_in_a_tight_loop(probes, first=writes, writes=writes)
        await wait_until(lambda: _condition_is(probes, "Ready", "Late"), what="the role's last write", limit=180)
        if manage_status:
            await wait_until(
                lambda: _condition_is(probes, "Running", "Successful"), what="the end of the run", limit=180
            )
    status = (await probes.get("one"))["status"]
    assert status["url"] == "http://last"
    assert status["keys"] == {f"k{number}": number for number in range(2 * writes)}
    types = [entry["type"] for entry in status["conditions"]]
    assert sorted(types) == sorted([*(OURS if manage_status else ()), "Ready", "Theirs"])
    theirs = next(entry for entry in status["conditions"] if entry["type"] == "Theirs")
    assert theirs["count"] == 2 * writes - 1


async def test_manage_status_false_writes_nothing_at_all(probes: Probes, watch: Watch, settings: Settings) -> None:
    """With manageStatus false no end of a run and no refusal to run touches the status (field case ST1)."""
    executor = ScriptedExecutor(outcomes=[failed("x"), ValueError("y"), succeeded()])
    unmanaged = replace(watch, manage_status=False)
    async with running_operator([unmanaged], settings=settings, executor=executor):
        await probes.create("refused", annotations={PERIOD_ANNOTATION: "soon"})
        await probes.create("one")
        await wait_until(lambda: _ran(executor, "one", 3), what="all three ends")
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
    assert executor.runs_of("refused") == []
    assert "status" not in await probes.get("one")
    assert "status" not in await probes.get("refused")


class SteppingClock(SystemClock):
    """A wall clock that goes on by a minute with each look at it, so that two moments never look alike."""

    def __init__(self) -> None:
        """Start in 2026."""
        self.steps = 0

    def now(self) -> datetime:
        """Return the next minute."""
        self.steps += 1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.steps)


def _stepping(shared: Shared) -> Shared:
    return replace(shared, clock=SteppingClock())


RUNNING = ("True", "Running", "Running reconciliation")
WAITING = ("True", "Successful", "Awaiting next reconciliation")
BROKE_OFF = ("False", "Running", "Running reconciliation")
GOOD = ("True", "Successful", "Last reconciliation succeeded")
WAS_GOOD = ("False", "Successful", "Last reconciliation succeeded")
NOT_GOOD = ("False", "", "")
FINE = ("False", "", "")
SEQUENCE: list[dict[str, tuple[str, str, str]]] = [
    {"Running": RUNNING},
    {"Running": WAITING, "Successful": GOOD, "Failure": FINE},
    {"Running": RUNNING, "Successful": WAS_GOOD, "Failure": FINE},
    {"Running": BROKE_OFF, "Successful": NOT_GOOD, "Failure": ("True", "Failed", "first")},
    {"Running": RUNNING, "Successful": NOT_GOOD, "Failure": ("True", "Failed", "first")},
    {"Running": BROKE_OFF, "Successful": NOT_GOOD, "Failure": ("True", "Failed", "second\nthird")},
    {"Running": RUNNING, "Successful": NOT_GOOD, "Failure": ("True", "Failed", "second\nthird")},
    {"Running": WAITING, "Successful": GOOD, "Failure": FINE},
]
"""Success, failure, failure, success: what a watch sees, state by state."""


@pytest.fixture
async def sequence(probes: Probes, watch: Watch, settings: Settings, history: Watched) -> list[Object]:
    """Let an object succeed, fail twice and succeed; return the states with conditions that a real watch saw."""
    executor = ScriptedExecutor(outcomes=[succeeded(), failed("first"), failed("second", "third"), succeeded()])
    patient = replace(settings, backoff=replace(settings.backoff, base=3600.0, cap=3600.0))
    async with running_operator([watch], settings=patient, executor=executor, adjust=_stepping):
        await probes.create("one")
        for size in range(2, 6):
            generation = size - 1
            await wait_until(lambda: _ended(probes, generation), what=f"the end of generation {generation}")  # noqa: B023 - awaited within its turn
            if size < 5:
                await probes.patch("one", {"spec": {"size": size}})
    states = await states_until(history, await probes.get("one"))
    return _changes_of_conditions(states)


async def test_conditions_go_through_exactly_these_states(sequence: list[Object]) -> None:
    """Over success, failure, failure, success a watch sees exactly the peer's states (field case ST2)."""
    seen = [{c["type"]: (c["status"], c["reason"], c["message"]) for c in conditions_of(obj)} for obj in sequence]
    assert seen == SEQUENCE


async def test_transition_times_move_with_the_status_and_only_then(sequence: list[Object]) -> None:
    """From state to state lastTransitionTime changes for exactly those whose status changed (field case ST2)."""
    last: dict[str, tuple[str, str]] = {}
    flips = 0
    for obj in sequence:
        for entry in conditions_of(obj):
            status, time = entry["status"], entry["lastTransitionTime"]
            assert datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")
            if entry["type"] in last:
                before, before_time = last[entry["type"]]
                assert (status != before) == (time != before_time), (entry, before_time)
                flips += status != before
            last[entry["type"]] = (status, time)
    assert flips == 8


async def test_conditions_keep_their_order_and_carry_their_results(sequence: list[Object]) -> None:
    """The list's order never changes, and ansibleResult has five fields where a run has ended (field case ST2)."""
    assert all([c["type"] for c in conditions_of(obj)] == list(OURS)[: len(conditions_of(obj))] for obj in sequence)
    with_result = [[c["type"] for c in conditions_of(obj) if "ansibleResult" in c] for obj in sequence]
    assert with_result == [[], ["Running"], [], ["Failure"], ["Failure"], ["Failure"], ["Failure"], ["Running"]]
    (result,) = [c["ansibleResult"] for c in conditions_of(sequence[-1]) if "ansibleResult" in c]
    assert sorted(result) == ["changed", "completion", "failures", "ok", "skipped"]


async def test_the_generation_of_an_outcome_stands_beside_it(sequence: list[Object]) -> None:
    """Successful names the generation of the last run that ended, also while the next one runs (field case ST2)."""
    told = [c.get("observedGeneration") for obj in sequence for c in conditions_of(obj) if c["type"] == "Successful"]
    assert told == [1, 1, 2, 2, 3, 3, 4]


async def test_a_success_belongs_to_the_generation_that_ran(probes: Probes, watch: Watch, settings: Settings) -> None:
    """An edit during a run doesn't make its success that of the new generation; that one gets a run of its own."""
    told: list[Any] = []

    async def script(request: RunRequest) -> None:
        successful = [c for c in conditions_of(request.obj) if c["type"] == "Successful"]
        told.append([c["observedGeneration"] for c in successful])
        if len(told) == 1:
            assert generation_of(await probes.patch("one", {"spec": {"size": 2}})) == 2

    executor = ScriptedExecutor(during=script)
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _ended(probes, 2), what="the new generation's success")
    assert told == [[], [1]]
    assert [request.obj["spec"]["size"] for request in executor.requests] == [1, 2]


async def test_fields_and_conditions_of_others_survive_a_run(probes: Probes, watch: Watch, settings: Settings) -> None:
    """Unknown fields in our conditions, and conditions of others between them, outlive runs (field case ST2)."""
    executor = ScriptedExecutor(outcomes=[succeeded(), failed("x"), succeeded()])
    patient = replace(settings, backoff=replace(settings.backoff, base=3600.0, cap=3600.0))
    async with running_operator([watch], settings=patient, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _ended(probes, 1), what="the first end")
        ours = conditions_of(await probes.get("one"))
        mixed = [{**entry, "lastHeartbeatTime": "then"} for entry in ours]
        mixed.insert(1, {"type": "Ready", "status": "True", "depth": {"a": [1]}})
        await probes.patch("one", {"status": {"conditions": mixed}}, subresource="status")
        for generation in (2, 3):
            await probes.patch("one", {"spec": {"size": generation}})
            await wait_until(lambda: _ended(probes, generation), what=f"the end of {generation}")  # noqa: B023 - awaited within its turn
    after = conditions_of(await probes.get("one"))
    assert [entry["type"] for entry in after] == ["Running", "Ready", "Successful", "Failure"]
    assert after[1] == {"type": "Ready", "status": "True", "depth": {"a": [1]}}
    assert [entry.get("lastHeartbeatTime") for entry in after if entry["type"] in OURS] == ["then"] * 3


async def test_what_cannot_be_run_is_a_failure_and_neither_running_nor_successful(
    probes: Probes, watch: Watch, settings: Settings
) -> None:
    """A period annotation that breaks later turns a success into Failure, with a new time for each (field case ST2)."""
    executor = ScriptedExecutor()
    async with running_operator([watch], settings=settings, executor=executor, adjust=_stepping):
        await probes.create("one")
        await wait_until(lambda: _ended(probes, 1), what="the success")
        before = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
        broken: Object = {"metadata": {"annotations": {PERIOD_ANNOTATION: "1d"}}, "spec": {"size": 2}}
        await probes.patch("one", broken)
        await wait_until(lambda: _condition_is(probes, "Failure", "Failed"), what="the Failure")
    after = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
    assert {type_: entry["status"] for type_, entry in after.items()} == {
        "Running": "False",
        "Successful": "False",
        "Failure": "True",
    }
    assert all(after[type_]["lastTransitionTime"] != before[type_]["lastTransitionTime"] for type_ in OURS)
    assert after["Successful"]["observedGeneration"] == 1
    assert len(executor.requests) == 1


_CONDITION = {name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")}
_OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRICT: Object = {
    "type": "object",
    "properties": {
        "spec": _OPEN,
        "status": {
            "type": "object",
            "properties": {
                "conditions": {
                    "type": "array",
                    "items": {"type": "object", "required": list(_CONDITION), "properties": _CONDITION},
                }
            },
        },
    },
}
_SPECLESS: Object = {
    "type": "object",
    "properties": {"size": {"type": "integer"}, "status": _OPEN},
}
ODD_KINDS: Mapping[str, Object] = {
    "A": crd("Plain", group="bugs.example.com", status=False),
    "B": crd("Strict", group="bugs.example.com", schema=_STRICT),
    "C": crd("Specless", group="bugs.example.com", schema=_SPECLESS),
}
"""A: no status subresource; B: a schema without ansibleResult; C: no spec."""
CONTENT: Mapping[str, Object | None] = {"A": None, "B": None, "C": {"size": 1}}
OURS_ON_IT = "bugs.example.com/f"


@pytest.mark.parametrize("crd_name", list(ODD_KINDS))
async def test_odd_kinds_run_once_and_go_when_asked(
    crd_name: str, kube: KubeClient, plane: ControlPlane, namespace: str, settings: Settings, tmp_path: Path
) -> None:
    """Kinds without subresource, with a strict schema or without spec run once a period and end (field case ST4)."""
    executor = ScriptedExecutor()
    async with objects_of(kube, ODD_KINDS[crd_name], namespace=namespace) as odd:
        watch = Watch(
            gvk=odd.resource.gvk,
            content=Content(),
            finalizer=Finalizer(name=OURS_ON_IT),
        )
        async with (
            history_of(odd, plane=plane, folder=tmp_path) as history,
            running_operator([watch], settings=settings, executor=executor),
        ):
            await odd.create("one", content=CONTENT[crd_name])
            await wait_until(lambda: _has(odd, "one", DONE), what="the success")
            await odd.create("barrier", content=CONTENT[crd_name])
            await wait_until(lambda: _has(odd, "barrier", DONE), what="the barrier's success")
            assert len(executor.runs_of("one")) == 1
            states = await states_until(history, await odd.get("one"))
            assert len(states) == 4  # created, held, running, done
            assert finalizers_of(states[1]) == (OURS_ON_IT,)
            await odd.delete("one")
            await wait_until(lambda: _gone(odd, "one"), what="the object to go")
    assert [request.finalizing for request in executor.runs_of("one")] == [False, True]
    variables = parameters_for(executor.requests[0]).variables
    spec: Object = {} if crd_name == "C" else {"size": 1}
    assert variables.get("size") == spec.get("size")
    assert variables[f"_bugs_example_com_{odd.resource.gvk.kind.lower()}_spec"] == (
        {} if crd_name == "C" else {"size": 1}
    )


@pytest.mark.parametrize("crd_name", list(ODD_KINDS))
async def test_periodic_runs_of_odd_kinds_write_two_states_each(
    crd_name: str, kube: KubeClient, plane: ControlPlane, namespace: str, settings: Settings, tmp_path: Path
) -> None:
    """Neither pruning nor a generation that counts status writes leads to further writes or runs (field case ST4)."""
    executor = ScriptedExecutor()
    async with objects_of(kube, ODD_KINDS[crd_name], namespace=namespace) as odd:
        periodic = Watch(gvk=odd.resource.gvk, content=Content(), reconcile_period=timedelta(milliseconds=50))
        async with history_of(odd, plane=plane, folder=tmp_path) as history:
            async with running_operator([periodic], settings=settings, executor=executor):
                await odd.create("one", content=CONTENT[crd_name])
                await wait_until(lambda: _ran(executor, "one", 5), what="five runs")
            states = await states_until(history, await odd.get("one"))
    assert len(states) == 1 + 2 * len(executor.requests)


async def test_a_generation_that_counts_status_writes_is_not_told(
    kube: KubeClient, namespace: str, settings: Settings
) -> None:
    """Without subresource there is no observedGeneration: it would be out of date at once, and kubectl would wait."""
    async with objects_of(kube, ODD_KINDS["A"], namespace=namespace) as plains:
        watch = Watch(gvk=plains.resource.gvk, content=Content())
        async with running_operator([watch], settings=settings, executor=ScriptedExecutor()):
            await plains.create("one")
            await wait_until(lambda: _has(plains, "one", DONE), what="the success")
        assert all("observedGeneration" not in entry for entry in conditions_of(await plains.get("one")))


async def test_back_off_grows_where_status_writes_count_as_generations(
    kube: KubeClient, namespace: str, settings: Settings, sink: RecordingSink
) -> None:
    """Without subresource failures back off, too: our own status write is no new generation (field case ST4)."""
    executor = ScriptedExecutor(outcomes=[failed("x")] * 4)
    async with objects_of(kube, ODD_KINDS["A"], namespace=namespace) as plains:
        watch = Watch(gvk=plains.resource.gvk, content=Content())
        async with running_operator([watch], settings=settings, executor=executor, sink=sink):
            await plains.create("one")
            await wait_until(lambda: _has(plains, "one", DONE), what="the success")
    delays = [record["requeueAfterSeconds"] for record in sink.records if "requeueAfterSeconds" in record]
    assert delays == sorted(delays)
    assert delays[3] > 4 * delays[0]


def _changes_of_conditions(states: list[Object]) -> list[Object]:
    """Return the states in which the conditions differ from those of the state before."""
    kept: list[Object] = []
    for obj in states:
        if conditions_of(obj) and (not kept or conditions_of(kept[-1]) != conditions_of(obj)):
            kept.append(obj)
    return kept


async def _write_in_a_tight_loop(probes: Probes, *, first: int, writes: int) -> None:
    """Add a key and count up a condition, as a foreign controller does: keys by patch, the condition by PUT."""
    for number in range(first, first + writes):
        await probes.patch("one", {"status": {"keys": {f"k{number}": number}}}, subresource="status")
        while True:
            obj = await probes.get("one")
            others = [entry for entry in conditions_of(obj) if entry["type"] != "Theirs"]
            theirs = {"type": "Theirs", "status": "True", "count": number}
            status = {**obj.get("status", {}), "conditions": [*others, theirs]}
            try:
                await probes.kube.replace(probes.resource, body={**obj, "status": status}, subresource="status")
            except Conflict:
                await asyncio.sleep(0)
                continue
            break


async def _condition_is(probes: Probes, type_: str, reason: str) -> bool:
    return any(c["type"] == type_ and c.get("reason") == reason for c in conditions_of(await probes.get("one")))


async def _has_url(probes: Probes, *urls: str) -> bool:
    return (await probes.get("one")).get("status", {}).get("url") in urls


async def _has(probes: Probes, name: str, expected: dict[str, str]) -> bool:
    found = conditions_of(await probes.get(name))
    done = {entry["type"]: entry["status"] for entry in found} == expected
    return done and any(entry["reason"] == "Successful" for entry in found if entry["type"] == "Running")


async def _ended(probes: Probes, generation: int) -> bool:
    """Tell whether the run of *generation* has ended, well or not."""
    entries = {entry["type"]: entry for entry in conditions_of(await probes.get("one"))}
    return entries.get("Successful", {}).get("observedGeneration") == generation


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()


async def _ran(executor: ScriptedExecutor, name: str, count: int) -> bool:
    return len(executor.runs_of(name)) >= count
