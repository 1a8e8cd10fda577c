"""From a change of a dependent to runs of its owners: `DependentSources` feeds it with what its informers tell.

A change passes the predicates, names its owners, and waits until the ledger of own writes knows who made it. An owner
whose own run did is left out; the others go into their queues, and the drift is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from runner.kube.objects import GVK, Object
from runner.sources.dependent_owners import names_owner, owners_of
from runner.sources.dependent_predicates import content_changed, fields_changed
from runner.sources.dependent_rules import Interest, interest_of
from runner.sources.gathering import Gathering
from runner.sources.own_writes import OwnerKey
from runner.sources.primary import Enqueue
from runner.sources.store import Change
from runner.watches.model import Watch
from runner.workqueue.request import Request


@dataclass(frozen=True, kw_only=True)
class OwnerWatch:
    """One watch as the dependents of its objects see it."""

    watch: Watch
    enqueue: Enqueue
    namespaced: Callable[[], bool | None]
    """Whether the kind's objects are in namespaces; None as long as it isn't known: then none has made anything yet."""
    known: Callable[[Request], bool]
    """Whether there is such an object that the watch serves; what goes after its owner concerns nobody."""


class Judge(Protocol):
    """Who made a change (`runner.sources.own_writes.OwnWrites`)."""

    def settle(self, *, gvk: GVK, change: Change, then: Callable[[frozenset[OwnerKey]], None]) -> None:
        """Call *then* with the owners whose own run made *change*, at once or when that is known."""
        ...


class Reporter(Protocol):
    """Tells people what was changed behind an owner's back (`runner.sources.drift.DriftReporter`)."""

    def report(self, request: Request, *, gvk: GVK, change: Change) -> None:
        """Tell that a dependent of *request*'s object, of the kind *gvk*, was changed."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Hit:
    """One owner that a change concerns."""

    request: Request
    enqueue: Enqueue
    known: Callable[[Request], bool]
    content: bool
    """False: only a followed field of the status changed."""

    @property
    def key(self) -> OwnerKey:
        """Return the owner as the ledger knows it."""
        gvk = self.request.gvk
        return OwnerKey(group=gvk.group, kind=gvk.kind, namespace=self.request.namespace, name=self.request.name)


class DependentChanges:
    """Turns changes of dependents into requests."""

    def __init__(
        self,
        *,
        owners: Sequence[OwnerWatch],
        judge: Judge,
        reporter: Reporter,
        gathering: Gathering,
        namespaces: Sequence[str] = (),
    ) -> None:
        """Start runs of objects of *owners* in *namespaces* (none: all), those for a status through *gathering*."""
        self._owners = tuple(owners)
        self._judge = judge
        self._reporter = reporter
        self._gathering = gathering
        self._namespaces = frozenset(namespaces)

    def keeps(self, gvk: GVK, obj: Object) -> bool:
        """Tell whether *obj*, of the kind *gvk*, names an owner that wants to know of it."""
        return any(names_owner(owner.watch, obj) for owner, _ in self._interested(gvk))

    def changed(self, gvk: GVK, change: Change) -> None:
        """Take a change of an object of the kind *gvk*."""
        hits = list(self._hits(gvk, change))
        if hits:
            self._judge.settle(gvk=gvk, change=change, then=partial(self._settled, hits, gvk=gvk, change=change))

    def _interested(self, gvk: GVK) -> Iterator[tuple[OwnerWatch, Interest]]:
        for owner in self._owners:
            interest = interest_of(owner.watch, gvk)
            if interest:
                yield owner, interest

    def _hits(self, gvk: GVK, change: Change) -> Iterator[_Hit]:
        content = content_changed(change)
        for owner, interest in self._interested(gvk):
            counts = content and interest.content
            if counts or fields_changed(change, interest.fields):
                for request in self._requests(owner, change):
                    yield _Hit(request=request, enqueue=owner.enqueue, known=owner.known, content=counts)

    def _requests(self, owner: OwnerWatch, change: Change) -> list[Request]:
        """Return the owners that the object names now, and those that it named before."""
        namespaced = owner.namespaced()
        if namespaced is None:
            return []
        states = (change.obj,) if change.old is None else (change.old, change.obj)
        names = set().union(*(owners_of(obj, watch=owner.watch, namespaced=namespaced) for obj in states))
        return [
            Request(owner.watch.gvk, namespace, name)
            for namespace, name in sorted(names)
            if not namespace or not self._namespaces or namespace in self._namespaces
        ]

    def _settled(self, hits: list[_Hit], writers: frozenset[OwnerKey], *, gvk: GVK, change: Change) -> None:
        reported: set[OwnerKey] = set()
        for hit in hits:
            if hit.key in writers or not hit.known(hit.request):
                continue
            if not hit.content:
                self._gathering.add(hit.request, enqueue=hit.enqueue)
                continue
            hit.enqueue(hit.request, fresh=True)
            if hit.key not in reported:  # two watches may see one owner, in two versions
                reported.add(hit.key)
                self._reporter.report(hit.request, gvk=gvk, change=change)
