"""Tells people that a dependent was changed or deleted by somebody else: a line in the log, an Event on its owner.

Called by the informers of dependents for each change that starts a run of an owner and was not made by its own run.
It names each field with the value that was there before anybody else came (what the run wrote last, or what the watch
began with) and the one that is there now, as far as they may be shown (`runner.sources.masking`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from runner.clock import Clock
from runner.kube.objects import GVK, Object, is_deleting, name_of, namespace_of, resource_version_of, uid_of
from runner.logs import Logger
from runner.sources.controllers_fields import is_controllers
from runner.sources.dependent_owners import mark_of
from runner.sources.field_diff import Difference, differences
from runner.sources.masking import shown
from runner.sources.own_writes import OwnWrites, number_of
from runner.sources.store import Change, ChangeKind
from runner.workqueue.request import Request

CHANGED = "DependentChanged"
DELETED = "DependentDeleted"
RELEASED = "DependentReleased"
_GET_BACK = "delete it, so that the role makes it anew, or put the {mark} back"
_RUNS = "; the role runs again"
_MOST_FIELDS = 10
_MOST_TEXT = 800
"""Characters of an Event's message before its end; the API server takes 1 KiB."""
_BASELINES = 1000
_WAITING = 100
"""Events that wait to be written; beyond that they are left out."""
_BURST, _REFILL = 10, 30.0
"""Events of one owner: so many at once, then one in so many seconds."""


@dataclass(frozen=True, kw_only=True)
class _Baseline:
    """What a dependent looked like before anybody else changed it."""

    uid: str
    obj: Object
    version: str
    """The newest change that was compared with it."""
    told: dict[Request, Sequence[Difference]] = field(default_factory=dict)
    """What each owner was told last; not told again while it is the same."""


@dataclass(frozen=True, kw_only=True)
class _Event:
    """An Event that waits to be written."""

    request: Request
    reason: str
    message: str


class Events(Protocol):
    """Writes Events (`runner.kube.events.EventRecorder`)."""

    async def record(self, obj: Mapping[str, Any], *, reason: str, message: str) -> None:
        """Tell *message* about *obj*; never raises an error of ours."""
        ...


