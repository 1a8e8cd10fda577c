"""Field cases F1, F2 and F3: what runs before an object may go, and what holds it until then."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.assembly.run_access import RunAccess
from runner.errors import Forbidden
from runner.execution.executor import Executor, Outcome, RunRequest
from runner.execution.parameters import parameters_for
from runner.kube.client import KubeClient
from runner.kube.objects import Object, conditions_of, finalizers_of, name_of, uid_of
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import KubeSettings, Settings
from runner.testing.cluster import CONFIG_MAPS, NAMESPACES, wait_until
from runner.testing.executor import ScriptedExecutor, failed, succeeded
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.harness import ExecutorFor, running_operator
from runner.testing.informers import Watched
from runner.watches.model import Finalizer, Watch
from tests.integration.cases.conftest import Playbook, states_until
from tests.integration.reconcile.conftest import Probes

OURS = "bugs.example.com/f"
AROUND = ["a.example.com/before", OURS, "z.example.com/after"]
"""Ours between those of others."""


@pytest.fixture
def held(watch: Watch) -> Watch:
    """Watch Probes with a finalizer whose runs know that they are its."""
    return replace(watch, finalizer=Finalizer(name=OURS, vars={"gone": True}))


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[HttpFaultProxy]:
    """Stand in front of the plane's API server."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def through(settings: Settings, proxy: HttpFaultProxy, tmp_path: Path) -> Settings:
    """Return settings with which the operator speaks to the API server through the proxy."""
    return replace(settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))


def gone_flags(executor: ScriptedExecutor) -> list[object]:
    """Return what each run would see as the variable `gone`, of which only finalizer runs get one."""
    return [parameters_for(request).variables.get("gone") for request in executor.requests]


