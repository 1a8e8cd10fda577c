"""Instances that compete for a Lease in memory, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from runner.errors import Call, ConnectionFailed, LeaderElectionLost
from runner.kube.lease import Candidate, Elector, Hooks
from runner.kube.objects import Object
from runner.logs import Logger, RecordingSink
from runner.settings import LeaderElectionSettings
from runner.testing.clock import FakeClock
from runner.testing.leases import FakeLeaseClient, FakeLeases

CALL = Call(verb="get", resource="leases.coordination.k8s.io", namespace="ops", name="lock")
DOWN = ConnectionFailed("connection refused", call=CALL)
SETTINGS = LeaderElectionSettings(enabled=True, id="lock", namespace="ops")


class StoppableClock(FakeClock):
    """A clock that also goes on while the process stands still: nobody is woken on the way."""

    _skipped = 0.0

    def monotonic(self) -> float:
        """Return the seconds that were advanced or skipped."""
        return super().monotonic() + self._skipped

    def skip(self, seconds: float) -> None:
        """Let time pass unseen."""
        self._skipped += seconds


@dataclass(kw_only=True)
class Seat:
    """One instance of the operator, as far as the election goes."""

    elector: Elector
    client: FakeLeaseClient
    sink: RecordingSink = field(default_factory=RecordingSink)
    changes: list[bool] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def lead(self) -> None:
        """Try to lead, and hold on."""
        self.task = asyncio.create_task(self._lead())

    async def _lead(self) -> None:
        await self.elector.acquire()
        await self.elector.hold()

    def leads(self) -> bool:
        """Return whether it leads."""
        return self.elector.leading

    def fenced(self) -> bool:
        """Return whether it led and may not write any more."""
        return self.elector.fenced

    def lost(self) -> bool:
        """Return whether `hold` raised."""
        if self.task is None or not self.task.done() or self.task.cancelled():
            return False
        return isinstance(self.task.exception(), LeaderElectionLost)

    async def stop(self) -> None:
        """Stop, and release what is held."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.elector.release()


@dataclass(kw_only=True)
class Cluster:
    """Leases, a clock, and those who want to lead."""

    leases: FakeLeases = field(default_factory=FakeLeases)
    clock: StoppableClock = field(default_factory=StoppableClock)
    seats: list[Seat] = field(default_factory=list)

    def seat(self, name: str = "a", *, jitter: float = 0.0, settings: LeaderElectionSettings = SETTINGS) -> Seat:
        """Add an instance."""
        client, sink, changes, said = self.leases.connection(), RecordingSink(), list[bool](), list[str]()

        async def announce(_lease: Object, message: str) -> None:
            said.append(message)

        elector = Elector(
            client=client,
            candidate=Candidate(identity=name, settings=settings),
            clock=self.clock,
            random=lambda: jitter,
            logger=Logger(sink=sink),
            hooks=Hooks(on_change=changes.append, announce=announce),
        )
        self.seats.append(Seat(elector=elector, client=client, sink=sink, changes=changes, said=said))
        return self.seats[-1]

    async def leader(self, name: str = "a") -> Seat:
        """Add an instance that leads."""
        seat = self.seat(name)
        seat.lead()
        await self.clock.settle()
        assert seat.leads()
        return seat

    @property
    def spec(self) -> Object:
        """Return the Lease's spec."""
        spec: Object = self.leases.stored["ops", "lock"]["spec"]
        return spec

    def put(self, **spec: object) -> None:
        """Write the Lease as somebody else."""
        stored = self.leases.stored.get(("ops", "lock"), {"metadata": {"name": "lock", "namespace": "ops"}})
        self.leases.put({**stored, "spec": spec})
