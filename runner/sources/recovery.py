"""The watches on dependents come back at the start: a scan for objects that name an owner of a watched kind.

Runs before the workers begin. What the operator made in an earlier life is watched again before it is next touched;
what a run makes from now on is noted by the proxy before it is there. Only metadata is read. For kinds that may not be
read it asks for its rights now and then, and looks at them when it has these.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runner import errors
from runner.clock import Clock
from runner.errors import KubeError
from runner.kube.catalogue import Catalogue
from runner.kube.discovery import Mapped, Resource
from runner.kube.objects import GVK, Object, namespace_of
from runner.kube.rules import Rules
from runner.logs import Logger
from runner.proxy.dependents import Dependents
from runner.proxy.exchange import Owner
from runner.proxy.ownership import may_be_dependent
from runner.sources.dependent_owners import owners_of
from runner.sources.dependent_rules import interest_of
from runner.watches.model import Watch

_AT_ONCE = 8
_FIRST_DELAY, _LONGEST_DELAY = 2.0, 300.0
"""Seconds before what could not be read is tried again."""
_RIGHTS_INTERVAL = 300.0
"""Seconds between two questions for the rights that are missing."""
_NEEDED = {"get", "list", "watch"}
"""Verbs without which a kind is virtual, and nothing of it can be watched."""
_NOTHING_THERE = (errors.Forbidden, errors.NotFound, errors.Invalid)
"""A right is missing, or there is nothing to list (404, 405, 406): no reason to tell anybody."""
_MORE = "Dependents of earlier runs can be watched at last"
_SLOW = "The search for dependents of earlier runs takes long: runs begin before it is done"


@dataclass(frozen=True, kw_only=True)
class _Claimant:
    """A watch whose objects may have dependents, and where these objects are."""

    watch: Watch
    namespaced: bool


@dataclass(frozen=True, kw_only=True)
class _Owned:
    """A dependent's namespace, and the owner that it names."""

    owner: Owner
    namespace: str


