"""Leader election: one instance of many holds a Lease, and only that one works.

The rules are client-go's. Another holder's time counts from when this process saw the Lease change, by this process's
clock: the times in the Lease are for people. Every write carries the resourceVersion that was read, so of two writers
one gets a Conflict. Where client-go goes on until its deadline although it has read another holder, this one stops.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from runner.clock import Clock, within
from runner.errors import (
    AlreadyExists,
    Call,
    Conflict,
    ConnectionFailed,
    Forbidden,
    KubeError,
    LeaderElectionLost,
    NotFound,
    OperatorError,
)
from runner.kube.discovery import Resource
from runner.kube.lease_record import LEASES, duration_of, freed, held, holder_of, new_lease, spec_of
from runner.kube.objects import Object
from runner.logs import Logger
from runner.settings import LeaderElectionSettings

_FIRST_LOOK, _JITTER = 0.5, 0.3
"""A candidate waits half a retry period, and up to so much of one more: thus it leads within two seconds after another
one gave the Lease back. With client-go's 1 and 1.2 that takes up to 4.4 s; a look is one read of one object."""
_SHORTEST_TRY = 0.5
_SHORTEST_PAUSE = 0.1

_T = TypeVar("_T")


class LeaseClient(Protocol):
    """The verbs of `KubeClient` that an election needs: a Role with get, create and update on Leases is enough."""

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Read a Lease; raise `NotFound`."""
        ...

    async def create(self, resource: Resource, *, body: Object, namespace: str = "") -> Object:
        """Create a Lease; raise `AlreadyExists`."""
        ...

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """PUT a Lease; raise `Conflict` where its resourceVersion is not the newest."""
        ...


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Who wants to lead, and by which Lease (`settings` with id and namespace filled in)."""

    identity: str
    settings: LeaderElectionSettings


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Who is told."""

    on_change: Callable[[bool], None] = lambda _leading: None
    """Gets whether this process leads, at the start and on each change: for the metric."""
    announce: Callable[[Object, str], Awaitable[None]] | None = None
    """Gets the Lease and `<identity> became leader` or `... stopped leading`: for the Event; never raises ours."""


class Elector:
    """Takes the Lease, holds it, gives it back: `acquire`, `hold`, `release`, in this order, once."""

    def __init__(
        self,
        *,
        client: LeaseClient,
        candidate: Candidate,
        clock: Clock,
        random: Callable[[], float],
        logger: Logger,
        hooks: Hooks | None = None,
    ) -> None:
        """Compete as *candidate*; *random* gives the jitter, 0 to 1."""
        settings = candidate.settings
        self._client = client
        self._settings = settings
        self._identity = candidate.identity
        self._clock = clock
        self._random = random
        self._hooks = hooks or Hooks()
        lock = f"{settings.namespace}/{settings.id}"
        self._log = logger.named("leader-election").bind(lock=lock, identity=candidate.identity)
        self._lease: Object | None = None
        """As read or written last."""
        self._observed_at = 0.0
        """When this process saw it change."""
        self._renewed_at = -math.inf
        """When the last write that went well was sent."""
        self._leading = False
        self._led = False
        self._ended = False
        self._wrote = False
        """Whether a write was ever sent: its answer may be lost, and the Lease be ours without our knowing."""
        self._told = ""
        self._trouble = ""
        self._announcements: set[asyncio.Task[None]] = set()

    @property
    def leading(self) -> bool:
        """Return whether this process holds the Lease, as far as it knows."""
        return self._leading

    @property
    def valid_until(self) -> float:
        """Return until when, by the clock's monotonic time, nobody else can lead; minus infinity for a standby."""
        return self._renewed_at + self._settings.lease_duration if self._leading else -math.inf

    @property
    def fenced(self) -> bool:
        """Return whether this process led and may not write any more, be it that it only stood still for too long."""
        return self._led and self._clock.monotonic() >= self.valid_until

    @property
    def another_leads(self) -> bool:
        """Return whether the Lease was seen with another holder, and its time is not over yet."""
        if self._leading or self._lease is None or holder_of(self._lease) in {"", self._identity}:
            return False
        return self._clock.monotonic() < self._observed_at + duration_of(self._lease)

    @property
    def trouble(self) -> str:
        """Return what kept the last try from knowing who leads, empty where nothing did."""
        return self._trouble

    async def acquire(self) -> None:
        """Return as soon as this process leads; trouble is logged and tried again."""
        self._hooks.on_change(self._leading)
        self._log.info("Attempting to acquire leader lease...")
        while not await self._try(limit=self._settings.renew_deadline / 2):
            await self._clock.sleep(self._settings.retry_period * (_FIRST_LOOK + _JITTER * self._random()))

    async def hold(self) -> None:
        """Renew until cancelled.

        Raises:
            LeaderElectionLost: another instance holds the Lease, or it could not be renewed in time.
        """
        while True:
            await self._clock.sleep(self._settings.retry_period)
            await self._renew()

    async def release(self) -> None:
        """Let others lead at once, if this process holds the Lease; to be called when nothing works any more.

        It never raises an error of ours, and does nothing the second time.
        """
        self._step_down()
        if self._wrote:
            self._wrote = False
            try:
                await self._within(self._settings.renew_deadline / 2, self._give_back())
            except OperatorError as error:
                self._log.info("The lease is not released and runs out by itself", error=str(error))
        if self._led and not self._ended:
            self._ended = True
            self._announce("stopped leading")
        await asyncio.gather(*self._announcements)

    async def _renew(self) -> None:
        """Renew once, with tries that come closer together towards the end.

        Half of what the lease outlives the deadline by is kept, to end what works here before others may begin.
        """
        settings, start = self._settings, self._clock.monotonic()
        latest = self._renewed_at + (settings.lease_duration + settings.renew_deadline) / 2
        end = min(start + settings.renew_deadline, latest)
        if end <= start:
            end = self.valid_until  # this process stood still: one try, if nobody can have taken over
        while (left := end - self._clock.monotonic()) > 0:
            if await self._try(limit=min(left, max(left / 2, _SHORTEST_TRY))):
                return
            left = end - self._clock.monotonic()
            await self._clock.sleep(min(settings.retry_period, max(left / 2, _SHORTEST_PAUSE)))
        raise self._lost("The lease could not be renewed in time")

    async def _try(self, *, limit: float) -> bool:
        """Take or renew the Lease; False where it is another's, or no success within *limit* seconds."""
        try:
            return await self._within(limit, self._take())
        except Conflict:
            return False  # somebody was faster; the next try sees who
        except KubeError as error:
            self._trouble = _trouble(error)
            self._tell(self._trouble, error=str(error))
            return False

    async def _take(self) -> bool:
        sent = self._clock.monotonic()
        if self._leading and self._lease is not None:
            try:
                return self._won(await self._write(self._lease), sent=sent)
            except (Conflict, NotFound):
                sent = self._clock.monotonic()  # changed, perhaps by an own write whose answer was lost: look
        found = await self._read()
        if found is None:
            try:
                return self._won(await self._create(), sent=sent)
            except AlreadyExists:  # somebody was faster, and leads
                found = await self._get()
        self._observe(found)
        if self._is_anothers(found):
            return False
        return self._won(await self._write(found), sent=sent)

    async def _get(self) -> Object:
        return await self._client.get(LEASES, namespace=self._settings.namespace, name=self._settings.id)

    async def _read(self) -> Object | None:
        try:
            return await self._get()
        except NotFound:
            return None

    async def _create(self) -> Object:
        self._wrote = True
        body = self._ours(new_lease(self._settings))
        return await self._client.create(LEASES, namespace=self._settings.namespace, body=body)

    async def _write(self, lease: Object) -> Object:
        self._wrote = True
        return await self._client.replace(LEASES, body=self._ours(lease))

    def _ours(self, lease: Object) -> Object:
        now = self._clock.now()
        return held(lease, identity=self._identity, duration=self._settings.lease_duration, now=now)

    def _observe(self, lease: Object) -> None:
        """Note what was read; a Lease that only got a label has not been renewed."""
        if self._lease is None or spec_of(lease) != spec_of(self._lease):
            self._observed_at = self._clock.monotonic()
        self._lease = lease

    def _is_anothers(self, lease: Object) -> bool:
        """Tell whether another process may lead; raise `LeaderElectionLost` where this one did."""
        holder = holder_of(lease)
        if holder in {"", self._identity}:
            return False
        if self._leading:
            raise self._lost("Another instance holds the lease", holder=holder)
        if not self.another_leads:
            return False
        self._trouble = ""
        self._tell("Another instance leads; this one waits", holder=holder)
        return True

    def _won(self, lease: Object, *, sent: float) -> bool:
        self._lease, self._renewed_at, self._observed_at = lease, sent, self._clock.monotonic()
        self._told = self._trouble = ""
        if not self._leading:
            self._leading = self._led = True
            self._log.info("Successfully acquired lease")
            self._hooks.on_change(self._leading)
            self._announce("became leader")
        return True

    def _lost(self, sentence: str, **keys: object) -> LeaderElectionLost:
        self._log.error(sentence, **keys)
        self._step_down()
        self._wrote = False  # what is not ours is not ours to release
        return LeaderElectionLost()

    def _step_down(self) -> None:
        if self._leading:
            self._leading = False
            self._hooks.on_change(self._leading)

    async def _give_back(self) -> None:
        found = await self._read()
        if found is None or holder_of(found) != self._identity:
            return
        self._lease = await self._client.replace(LEASES, body=freed(found, now=self._clock.now()))
        self._log.info("Released the lease")

    def _announce(self, what: str) -> None:
        """Tell by the hook, beside the election: an Event that hangs must not keep the Lease from being renewed."""
        if self._hooks.announce is None or self._lease is None:
            return
        task = asyncio.ensure_future(self._hooks.announce(self._lease, f"{self._identity} {what}"))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    def _tell(self, sentence: str, **keys: object) -> None:
        """Log *sentence*, once until something else is to be told."""
        told = f"{sentence} {keys}"
        tell = self._log.debug if told == self._told else self._log.error if "error" in keys else self._log.info
        self._told = told
        tell(sentence, **keys)

    async def _within(self, seconds: float, work: Coroutine[Any, Any, _T]) -> _T:
        """Await *work*; no answer within *seconds* of the elector's clock is a connection that failed."""
        try:
            return await within(seconds, work, clock=self._clock)
        except TimeoutError as error:
            settings, resource = self._settings, LEASES.label()
            call = Call(verb="get or update", resource=resource, namespace=settings.namespace, name=settings.id)
            raise ConnectionFailed(str(error), call=call) from error


def _trouble(error: KubeError) -> str:
    """Return the sentence for the log: what a person can do about *error*."""
    call = error.call
    if isinstance(error, Forbidden):
        return (
            f"The service account lacks the right to {call.verb} Leases: grant get, create and update on "
            f"leases.coordination.k8s.io in namespace {call.namespace}"
        )
    if isinstance(error, NotFound):
        return f"The Lease cannot be created: is there a namespace {call.namespace}? See --leader-election-namespace"
    return "The Lease cannot be read or written; it is tried again"
