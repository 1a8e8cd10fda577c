"""The watches on dependents: what runs made is watched, and a change of it starts a run of its owner.

    proxy, start-up scan ──ensure──▶ DependentSources ── one informer a kind (and namespace), shared by all watches
                                                              │ Change
                                                              ▼
             predicates ──▶ owners ──▶ ledger of own writes ──┬──▶ work queue of the owner's watch
                    (`DependentChanges`)                      └──▶ report of the drift

Informers are added while `run` goes on, and never taken away; those of `watchDependentStatus` start with `run`. They
keep only what names an owner of a watched kind, as `DependentTransform` leaves it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from runner.clock import within
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object
from runner.proxy.exchange import Owner
from runner.sources.dependent_changes import DependentChanges, Judge, OwnerWatch, Reporter
from runner.sources.dependent_rules import interest_of, reason_against
from runner.sources.dependent_transform import DependentTransform
from runner.sources.gathering import Gathering
from runner.sources.informer import Counters, Informer, State, Target, WatchContext
from runner.watches.model import Watch

_OPENING_LIMIT = 2.0
"""Seconds that writes wait for a watch, once; the informer goes on trying by itself."""
_PAGE_SIZE = 50
"""Objects in a page at most: they come whole, most of them for nothing, and are parsed on the event loop."""
_SETTLED = {State.SYNCED, State.FORBIDDEN, State.MISSING}
"""States after which there is nothing to wait for; an error may be over in a moment."""
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class _Following:
    """One informer at work."""

    informer: Informer
    settled: asyncio.Event
    """Set when its watch is open, when it is known that it can't be, or when nobody waits for it any more."""


