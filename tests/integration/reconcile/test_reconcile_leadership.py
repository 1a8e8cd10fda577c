"""What a worker may still do in the moment between the loss of the lease and its own end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from runner.assembly.leadership import LeaseLeadership
from runner.clock import SystemClock
from runner.errors import LeaderElectionLost
from runner.execution.executor import Outcome, RunRequest
from runner.kube.client import KubeClient
from runner.kube.discovery import Discovery
from runner.kube.fence import FencedClient
from runner.kube.lease import Candidate, Elector
from runner.kube.lease_record import LEASES
from runner.kube.objects import resource_version_of
from runner.logs import Logger, RecordingSink
from runner.settings import LeaderElectionSettings, Settings
from runner.testing.harness import running_operator
from runner.testing.waiting import eventually
from runner.watches.model import Watch
from tests.integration.reconcile.conftest import Probes


class Gated:
    """An executor whose run ends, with success, when the test says so."""

    def __init__(self) -> None:
        """Start with the gate shut."""
        self.started = asyncio.Event()
        self.gate = asyncio.Event()

    async def run(self, request: RunRequest) -> Outcome:
        """Wait for the gate."""
        self.started.set()
        now = SystemClock().now()
        await self.gate.wait()
        return Outcome(success=True, started=now, finished=now)


class SlowToTell(LeaseLeadership):
    """A leadership whose loss reaches the workers late: first their run ends, and they try to say so."""

    executor: Gated
    sink: RecordingSink
    told: asyncio.Event

    async def hold(self) -> None:
        """Hold the lease; on loss let the run end, and raise when its worker was refused."""
        try:
            await super().hold()
        except LeaderElectionLost:
            self.executor.gate.set()
            await eventually(lambda: "leader election lost" in [str(r.get("error")) for r in self.sink.records])
            self.told.set()
            raise


async def test_a_run_that_ends_after_the_loss_writes_no_status(
    probes: Probes, watch: Watch, settings: Settings, kube: KubeClient
) -> None:
    """A worker that is not cancelled yet cannot write the outcome of its run once the lease is another's."""
    executor, sink = Gated(), RecordingSink()
    election = LeaderElectionSettings(enabled=True, id="lock", namespace=probes.namespace, retry_period=0.1)
    elector = Elector(
        client=kube,
        candidate=Candidate(identity="leader", settings=election),
        clock=SystemClock(),
        random=lambda: 0.0,
        logger=Logger(sink=RecordingSink()),
    )
    leadership = SlowToTell(elector=elector, end_now=lambda: None, logger=Logger(sink=RecordingSink()), exit_limit=3600)
    leadership.executor, leadership.sink, leadership.told = executor, sink, asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        client = FencedClient(settings=settings.kube, fenced=leadership.fenced)
        stack.push_async_callback(client.close)
        operator = running_operator(
            [watch],
            settings=settings,
            executor=executor,
            sink=sink,
            leadership=leadership,
            adjust=lambda shared: replace(shared, client=client, discovery=Discovery(client=client)),
        )
        with pytest.RaisesGroup(LeaderElectionLost):
            async with operator:
                await probes.create("one")
                await executor.started.wait()
                before = await probes.get("one")
                body = {"spec": {"holderIdentity": "thief"}}
                await kube.patch(LEASES, namespace=probes.namespace, name="lock", body=body)
                await eventually(leadership.told.is_set)
    assert resource_version_of(await probes.get("one")) == resource_version_of(before)
    assert (await probes.conditions("one"))["Running"] == "True"