class Recovery:
    """Scans for the dependents of *watches*' objects, and has *dependents* watch their kinds."""

    def __init__(
        self,
        *,
        watches: Sequence[Watch],
        namespaces: Sequence[str],
        dependents: Dependents,
        catalogue: Catalogue,
        clock: Clock,
        logger: Logger,
    ) -> None:
        """Do nothing yet; *namespaces* are those that the operator watches (none: all)."""
        self._watches = [watch for watch in watches if watch.watch_dependent_resources]
        self._namespaces = tuple(namespaces)
        self._dependents = dependents
        self._catalogue = catalogue
        self._clock = clock
        self._logger = logger.named("dependents")
        self._over = asyncio.Event()
        """Set after the first scan."""
        self._done: set[tuple[GVK, str]] = set()
        self._without_right: dict[tuple[GVK, str], Resource] = {}
        """What may not be read, by the rights that were told or by a 403."""
        self._found: set[GVK] = set()
        self._lists = 0
        self._left = False

    async def run(self) -> None:
        """Look at every kind once, and again at what could not or might not be read; return when nothing is left."""
        if not self._watches:
            self._over.set()
            return
        began = self._clock.monotonic()
        delays = _delays()
        while True:
            self._left, before = False, set(self._found)
            answered = await self._scan()
            if answered and not self._over.is_set():
                self._over.set()
                self._tell(seconds=round(self._clock.monotonic() - began, 3))
            elif self._found > before:
                self._logger.info(_MORE, watched=sorted(str(gvk) for gvk in self._found - before))
            if self._left:
                await self._clock.sleep(next(delays))
            elif await self._right_came():
                delays = _delays()
            else:
                return

    async def wait(self, *, unless: asyncio.Event, limit: float) -> None:
        """Return when the scan is over, when *unless* is set, or after *limit* seconds: it then just goes on."""
        over, other = asyncio.create_task(self._over.wait()), asyncio.create_task(unless.wait())
        timer = asyncio.create_task(self._clock.sleep(limit))
        try:
            await asyncio.wait({over, other, timer}, return_when=asyncio.FIRST_COMPLETED)
            if timer.done() and not self._over.is_set():
                self._logger.info(_SLOW, seconds=limit)
        finally:
            for task in (over, other, timer):
                task.cancel()
            await asyncio.gather(over, other, timer, return_exceptions=True)

    async def _right_came(self) -> bool:
        """Wait until a kind may be read that might not be; tell whether there are such kinds.

        Where the API server answers that it can't tell all rights (a webhook authorizes), there is none, and it isn't
        asked again: trying would be refused, and a run's next write has the kind watched (`runner.proxy.record`).
        """
        wanted = self._without_right
        while wanted:
            await self._clock.sleep(_RIGHTS_INTERVAL)
            rules = await self._rules({self._asked_in(place) for _, place in wanted})
            if any(_may_read(rules, resource, namespace=place, surely=True) for (_, place), resource in wanted.items()):
                return True
            wanted = {key: resource for key, resource in wanted.items() if not rules[self._asked_in(key[1])].vague}
        return False

    async def _rules(self, only: Collection[str] = ()) -> Mapping[str, Rules]:
        """Return the rights in the namespaces that the operator watches, or in those of *only*, in their order."""
        asked = [namespace for namespace in self._namespaces or ("",) if not only or namespace in only]
        return {namespace: await self._catalogue.rules(namespace) for namespace in asked}

    def _asked_in(self, place: str) -> str:
        """Return the namespace whose review tells the rights in *place*; any of them has the cluster's."""
        return place or next(iter(self._namespaces), "")

    def _tell(self, *, seconds: float) -> None:
        watched = sorted({str(gvk) for gvk in self._found})
        self._logger.info("Looked for dependents of earlier runs", lists=self._lists, watched=watched, seconds=seconds)

    async def _scan(self) -> bool:
        """Look at every kind that was not looked at yet; tell whether the API server answers at all."""
        try:
            served = await self._catalogue.kinds(skipped=self._not_read)
        except _NOTHING_THERE as error:
            self._logger.debug("Nothing may be looked at for dependents", error=str(error))
            return True
        except KubeError as error:
            self._not_read("all", str(error))
            return False
        claimants = _claimants(self._watches, served=served)
        rules = await self._rules()
        turn, refused = asyncio.Semaphore(_AT_ONCE), self._without_right
        self._without_right = {}
        async with asyncio.TaskGroup() as group:
            for resource, namespace, interested in self._candidates(served, claimants=claimants):
                key = (resource.gvk, namespace)
                if not _may_read(rules, resource, namespace=namespace, surely=key in refused):
                    self._without_right[key] = resource
                    continue
                look = self._look_at(resource, namespace=namespace, claimants=interested, turn=turn)
                group.create_task(look)
        return True

    def _candidates(
        self, served: Iterable[Mapped], *, claimants: Sequence[_Claimant]
    ) -> Iterator[tuple[Resource, str, list[_Claimant]]]:
        """Give the kinds and namespaces (empty: all) that may hold dependents, and whose they may be."""
        for resource in self._in_one_version(served):
            interested = [claimant for claimant in claimants if _may_own(claimant, resource)]
            for namespace in (self._namespaces if resource.namespaced else ()) or ("",):
                if interested and (resource.gvk, namespace) not in self._done:
                    yield resource, namespace, interested

    def _in_one_version(self, served: Iterable[Mapped]) -> Iterable[Resource]:
        """Return each kind of which there can be watches once: in a version that watches.yaml names, or the first."""
        named = {entry.gvk for watch in self._watches for entry in watch.watch_dependent_status}
        chosen: dict[tuple[str, str], Resource] = {}
        for entry in served:
            gvk = entry.resource.gvk
            kind = (gvk.group, gvk.kind)
            if entry.verbs >= _NEEDED and may_be_dependent(gvk) and (kind not in chosen or gvk in named):
                chosen[kind] = entry.resource
        return chosen.values()

    async def _look_at(
        self, resource: Resource, *, namespace: str, claimants: Sequence[_Claimant], turn: asyncio.Semaphore
    ) -> None:
        async with turn:
            try:
                await self._read(resource, namespace=namespace, claimants=claimants)
            except _NOTHING_THERE as error:
                self._logger.debug("A kind is not looked at for dependents", kind=str(resource.gvk), error=str(error))
                if isinstance(error, errors.Forbidden):
                    self._without_right[resource.gvk, namespace] = resource
                    return
            except KubeError as error:
                self._not_read(str(resource.gvk), str(error))
                return
        self._done.add((resource.gvk, namespace))

    async def _read(self, resource: Resource, *, namespace: str, claimants: Sequence[_Claimant]) -> None:
        """Read page by page, until each of *claimants* has a dependent there."""
        self._lists += 1
        left = claimants
        async with contextlib.aclosing(self._catalogue.metadata_pages(resource, namespace=namespace)) as pages:
            async for page in pages:
                left = await self._claim(resource, page, claimants=left)
                if not left:
                    return

    async def _claim(
        self, resource: Resource, page: Sequence[Object], *, claimants: Sequence[_Claimant]
    ) -> list[_Claimant]:
        """Have the kind watched for each of *claimants* that has a dependent on *page*; return the others."""
        left = []
        for claimant in claimants:
            owned = _first_owned(page, claimant=claimant)
            if owned is None:
                left.append(claimant)
                continue
            await self._dependents.ensure(resource, namespace=owned.namespace, owner=owned.owner)
            self._found.add(resource.gvk)
        return left

    def _not_read(self, what: str, why: str) -> None:
        """Note that *what* must be looked at again, and say so the first time."""
        self._left = True
        tell = self._logger.debug if self._over.is_set() else self._logger.info
        tell("Cannot look for dependents of earlier runs for now; trying again", kind=what, error=why)


