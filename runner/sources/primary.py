"""The primary objects of one watch: informers and predicates in front of the work queue.

First stage of the flow. What passes the predicates becomes a `Request` in the queue; no object is carried through it,
as step `load` of reconcile reads the object live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from runner.kube.objects import Object, name_of, namespace_of
from runner.sources.informer import Counters, Informer, State, Target, WatchContext
from runner.sources.predicates import primary_predicate
from runner.sources.store import Change, ChangeKind
from runner.watches.matching import serves
from runner.watches.model import Watch
from runner.workqueue.request import Request


class Enqueue(Protocol):
    """The queue's side of a source."""

    def __call__(self, request: Request, *, fresh: bool) -> None:
        """Take *request*; *fresh* ones go ahead of periodic re-runs."""
        ...


class ObjectListener(Protocol):
    """What metrics want to know of the objects (`runner.observe.metrics_objects.CreatedObjects`)."""

    def seen(self, obj: Object) -> None:
        """Take an object whose event passed the predicates."""
        ...

    def gone(self, obj: Object) -> None:
        """Take an object that was deleted, or that is not ours any more."""
        ...


class PrimarySource:
    """Feeds the queue of one watch: one informer a namespace, or a single one for all of them."""

    def __init__(
        self,
        *,
        watch: Watch,
        context: WatchContext,
        enqueue: Enqueue,
        namespaces: Sequence[str] = (),
        listener: ObjectListener | None = None,
    ) -> None:
        """Look at *namespaces* (empty: all); a cluster-scoped kind is looked at once, whatever they are."""
        self.watch = watch
        self._listener = listener
        self._enqueue = enqueue
        self._passes = primary_predicate(watch)
        self._informers = {
            namespace: Informer(
                target=Target(gvk=watch.gvk, namespace=namespace), context=context, on_change=self._changed
            )
            for namespace in namespaces or ("",)
        }
        self._lead = next(iter(self._informers.values()))

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lead.run())
            for informer in self._others():
                group.create_task(self._follow(informer))

    @property
    def synced(self) -> bool:
        """Tell whether every informer had a complete store at least once."""
        return all(informer.has_synced for informer in self._active())

    @property
    def namespaced(self) -> bool | None:
        """Tell whether the kind's objects are in namespaces; None until it was discovered."""
        return None if self._lead.resource is None else self._lead.resource.namespaced

    def states(self) -> dict[str, State]:
        """Return the state of each informer by its namespace (empty: all namespaces, or cluster scope).

        Until the kind is discovered the first informer alone is at work, and its state is that of all.
        """
        discovered = self._lead.resource is not None
        return {
            self._label(informer): informer.state if discovered else self._lead.state for informer in self._active()
        }

    def counters(self) -> dict[str, Counters]:
        """Return what each informer did, by its namespace."""
        return {self._label(informer): informer.counters for informer in self._active()}

    def overdue(self) -> float:
        """Return how many seconds the latest informer's sign of life is late; negative while all is well."""
        return max(informer.overdue for informer in self._informers.values())

    def knows(self, request: Request) -> bool:
        """Tell whether the object that *request* names was there when it was looked at last."""
        return self.find(request) is not None

    def find(self, request: Request) -> Object | None:
        """Return the object that *request* names as it was when it was looked at last; None where it was not there."""
        found = (i.store.get(namespace=request.namespace, name=request.name) for i in self._active())
        return next((obj for obj in found if obj is not None), None)

    async def _follow(self, informer: Informer) -> None:
        """Run the informer of a further namespace, as soon as it is known that the kind has namespaces."""
        if (await self._lead.discovered()).namespaced:
            await informer.run()

    def _others(self) -> list[Informer]:
        return [informer for informer in self._informers.values() if informer is not self._lead]

    def _active(self) -> list[Informer]:
        """Return the informers that count: only the first one for a cluster-scoped kind."""
        resource = self._lead.resource
        if resource is not None and not resource.namespaced:
            return [self._lead]
        return list(self._informers.values())

    def _label(self, informer: Informer) -> str:
        resource = self._lead.resource
        return informer.target.namespace if resource is None or resource.namespaced else ""

    def _changed(self, change: Change) -> None:
        obj, passes = change.obj, self._passes(change)
        if self._listener is not None:
            if change.kind is ChangeKind.DELETED or not serves(self.watch, obj):
                self._listener.gone(obj)
            elif passes:
                self._listener.seen(obj)
        if passes:
            self._enqueue(Request(self.watch.gvk, namespace_of(obj), name_of(obj)), fresh=True)