@pytest.mark.parametrize("manage_status", [True, False])
@pytest.mark.parametrize("first", [succeeded(), failed("in the middle")], ids=["good", "bad"])
async def test_a_deletion_during_a_run_is_followed_by_one_finalizing_run(
    probes: Probes, held: Watch, settings: Settings, *, first: Outcome, manage_status: bool
) -> None:
    """However the run under way ends, one run with the finalizer's vars follows, and then ours goes (field case F1)."""
    on_it: list[bool] = []

    async def script(request: RunRequest) -> None:
        if name_of(request.obj) == "barrier":
            return
        if not request.finalizing:
            await probes.delete("one")
        on_it.append(OURS in finalizers_of(await probes.get("one")))

    executor = ScriptedExecutor(outcomes=[first], during=script)
    watching = replace(held, manage_status=manage_status)
    async with running_operator([watching], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
    assert gone_flags(executor) == [None, True, None]
    assert len(executor.runs_of("one")) == 2
    assert on_it == [True, True]
    assert executor.most_at_once_per_object == 1


async def test_a_deletion_between_the_read_and_the_start_of_a_run_makes_it_the_finalizers(
    probes: Probes, held: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """What the object is when the run starts decides: no ordinary run of an object in deletion (field case F1)."""
    executor = ScriptedExecutor()
    starting = proxy.rule(Rule(method="PUT", path=r"/probes/one/status$", hold=True, times=1))
    async with running_operator([held], settings=through, executor=executor):
        await probes.create("one")
        await starting.wait_hit()
        await probes.delete("one")
        starting.release()
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
    assert [request.finalizing for request in executor.runs_of("one")] == [True]


async def test_without_a_finalizer_a_deletion_during_a_run_ends_quietly(
    probes: Probes, watch: Watch, settings: Settings, sink: RecordingSink
) -> None:
    """An object that goes during its run leaves no error and no further run (field case F1)."""

    async def script(request: RunRequest) -> None:
        if name_of(request.obj) == "one":
            await probes.delete("one")

    executor = ScriptedExecutor(during=script)
    async with running_operator([watch], settings=settings, executor=executor, sink=sink):
        await probes.create("one")
        await wait_until(lambda: _gone(probes, "one"), what="the object to go")
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
    assert len(executor.runs_of("one")) == 1
    assert [record for record in sink.records if record["level"] == "error"] == []


async def test_a_recreated_object_has_a_status_of_its_own(
    probes: Probes, watch: Watch, settings: Settings, history: Watched
) -> None:
    """The new object of a name shows nothing of the old one's run: its conditions begin anew (field case F1)."""

    async def script(request: RunRequest) -> None:
        if len(executor.requests) == 1:
            await probes.delete("one")
            await probes.create("one", spec={"size": 9})

    executor = ScriptedExecutor(outcomes=[failed("of the old one")], during=script)
    async with running_operator([watch], settings=settings, executor=executor):
        await probes.create("one")
        await wait_until(lambda: _ran(executor, "one", 2), what="the new object's run")
        await wait_until(lambda: _successful(probes, "one"), what="the new object's success")
    new = await probes.get("one")
    states = [obj for obj in await states_until(history, new) if uid_of(obj) == uid_of(new)]
    statuses = [[(c["type"], c["status"]) for c in conditions_of(obj)] for obj in states]
    done = [("Running", "True"), ("Successful", "True"), ("Failure", "False")]
    assert statuses == [[], [("Running", "True")], done]
    created = new["metadata"]["creationTimestamp"]
    assert all(c["lastTransitionTime"] >= created for obj in states for c in conditions_of(obj))
    assert [request.obj["spec"]["size"] for request in executor.requests] == [1, 9]


BREAKS = {
    "a task fails": "[{hosts: localhost, gather_facts: false, tasks: [{ansible.builtin.fail: {msg: still attached}}]}]",
    "no recap": "[{hosts: localhost, gather_facts: false, tasks: [{nosuch.collection.module: {}}]}]",
    "unreachable": """
- hosts: localhost
  gather_facts: false
  tasks:
  - ansible.builtin.add_host: {name: deadhost, ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
- hosts: deadhost
  gather_facts: false
  tasks: [{ansible.builtin.ping: {}}]
""",
}
SAYS = {"a task fails": "still attached", "no recap": "nosuch.collection.module", "unreachable": "deadhost"}


@pytest.mark.parametrize(
    ("way", "manage_status"),
    [
        ("a task fails", True),
        pytest.param("a task fails", False, marks=pytest.mark.full),
        ("no recap", True),
        ("no recap", False),
        pytest.param("unreachable", True, marks=pytest.mark.full),
        ("unreachable", False),
    ],
)
async def test_no_way_to_fail_lets_the_object_go(
    probes: Probes,
    held: Watch,
    settings: Settings,
    plays: ExecutorFor,
    playbook: Playbook,
    *,
    way: str,
    manage_status: bool,
) -> None:
    """However the finalizer's run fails the object stays; after the repair ours alone is taken off (field case F2)."""
    if way == "unreachable" and shutil.which("ssh") is None:
        pytest.skip("needs an ssh client: apt-get install openssh-client")
    content = playbook("finalize.yml", "[]")
    assert content.playbook is not None
    content.playbook.write_text(BREAKS[way])
    watching = replace(held, finalizer=Finalizer(name=OURS, content=content), manage_status=manage_status)
    await probes.create("one", finalizers=AROUND)
    await probes.delete("one")
    outcomes: list[Outcome] = []

    def executor(access: RunAccess) -> Executor:
        return Outcomes(plays(access), outcomes=outcomes)

    patient = replace(settings, backoff=replace(settings.backoff, base=1.0, cap=1.0))
    async with running_operator([watching], settings=patient, executor=executor):
        await wait_until(lambda: _is(len(outcomes) == 1), what="the first finalizing run", limit=120)
        assert finalizers_of(await probes.get("one")) == tuple(AROUND)
        if manage_status:
            await wait_until(lambda: _failure_says(probes, SAYS[way]), what="the Failure")
        playbook("finalize.yml", "[]")
        await wait_until(lambda: _finalizers_are(probes, [AROUND[0], AROUND[2]]), what="ours to go", limit=120)
    assert not outcomes[0].success
    assert outcomes[-1].success
    assert ("status" in await probes.get("one")) is manage_status


class Outcomes:
    """An executor that keeps the outcomes of the one that it stands before."""

    def __init__(self, executor: Executor, *, outcomes: list[Outcome]) -> None:
        """Stand before *executor*, and keep them in *outcomes*."""
        self._executor = executor
        self._outcomes = outcomes

    async def run(self, request: RunRequest) -> Outcome:
        """Run, and keep the outcome."""
        outcome = await self._executor.run(request)
        self._outcomes.append(outcome)
        return outcome


async def test_a_conflict_at_the_end_costs_no_second_finalizing_run(
    probes: Probes, held: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """A finalizer that another adds between our read and write stays; ours goes by a second try (field case F2)."""
    await probes.create("one", finalizers=AROUND)
    await probes.delete("one")
    executor = ScriptedExecutor()
    removal = proxy.rule(Rule(method="PATCH", path=r"/probes/one$", hold=True, times=1))
    async with running_operator([held], settings=through, executor=executor):
        await removal.wait_hit()
        await probes.patch("one", {"metadata": {"labels": {"touched": "yes"}}})
        removal.release()
        await wait_until(lambda: _finalizers_are(probes, [AROUND[0], AROUND[2]]), what="ours to go")
    assert (await probes.get("one"))["metadata"]["labels"] == {"touched": "yes"}
    assert len(executor.requests) == 1


async def test_update_is_right_enough_for_finalizers(
    probes: Probes, held: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """Where `patch` is not granted, ours is put on and taken off by a PUT that meets conflicts just as well."""
    proxy.rule(Rule(method="PATCH", path=r"/probes/one$", status=403))
    held_put = proxy.rule(Rule(method="PUT", path=r"/probes/one$", hold=True, times=1))
    executor = ScriptedExecutor()
    async with running_operator([held], settings=through, executor=executor):
        await probes.create("one", finalizers=["a.example.com/before"])
        await held_put.wait_hit()
        await probes.patch("one", {"metadata": {"labels": {"touched": "yes"}}})
        held_put.release()
        await wait_until(lambda: _successful(probes, "one"), what="the first run")
        assert finalizers_of(await probes.get("one")) == ("a.example.com/before", OURS)
        await probes.delete("one")
        await wait_until(lambda: _finalizers_are(probes, ["a.example.com/before"]), what="ours to go")
    assert (await probes.get("one"))["metadata"]["labels"] == {"touched": "yes"}
    assert [request.finalizing for request in executor.requests] == [False, True]


async def test_a_deletion_of_the_namespace_finalizes_what_is_in_it(
    kube: KubeClient, probes: Probes, held: Watch, settings: Settings
) -> None:
    """In a namespace that is going nothing can be created, and the finalizers run all the same (field case F3 c)."""
    refused: list[Object] = []

    async def script(request: RunRequest) -> None:
        if request.finalizing:
            body: Object = {"metadata": {"generateName": "note-"}}
            with pytest.raises(Forbidden):
                await kube.create(CONFIG_MAPS, namespace=probes.namespace, body=body)
            refused.append(request.obj)

    executor = ScriptedExecutor(during=script)
    async with running_operator([held], settings=settings, executor=executor):
        for name in ("one", "two", "three"):
            await probes.create(name)
        for name in ("one", "two", "three"):
            await wait_until(lambda: _successful(probes, name), what=f"the run of {name}")  # noqa: B023 - awaited within its turn
        await kube.delete(NAMESPACES, name=probes.namespace)
        await wait_until(lambda: _none_left(probes), what="the objects to go")
    assert sorted(obj["metadata"]["name"] for obj in refused) == ["one", "three", "two"]


async def test_a_deletion_before_the_finalizer_was_added_starts_nothing(
    probes: Probes, held: Watch, through: Settings, proxy: HttpFaultProxy
) -> None:
    """An object deleted between our read and our finalizer gets neither it nor a run (field case F3 b)."""
    adding = proxy.rule(Rule(method="PATCH", path=r"/probes/one$", hold=True, times=1))
    executor = ScriptedExecutor()
    async with running_operator([held], settings=through, executor=executor):
        await probes.create("one", finalizers=["z.example.com/after"])
        await adding.wait_hit()
        await probes.delete("one")
        adding.release()
        await probes.create("barrier")
        await wait_until(lambda: _ran(executor, "barrier", 1), what="the barrier's run")
    assert executor.runs_of("one") == []
    assert finalizers_of(await probes.get("one")) == ("z.example.com/after",)


async def _is(condition: bool) -> bool:  # noqa: FBT001 - an awaitable made of a condition
    return condition


async def _gone(probes: Probes, name: str) -> bool:
    return name not in await probes.names()


async def _none_left(probes: Probes) -> bool:
    return not await probes.names()


async def _ran(executor: ScriptedExecutor, name: str, count: int) -> bool:
    return len(executor.runs_of(name)) >= count


async def _successful(probes: Probes, name: str) -> bool:
    return (await probes.conditions(name)).get("Successful") == "True"


async def _failure_says(probes: Probes, text: str) -> bool:
    return any(c["type"] == "Failure" and text in c["message"] for c in conditions_of(await probes.get("one")))


async def _finalizers_are(probes: Probes, expected: list[str]) -> bool:
    return finalizers_of(await probes.get("one")) == tuple(expected)