class DriftReporter:
    """Reports what others did to dependents; `run` is the body of the task that writes the Events."""

    def __init__(
        self,
        *,
        own: OwnWrites,
        owner: Callable[[Request], Object | None],
        events: Events,
        clock: Clock,
        logger: Logger,
    ) -> None:
        """Report to *logger* and *events*.

        Args:
            own: what runs wrote themselves.
            owner: returns an owner as it was seen last, None where it is gone.
            events: writes the Events.
            clock: paces them.
            logger: gets the lines.
        """
        self._own = own
        self._owner = owner
        self._events = events
        self._logger = logger.named("dependents")
        self._budget = EventBudget(clock=clock)
        self._baselines: OrderedDict[tuple[str, str, str, str], _Baseline] = OrderedDict()
        self._waiting: asyncio.Queue[_Event] = asyncio.Queue(_WAITING)

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            event = await self._waiting.get()
            owner = self._owner(event.request)
            if owner is not None and not is_deleting(owner):
                await self._events.record(owner, reason=event.reason, message=event.message)

    def report(self, request: Request, *, gvk: GVK, change: Change) -> None:
        """Report *change* of a dependent of the kind *gvk* to the owner that *request* names.

        A change that brings nothing but what was there before anybody else came is none, nor is what controllers keep
        in metadata, nor a followed field of the status: these leave a debug line.
        """
        log = self._logger.bind(name=request.name, namespace=request.namespace, gvk=str(request.gvk))
        log = log.bind(dependent=dependent_text(change.obj, gvk=gvk))
        owner = self._owner(request)
        if owner is None or is_deleting(owner):
            log.debug("A dependent changed, and its owner is gone or goes")  # the garbage collector is at work
        elif change.old is None:
            log.debug("A dependent was written by a run and again before its watch was open")  # nobody knows what
        elif _goes(change):
            self._deleted(request, gvk=gvk, change=change, log=log)
        elif mark := _lost_mark(request, change):
            self._released(request, gvk=gvk, change=change, mark=mark, log=log)
        else:
            self._changed(request, gvk=gvk, change=change, log=log)

    def _deleted(self, request: Request, *, gvk: GVK, change: Change, log: Logger) -> None:
        if change.old is not None and is_deleting(change.old):
            log.debug("The dependent that was deleted is gone now")
            return
        log.info("Dependent deleted")
        message = f"{dependent_text(change.obj, gvk=gvk)} was deleted{_RUNS}"
        self._tell(_Event(request=request, reason=DELETED, message=message), log=log)

    def _released(self, request: Request, *, gvk: GVK, change: Change, mark: str, log: Logger) -> None:
        log.info(f"Dependent lost its {mark}", remedy=_GET_BACK.format(mark=mark))
        dependent, remedy = dependent_text(change.obj, gvk=gvk), _GET_BACK.format(mark=mark)
        message = f"{dependent} lost its {mark} to this object, so that it is not watched any more: {remedy}{_RUNS}"
        self._tell(_Event(request=request, reason=RELEASED, message=message), log=log)

    def _changed(self, request: Request, *, gvk: GVK, change: Change, log: Logger) -> None:
        baseline = self._baseline(gvk, change)
        found = differences(baseline.obj, change.obj)
        foreign = [difference for difference in found if not is_controllers(difference, gvk=gvk)]
        before = baseline.told.pop(request, [])
        if not foreign:
            names = [shown(difference, gvk=gvk)["field"] for difference in found[:_MOST_FIELDS]]
            log.debug("Dependent changed back, in its status, or in what controllers keep", fields=names)
            return
        baseline.told[request] = foreign
        if foreign == before:  # a Deployment's controller notes its revision just after somebody's change, for example
            log.debug("Dependent changed again, and what was told of it before is still so")
            return
        fields = [shown(difference, gvk=gvk) for difference in foreign[:_MOST_FIELDS]]
        more = len(foreign) - len(fields)
        log.info("Dependent changed", fields=fields, **({"more": more} if more else {}))
        message = changed_text(dependent_text(change.obj, gvk=gvk), fields=fields, count=len(foreign))
        self._tell(_Event(request=request, reason=CHANGED, message=message), log=log)

    def _baseline(self, gvk: GVK, change: Change) -> _Baseline:
        """Return what the dependent should be: its state before others came, which moves with each own write."""
        old = change.old or {}
        version, uid = resource_version_of(change.obj), uid_of(change.obj)
        key = (gvk.group, gvk.kind, namespace_of(change.obj), name_of(change.obj))
        known = self._baselines.pop(key, None)
        if known is None or known.uid != uid or self._moved_on(known, version=version):
            known = _Baseline(uid=uid, obj=old, version=version)
        self._baselines[key] = replace(known, version=version)
        if len(self._baselines) > _BASELINES:
            self._baselines.popitem(last=False)
        return known

    def _moved_on(self, known: _Baseline, *, version: str) -> bool:
        """Tell whether a run wrote the object, or found nothing to write, since it was compared with *known*."""
        return known.version != version and self._own.newest(known.uid) >= max(1, number_of(known.version))

    def _tell(self, event: _Event, *, log: Logger) -> None:
        if not self._budget.allows(event.request):
            log.debug("No Event: there were too many of this owner")
            return
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            log.debug("No Event: too many wait to be written")


class EventBudget:
    """How many Events an owner may get: a burst, then one now and then, as client-go does."""

    def __init__(self, *, clock: Clock, most_owners: int = _BASELINES) -> None:
        """Remember *most_owners*; beyond that the one that got none for longest starts anew."""
        self._clock = clock
        self._most_owners = most_owners
        self._left: OrderedDict[Request, tuple[float, float]] = OrderedDict()

    def allows(self, owner: Request) -> bool:
        """Tell whether *owner* may get one more now, and count it."""
        now = self._clock.monotonic()
        left, at = self._left.pop(owner, (float(_BURST), now))
        left = min(float(_BURST), left + (now - at) / _REFILL)
        allowed = left >= 1
        self._left[owner] = (left - 1 if allowed else left, now)
        if len(self._left) > self._most_owners:
            self._left.popitem(last=False)
        return allowed


def dependent_text(obj: Object, *, gvk: GVK) -> str:
    """Return `Kind namespace/name`."""
    return str(Request(gvk, namespace_of(obj), name_of(obj)))


def changed_text(dependent: str, *, fields: Sequence[Mapping[str, str]], count: int) -> str:
    """Return the sentence about *dependent* with as many of its *count* changed fields as fit."""
    parts: list[str] = []
    for entry in fields:
        part = f"{entry['field']} desired {entry['desired']}, actual {entry['actual']}"
        if parts and sum(map(len, parts)) + len(part) > _MOST_TEXT:
            break
        parts.append(part)
    more = f"; and {count - len(parts)} more" if count > len(parts) else ""
    return f"{dependent} was changed: {'; '.join(parts)}{more}{_RUNS}"


def _lost_mark(request: Request, change: Change) -> str:
    """Return by what the dependent named the owner before, where it doesn't any more."""
    return "" if mark_of(change.obj, owner=request) else mark_of(change.old or {}, owner=request)


def _goes(change: Change) -> bool:
    return change.kind is ChangeKind.DELETED or (is_deleting(change.obj) and not is_deleting(change.old or {}))