class DependentSources:
    """Follows the dependents of all watches: `runner.proxy.dependents.Dependents`."""

    def __init__(
        self,
        *,
        owners: Sequence[OwnerWatch],
        context: WatchContext,
        judge: Judge,
        reporter: Reporter,
        namespaces: Sequence[str] = (),
    ) -> None:
        """Follow nothing yet.

        Args:
            owners: the watches, with their queues.
            context: what all informers share.
            judge: tells an owner's own changes from others.
            reporter: hears of the others.
            namespaces: those that the operator watches; none means all.
        """
        self._watches = tuple(owner.watch for owner in owners)
        settings = context.settings
        smaller = replace(settings, page_size=min(settings.page_size, _PAGE_SIZE))
        self._context = replace(context, settings=smaller)
        self._namespaces = tuple(namespaces)
        self._followed: dict[tuple[GVK, str], _Following] = {}
        self._refused: set[tuple[GVK, GVK, str]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._gathering = Gathering(clock=context.clock)
        self._changes = DependentChanges(
            owners=owners, judge=judge, reporter=reporter, gathering=self._gathering, namespaces=namespaces
        )

    async def run(self) -> None:
        """Follow until cancelled; what was asked for before begins now."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for following in list(self._followed.values()):
                    self._start(following)
                for gvk in {entry.gvk: None for watch in self._watches for entry in watch.watch_dependent_status}:
                    group.create_task(self._follow_status(gvk))
                await self._gathering.run()
            finally:
                self._group = None  # a group that ends takes no more tasks

    async def ensure(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """See to it that objects of *resource* in *namespace* are watched for *owner*; return when the watch is open.

        Where it can't be opened now, that costs two seconds at most, and once a kind and namespace.
        """
        following = self._wanted(resource, namespace=namespace, owner=owner)
        if following is not None and self._group is not None:
            await self._opened(following)

    def follow(self, resource: Resource, *, namespace: str, owner: Owner) -> None:
        """Begin to watch objects of *resource* in *namespace* for *owner*."""
        self._wanted(resource, namespace=namespace, owner=owner)

    def states(self) -> dict[GVK, dict[str, State]]:
        """Return the state of each informer by its kind and its namespace (empty: all, or cluster scope).

        This and the other readings may be taken in any thread.
        """
        return self._read(lambda informer: informer.state)

    def counters(self) -> dict[GVK, dict[str, Counters]]:
        """Return what each informer did by its kind and its namespace."""
        return self._read(lambda informer: informer.counters)

    def overdue(self) -> dict[GVK, float]:
        """Return how many seconds the latest sign of life of each kind is late; negative while all is well."""
        late = self._read(lambda informer: informer.overdue)
        return {gvk: max(seconds.values()) for gvk, seconds in late.items()}

    def kept(self, gvk: GVK) -> list[Object]:
        """Return the objects of a kind that are kept; nothing but tests of what is in memory asks for that."""
        return [
            obj for (kind, _), following in self._followed.items() if kind == gvk for obj in following.informer.store
        ]

    def _read(self, of: Callable[[Informer], _T]) -> dict[GVK, dict[str, _T]]:
        found: dict[GVK, dict[str, _T]] = {}
        for (gvk, namespace), following in list(self._followed.items()):
            found.setdefault(gvk, {})[namespace] = of(following.informer)
        return found

    def _wanted(self, resource: Resource, *, namespace: str, owner: Owner) -> _Following | None:
        """Return the informer at work for it, None where it is not to be watched."""
        watch = next((watch for watch in self._watches if watch.gvk == owner.gvk), None)
        reason = reason_against(
            watch,
            resource,
            owner_namespaced=bool(owner.namespace),
            namespace=namespace,
            namespaces=self._namespaces,
        )
        if watch is None or reason:
            self._refuse(resource.gvk, namespace=namespace, owner=owner.gvk, reason=reason)
            return None
        return self._following(resource, namespace=namespace, watch=watch)

    def _following(self, resource: Resource, *, namespace: str, watch: Watch) -> _Following:
        """Return the informer for *resource* in *namespace*, which may look at another version of the kind.

        Two versions would tell each change twice. A cluster-scoped kind has one informer, wherever it is noted.
        """
        gvk, place = resource.gvk, namespace if self._namespaces and resource.namespaced else ""
        for (other, where), following in self._followed.items():
            same = (other.group, other.kind) == (gvk.group, gvk.kind) and (where == place or not resource.namespaced)
            serves = other == gvk or following.informer.state is not State.MISSING
            if same and serves and interest_of(watch, other).content:
                return following
        return self._follow(gvk, place)

    def _follow(self, gvk: GVK, namespace: str) -> _Following:
        following = self._followed.get((gvk, namespace))
        if following is None:
            following = self._followed[gvk, namespace] = self._new(gvk, namespace)
            self._start(following)
        return following

    def _new(self, gvk: GVK, namespace: str) -> _Following:
        fields = frozenset[str]().union(*(interest_of(watch, gvk).fields for watch in self._watches))
        settled = asyncio.Event()

        def entered(state: State) -> None:
            if state in _SETTLED:
                settled.set()

        informer = Informer(
            target=Target(gvk=gvk, namespace=namespace),
            context=self._context,
            on_change=partial(self._changes.changed, gvk),
            transform=DependentTransform(gvk, fields=fields),
            keeps=partial(self._changes.keeps, gvk),
            on_state=entered,
        )
        return _Following(informer=informer, settled=settled)

    def _start(self, following: _Following) -> None:
        if self._group is not None:
            self._group.create_task(following.informer.run(), name=f"dependents {following.informer.target.gvk}")

    async def _follow_status(self, gvk: GVK) -> None:
        """Follow a kind everywhere; it isn't known before it is served whether it has namespaces."""
        first, *others = self._namespaces or ("",)
        resource = await self._follow(gvk, first).informer.discovered()
        for namespace in others if resource.namespaced else ():
            self._follow(gvk, namespace)

    async def _opened(self, following: _Following) -> None:
        if following.settled.is_set():
            return
        try:
            with contextlib.suppress(TimeoutError):
                await within(_OPENING_LIMIT, following.settled.wait(), clock=self._context.clock)
        finally:  # also when the client leaves, which then sends its next write
            following.settled.set()

    def _refuse(self, gvk: GVK, *, namespace: str, owner: GVK, reason: str) -> None:
        if (gvk, owner, namespace) not in self._refused:
            self._refused.add((gvk, owner, namespace))
            self._context.logger.debug(
                "Resource will not be watched/cached.",
                dependent=str(gvk),
                dependentNamespace=namespace,
                owner=str(owner),
                reason=reason,
            )
