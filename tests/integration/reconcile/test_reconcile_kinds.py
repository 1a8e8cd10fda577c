"""CRDs that are narrow or change while the operator runs, and objects deleted early: no status is left wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runner.errors import KubeError
from runner.execution.executor import RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.objects import GVK, Object
from runner.localdev.plane import ControlPlane
from runner.logs import RecordingSink
from runner.settings import BackoffSettings, KubeSettings, Settings
from runner.testing.cluster import CRDS, crd, install_crd, remove_crd, wait_until
from runner.testing.executor import ScriptedExecutor, failed, succeeded
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.harness import running_operator
from runner.watches.model import Content, Watch
from runner.workqueue.request import Request
from tests.integration.reconcile.conftest import Probes

GROUP = "kinds.example.com"
FOREIGN = "kinds.example.com/theirs"
_OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A kind of the test's own, whose CRD it may change."""

    kube: KubeClient
    namespace: str
    kind: str

    @property
    def watch(self) -> Watch:
        """Watch the kind."""
        return Watch(gvk=GVK(GROUP, "v1", self.kind), content=Content())

    async def install(self, **arguments: Any) -> Probes:
        """Install the CRD."""
        resource = await install_crd(self.kube, crd(self.kind, group=GROUP, **arguments))
        return Probes(kube=self.kube, resource=resource, namespace=self.namespace)

    async def change(self, version: Object) -> None:
        """Change the CRD's only version, and wait until discovery tells so."""
        name = f"{self.kind.lower()}s.{GROUP}"
        body = await self.kube.get(CRDS, name=name)
        (entry,) = body["spec"]["versions"]
        entry.update(version)
        await self.kube.replace(CRDS, body=body)
        wanted = ("status" in entry.get("subresources", {})) if entry["served"] else None
        await wait_until(lambda: self._tells(wanted), what="discovery to tell the change")

    async def _tells(self, wanted: bool | None) -> bool:  # noqa: FBT001 - what discovery should tell
        try:
            resource = await Discovery(client=self.kube).resource(self.watch.gvk)
        except KubeError:
            return wanted is None
        return wanted is ("status" in resource.subresources)


@pytest.fixture
async def lab(kube: KubeClient, namespace: str) -> AsyncIterator[Lab]:
    """Give a kind that goes with the test."""
    lab = Lab(kube=kube, namespace=namespace, kind=f"K{namespace.replace('-', '')}")
    yield lab
    await remove_crd(kube, f"{lab.kind.lower()}s.{GROUP}")


@pytest.fixture
def patient(settings: Settings) -> Settings:
    """Return settings with which no failure is tried again within a test."""
    return replace(settings, backoff=BackoffSettings(base=3600, cap=3600))


@pytest.mark.parametrize(
    ("room", "after_success", "after_failure"),
    [
        (2, {"Running": "True", "Successful": "True"}, {"Running": "False", "Failure": "True"}),
        (1, {"Running": "True"}, {"Running": "False"}),
    ],
)
async def test_a_schema_with_room_for_few_conditions_gets_the_outcome(
    lab: Lab, patient: Settings, *, room: int, after_success: dict[str, str], after_failure: dict[str, str]
) -> None:
    """No object is left at a run that is over: Running and the outcome's are written, or Running alone."""
    conditions = {"type": "array", "maxItems": room, "items": _OPEN}
    status = {"type": "object", "properties": {"conditions": conditions}}
    probes = await lab.install(schema={"type": "object", "properties": {"spec": _OPEN, "status": status}})
    executor, sink = ScriptedExecutor(outcomes=[succeeded(), failed("no luck")]), RecordingSink()
    async with running_operator([lab.watch], settings=patient, executor=executor, sink=sink):
        await probes.create("one")
        await wait_until(lambda: _is(_decided(sink) == 1), what="the first run")
        assert await probes.conditions("one") == after_success
        await probes.patch("one", {"spec": {"size": 2}})
        await wait_until(lambda: _is(_decided(sink) == 2), what="the second run")
        assert await probes.conditions("one") == after_failure
        await probes.patch("one", {"spec": {"size": 3}})
        await wait_until(lambda: _is(_decided(sink) == 3), what="the third run")
        assert await probes.conditions("one") == after_success
    assert "The CRD's schema refuses the conditions, so they say less; widen it" in sink.sentences()


