"""From a change of a dependent to runs of its owners: `DependentSources` feeds it with what its informers tell.

A change passes the predicates, names its owners, and waits until the ledger of own writes knows who made it. An owner
whose own run did is left out; the others go into their queues, and the drift is reported. Where a write hangs for too
long nobody can tell whether it made the change: the owners run, and nothing is reported. Two kinds of changes are only
seen in part: what a list brought (`Change.relisted`) may hide another one behind the own write, so that every owner
runs; and an object that a run wrote and that is new here, in a version that no run wrote, was changed before the watch
was open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from runner.kube.objects import GVK, Object, uid_of
from runner.sources.dependent_owners import claims_of, names_owner
from runner.sources.dependent_predicates import content_changed, fields_changed
from runner.sources.dependent_rules import Interest, interest_of
from runner.sources.gathering import Gathering
from runner.sources.own_writes import OwnerKey
from runner.sources.primary import Enqueue
from runner.sources.store import Change, ChangeKind
from runner.watches.model import Watch
from runner.workqueue.request import Request


@dataclass(frozen=True, kw_only=True)
class OwnerWatch:
    """One watch as the dependents of its objects see it."""

    watch: Watch
    enqueue: Enqueue
    namespaced: Callable[[], bool | None]
    """Whether the kind's objects are in namespaces; None as long as it isn't known: then none has made anything yet."""
    uid: Callable[[Request], str | None]
    """The UID of the object, where there is one and the watch serves it; what goes after its owner concerns nobody."""


class Judge(Protocol):
    """Who made a change (`runner.sources.own_writes.OwnWrites`)."""

    def settle(self, *, gvk: GVK, change: Change, then: Callable[[frozenset[OwnerKey] | None], None]) -> None:
        """Call *then* with the owners whose own run made *change*, at once or when that is known.

        None: it could not be found out in time.
        """
        ...

    def newest(self, uid: str) -> int:
        """Return the newest version of the object *uid* that a run wrote; 0: none did."""
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
    uids: frozenset[str]
    """By which the dependent names the owner; an empty one: any object of that name."""
    enqueue: Enqueue
    uid: Callable[[Request], str | None]
    content: bool
    """False: only a followed field of the status changed."""

    @property
    def key(self) -> OwnerKey:
        """Return the owner as the ledger knows it."""
        gvk = self.request.gvk
        return OwnerKey(group=gvk.group, kind=gvk.kind, namespace=self.request.namespace, name=self.request.name)

    def concerns(self) -> bool:
        """Tell whether that owner is there, and is no other object of its name."""
        uid = self.uid(self.request)
        return uid is not None and bool(self.uids & {uid, ""})


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
        added = change.kind is ChangeKind.ADDED
        content = added or content_changed(change)
        for owner, interest in self._interested(gvk):
            counts = content and interest.content
            if added or counts or fields_changed(change, interest.fields):
                for request, uids in self._claims(owner, change):
                    yield _Hit(request=request, uids=uids, enqueue=owner.enqueue, uid=owner.uid, content=counts)

    def _claims(self, owner: OwnerWatch, change: Change) -> Iterator[tuple[Request, frozenset[str]]]:
        """Give the owners that the object names now, and those that it named before, with the UIDs of each."""
        namespaced = owner.namespaced()
        if namespaced is None:
            return
        states = (change.obj,) if change.old is None else (change.old, change.obj)
        claims = [claims_of(obj, watch=owner.watch, namespaced=namespaced) for obj in states]
        for namespace, name in sorted(set().union(*claims)):
            if not namespace or not self._namespaces or namespace in self._namespaces:
                uids = frozenset[str]().union(*(each.get((namespace, name), set()) for each in claims))
                yield Request(owner.watch.gvk, namespace, name), uids

    def _settled(self, hits: list[_Hit], told: frozenset[OwnerKey] | None, *, gvk: GVK, change: Change) -> None:
        writers = told or frozenset()
        if change.kind is ChangeKind.ADDED and (writers or not self._judge.newest(uid_of(change.obj))):
            return  # as a run wrote it, or nothing is known of a run that did
        reported = set(writers)
        for hit in hits:
            if (hit.key in writers and not change.relisted) or not hit.concerns():
                continue
            if not hit.content:
                self._gathering.add(hit.request, enqueue=hit.enqueue)
                continue
            hit.enqueue(hit.request, fresh=True)
            if told is not None and hit.key not in reported:  # two watches may see one owner, in two versions
                reported.add(hit.key)
                self._reporter.report(hit.request, gvk=gvk, change=change)