def _claimants(watches: Sequence[Watch], *, served: Iterable[Mapped]) -> list[_Claimant]:
    """Return the watches whose kind is served: an owner of a kind that isn't does not exist."""
    namespaced = {entry.resource.gvk: entry.resource.namespaced for entry in served}
    return [_Claimant(watch=watch, namespaced=namespaced[watch.gvk]) for watch in watches if watch.gvk in namespaced]


def _may_read(rules: Mapping[str, Rules], resource: Resource, *, namespace: str, surely: bool) -> bool:
    """Tell whether *resource* may be listed and watched in *namespace*; *surely*: as far as all rights are told."""
    known = rules.get(namespace) or next(iter(rules.values()))  # any of them has the cluster's rights
    return known.may("list", resource) and known.may("watch", resource) and (known.complete or not surely)


def _may_own(claimant: _Claimant, resource: Resource) -> bool:
    """Tell whether objects of *resource* can be dependents that *claimant* wants to know of."""
    here = resource.namespaced or not claimant.namespaced or claimant.watch.watch_cluster_scoped_resources
    return here and bool(interest_of(claimant.watch, resource.gvk))


def _first_owned(page: Sequence[Object], *, claimant: _Claimant) -> _Owned | None:
    for obj in page:
        for namespace, name in owners_of(obj, watch=claimant.watch, namespaced=claimant.namespaced):
            owner = Owner(gvk=claimant.watch.gvk, namespace=namespace, name=name, uid="")
            return _Owned(owner=owner, namespace=namespace_of(obj))
    return None


def _delays() -> Iterator[float]:
    """Give the seconds between two tries, for ever."""
    delay = _FIRST_DELAY
    while True:
        yield delay
        delay = min(2 * delay, _LONGEST_DELAY)