async def test_an_object_that_is_deleted_before_its_run_is_never_at_running(
    lab: Lab, settings: Settings, plane: ControlPlane, tmp_path: Path
) -> None:
    """Where a deletion came between read and write, and another's finalizer holds the object, nothing is written."""
    probes = await lab.install()
    executor, sink = ScriptedExecutor(), RecordingSink()
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        through = replace(settings, kube=KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig"))))
        held = proxy.rule(Rule(method="PUT", path="/one/status$", hold=True, times=1))
        async with running_operator([lab.watch], settings=through, executor=executor, sink=sink):
            await probes.create("one", finalizers=[FOREIGN])
            await held.wait_hit()
            await probes.delete("one")
            held.release()
            said = "Resource is terminated, skipping reconciliation"
            await wait_until(lambda: _is(said in sink.sentences()), what="the decision")
    left = await probes.get("one")
    await probes.patch("one", {"metadata": {"finalizers": None}})
    assert "status" not in left
    assert executor.requests == []


@pytest.mark.parametrize("gained", [True, False])
@pytest.mark.parametrize("during", [True, False], ids=["within a run", "between runs"])
async def test_a_status_subresource_that_comes_or_goes_loses_no_status(
    lab: Lab, patient: Settings, *, gained: bool, during: bool
) -> None:
    """The status is written to where the kind has it now, no run is repeated for it, and no schema is blamed."""
    probes = await lab.install(status=not gained)
    change: Object = {"subresources": {"status": {}} if gained else {}}

    async def script(request: RunRequest) -> None:
        if during and request.obj["spec"]["size"] == 2:
            await lab.change(change)

    executor, sink = ScriptedExecutor(outcomes=[succeeded(), failed("no luck")], during=script), RecordingSink()
    async with running_operator([lab.watch], settings=patient, executor=executor, sink=sink):
        await probes.create("one")
        await wait_until(lambda: _is(_decided(sink) == 1), what="the first run")
        assert (await probes.conditions("one"))["Successful"] == "True"
        if not during:
            await lab.change(change)
        await probes.patch("one", {"spec": {"size": 2}})
        expected = {"Running": "False", "Successful": "False", "Failure": "True"}
        await wait_until(lambda: _has(probes, expected), what="the failure to be told")
        assert len(executor.requests) == 2
    assert not [record for record in sink.records if "schema" in record["msg"]]


@pytest.mark.parametrize("moment", [True, False], ids=["for a moment", "until it is believed"])
async def test_a_kind_that_is_not_served_during_a_run_loses_neither_status_nor_period(
    lab: Lab, settings: Settings, *, moment: bool
) -> None:
    """When the kind is back the object says how its run ended, and its next turn comes."""
    probes = await lab.install()
    sink = RecordingSink()

    async def script(_: RunRequest) -> None:
        if len(executor.requests) == 1:
            await lab.change({"served": False})

    executor = ScriptedExecutor(during=script)
    periodic = replace(lab.watch, reconcile_period=timedelta(seconds=1))
    async with running_operator([periodic], settings=settings, executor=executor, sink=sink) as operator:
        await probes.create("one")
        await wait_until(lambda: _is(_decided(sink) >= 1), what="the end of the run")
        if not moment:
            seen = operator._controllers[0].reconciler._parts.seen
            request = Request(lab.watch.gvk, lab.namespace, "one")
            await wait_until(lambda: _is(seen(request) is None), what="the source to believe it")
        await lab.change({"served": True})
        ended = {"Running": "True", "Successful": "True", "Failure": "False"}
        await wait_until(lambda: _has(probes, ended), what="the status")
        runs = len(executor.requests)
        await wait_until(lambda: _is(len(executor.requests) > runs), what="the next turn")


def _decided(sink: RecordingSink) -> int:
    return sum(record["msg"] == "Reconciled" for record in sink.records)


async def _is(condition: bool) -> bool:  # noqa: FBT001 - an awaitable made of a condition
    return condition


async def _has(probes: Probes, expected: dict[str, str]) -> bool:
    return await probes.conditions("one") == expected
