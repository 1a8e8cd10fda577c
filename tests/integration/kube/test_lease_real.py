"""Leader election on the real API server, with short leases."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.clock import SystemClock
from runner.errors import LeaderElectionLost
from runner.kube.client import KubeClient
from runner.kube.events import EVENTS, EventRecorder
from runner.kube.lease import Candidate, Elector, Hooks
from runner.kube.lease_record import LEASES, holder_of, spec_of
from runner.kube.objects import Object
from runner.localdev.plane import ControlPlane
from runner.logs import Logger, RecordingSink
from runner.settings import KubeSettings, LeaderElectionSettings
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.identities import new_identity
from runner.testing.leases import LeaseContract, LeaseSite
from runner.testing.waiting import eventually

LEASE_SECONDS = 2.0


@dataclass(kw_only=True)
class Instance:
    """One instance of an operator, as far as the election goes."""

    elector: Elector
    sink: RecordingSink
    changes: list[tuple[float, bool]] = field(default_factory=list)
    """When it led, and when no more."""
    task: asyncio.Task[None] | None = None

    def start(self, *, renews: bool = True) -> None:
        """Compete; without *renews* it stalls as soon as it leads."""
        self.task = asyncio.create_task(self._lead(renews=renews))

    async def _lead(self, *, renews: bool) -> None:
        await self.elector.acquire()
        await (self.elector.hold() if renews else asyncio.Event().wait())

    async def stop(self) -> None:
        """Stop and release."""
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, LeaderElectionLost):
                await self.task
        await self.elector.release()

    def lines(self, *, level: str) -> list[str]:
        """Return the sentences of *level* in its log."""
        return [str(record["msg"]) for record in self.sink.records if record["level"] == level]


@dataclass(kw_only=True)
class Field:
    """A namespace in which instances compete."""

    namespace: str
    kube: KubeClient
    instances: list[Instance] = field(default_factory=list)

    def add(self, name: str, *, client: KubeClient | None = None) -> Instance:
        """Add an instance, by default with an administrator's rights."""
        sink, client = RecordingSink(), client or self.kube
        logger = Logger(sink=sink)
        recorder = EventRecorder(client=client, logger=logger, component=name)
        changes: list[tuple[float, bool]] = []

        async def announce(lease: Object, message: str) -> None:
            await recorder.record(lease, reason="LeaderElection", message=message)

        settings = LeaderElectionSettings(
            enabled=True,
            id="lock",
            namespace=self.namespace,
            lease_duration=LEASE_SECONDS,
            renew_deadline=1.5,
            retry_period=0.1,
        )
        elector = Elector(
            client=client,
            candidate=Candidate(identity=name, settings=settings),
            clock=SystemClock(),
            random=random.SystemRandom().random,
            logger=logger,
            hooks=Hooks(on_change=lambda leading: changes.append((time.monotonic(), leading)), announce=announce),
        )
        instance = Instance(elector=elector, sink=sink, changes=changes)
        self.instances.append(instance)
        return instance

    async def lease(self) -> Object:
        """Read the Lease."""
        return await self.kube.get(LEASES, namespace=self.namespace, name="lock")


@pytest.fixture
async def arena(kube: KubeClient, namespace: str) -> AsyncIterator[Field]:
    """Give a namespace to compete in; all instances are stopped."""
    made = Field(namespace=namespace, kube=kube)
    yield made
    for instance in made.instances:
        await instance.stop()


class TestRealLeases(LeaseContract):
    """The API server keeps the contract that the Leases in memory keep."""

    @pytest.fixture
    def site(self, kube: KubeClient, namespace: str) -> LeaseSite:
        """Give the API server's Leases."""

        async def remove(name: str) -> None:
            await kube.delete(LEASES, namespace=namespace, name=name)

        return LeaseSite(client=kube, namespace=namespace, remove=remove)


async def test_a_clean_stop_hands_over(arena: Field) -> None:
    """After a release the next instance leads without waiting for the lease to run out, and terms never overlap."""
    first, second = arena.add("first"), arena.add("second")
    first.start()
    await eventually(lambda: first.elector.leading)
    second.start()
    await eventually(lambda: "Another instance leads; this one waits" in second.sink.sentences())
    await first.stop()
    released = spec_of(await arena.lease())
    await eventually(lambda: second.elector.leading)
    assert not released.get("holderIdentity") or released["holderIdentity"] == "second"
    assert [leading for _, leading in first.changes] == [False, True, False]
    assert first.changes[2][0] <= second.changes[1][0]
    lease = spec_of(await arena.lease())
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("second", 1)


async def test_a_stalled_leader_is_followed_after_its_lease(arena: Field) -> None:
    """A leader that does not renew keeps others off for the lease's duration, and may not write after it."""
    first, second = arena.add("first"), arena.add("second")
    first.start(renews=False)
    await eventually(lambda: first.elector.leading)
    until = first.elector.valid_until
    second.start()
    await eventually(lambda: second.elector.leading)
    assert second.changes[1][0] >= until
    assert first.elector.fenced


async def test_many_instances_have_one_leader(arena: Field) -> None:
    """Of five instances one leads at a time, through four hand-overs."""
    instances = [arena.add(f"i{number}") for number in range(5)]
    for instance in instances:
        instance.start()
    for turn in range(5):
        await eventually(lambda: any(instance.elector.leading for instance in instances))
        leading = [instance for instance in instances if instance.elector.leading]
        assert len(leading) == 1
        assert spec_of(await arena.lease())["leaseTransitions"] == turn
        await leading[0].stop()
        instances.remove(leading[0])


async def test_a_stolen_lease_is_lost(arena: Field) -> None:
    """A leader that reads another holder in the Lease stops, and leaves the Lease alone."""
    leader = arena.add("leader")
    leader.start()
    await eventually(lambda: leader.elector.leading)
    assert leader.task is not None
    await _steal(arena)
    with pytest.raises(LeaderElectionLost, match="leader election lost"):
        await leader.task
    await leader.stop()
    assert holder_of(await arena.lease()) == "thief"


async def test_refusals_shorter_than_the_deadline_are_survived(
    arena: Field, plane: ControlPlane, tmp_path: Path
) -> None:
    """A leader whose renewals fail a few times goes on, in the same term."""
    async with HttpFaultProxy(upstream_kubeconfig=plane.kubeconfig) as proxy:
        settings = KubeSettings(kubeconfig=str(proxy.kubeconfig(tmp_path / "proxy")))
        async with KubeClient(settings=settings) as client:
            leader = arena.add("leader", client=client)
            leader.start()
            await eventually(lambda: leader.elector.leading)
            rule = proxy.rule(Rule(path="/leases/lock", status=503, times=3))
            await eventually(lambda: rule.hits == 3)
            until = leader.elector.valid_until
            await eventually(lambda: leader.elector.valid_until > until or not leader.elector.leading)
            assert leader.elector.leading
            assert spec_of(await arena.lease())["leaseTransitions"] == 0
            await leader.stop()


async def test_no_more_rights_than_the_peers_are_needed(arena: Field, plane: ControlPlane, tmp_path: Path) -> None:
    """With get, create and update on Leases an instance leads and releases; missing Events cost one log line."""
    account = await new_identity(arena.kube, namespace=arena.namespace)
    await account.grant(LEASES, verbs=("get", "create", "update"))
    kubeconfig = await account.kubeconfig(tmp_path / "account", source=plane.kubeconfig)
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        instance = arena.add("narrow", client=client)
        instance.start()
        await eventually(lambda: instance.elector.leading)
        await instance.stop()
    assert not holder_of(await arena.lease())
    about_events = [record for record in instance.sink.records if record["logger"] == "events"]
    assert [record["level"] for record in about_events] == ["info"]
    assert instance.lines(level="error") == []


async def test_a_missing_right_is_named_and_waited_for(arena: Field, plane: ControlPlane, tmp_path: Path) -> None:
    """Without rights on Leases the log names them once, and the instance leads when they are granted."""
    account = await new_identity(arena.kube, namespace=arena.namespace)
    kubeconfig = await account.kubeconfig(tmp_path / "account", source=plane.kubeconfig)
    async with KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig))) as client:
        instance = arena.add("poor", client=client)
        instance.start()
        await eventually(lambda: len(instance.lines(level="error")) == 1)
        assert "grant get, create and update on leases.coordination.k8s.io" in instance.lines(level="error")[0]
        await account.grant(LEASES, verbs=("get", "create", "update"))
        await eventually(lambda: instance.elector.leading)
        await instance.stop()


async def test_events_tell_of_leaders(arena: Field) -> None:
    """`became leader` and `stopped leading` are core Events about the Lease, with the identity as their source."""
    instance = arena.add("host_1")
    instance.start()
    await eventually(lambda: instance.elector.leading)
    await instance.stop()
    events = await arena.kube.list(EVENTS, namespace=arena.namespace)
    assert sorted(event["message"] for event in events) == ["host_1 became leader", "host_1 stopped leading"]
    for event in events:
        about = event["involvedObject"]
        assert (about["apiVersion"], about["kind"], about["name"]) == ("coordination.k8s.io/v1", "Lease", "lock")
        assert (event["reason"], event["type"]) == ("LeaderElection", "Normal")
        assert event["source"] == {"component": "host_1"}


async def _steal(arena: Field) -> None:
    """Write another holder into the Lease, as somebody who doesn't keep to the rules."""
    body = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
    await arena.kube.patch(LEASES, namespace=arena.namespace, name="lock", body=body)
