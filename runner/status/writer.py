"""Writes our conditions through the status subresource, so that nothing of another writer is ever lost.

Each try reads the object live, computes the wanted conditions from what is there, and sends the object's status back
with the resourceVersion that was read: if anybody wrote in between, the API server answers Conflict and the next try
starts from the new state. So a caller who has the object as it most probably still is may offer it in place of the
first read: where it is out of date, that try meets a Conflict and nothing else. `PUT /status` is used and not a patch,
as roles of existing operators grant `update` there, which is what the peer uses.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from runner.clock import Clock
from runner.errors import (
    Conflict,
    ConnectionFailed,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    StatusWriteExhausted,
    TooManyRequests,
)
from runner.kube.discovery import Resource
from runner.kube.objects import GVK, Object, generation_of, name_of, namespace_of, resource_version_of, uid_of
from runner.kube.verbs import ObjectClient
from runner.logs import Logger
from runner.settings import StatusSettings
from runner.status.conditions import conditions_found, is_ours
from runner.status.plain import plainer_forms

Compute = Callable[[list[Any]], list[Any]]
"""From the conditions found to those wanted; pure, as it is called once per try (`Transition.apply` is one)."""

Unless = Callable[[Object], bool]
"""Tells of the live object that nothing is to be said of it any more."""

LookUp = Callable[[GVK], Awaitable[Resource]]
"""Asks the API server anew how it serves a kind."""

_RETRIED = (Conflict, TooManyRequests, ServerError, ConnectionFailed)


class WriteState(enum.Enum):
    """What became of a status write."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    """The wanted conditions were there already; nothing was sent."""
    GONE = "gone"
    """The object is no more."""
    SUPERSEDED = "superseded"
    """Another object, with another UID, has the name now; it was left alone."""
    SKIPPED = "skipped"
    """The kind has no status, or the caller's `unless` was true."""


@dataclass(frozen=True, kw_only=True)
class WriteResult:
    """The end of a status write."""

    state: WriteState
    obj: Object | None
    """The object as it is now; None when it is gone, the other one when it is superseded.

    For a kind without status subresource the write moved `metadata.generation`: the caller takes the new one from
    here, and so doesn't take its own write for a change.
    """
    attempts: int
    pruned: bool = False
    """The API server dropped fields of our conditions, as the CRD's schema doesn't know them."""


@dataclass(frozen=True, kw_only=True)
class _Change:
    """What a caller wants."""

    resource: Resource
    obj: Object
    compute: Compute
    unless: Unless


class StatusWriter:
    """Writes conditions, with retries on what may go well the next time."""

    def __init__(
        self,
        *,
        client: ObjectClient,
        clock: Clock,
        delay: Callable[[int], float],
        settings: StatusSettings,
        logger: Logger,
        look_up: LookUp | None = None,
    ) -> None:
        """Wait by *clock* after the n-th failure for *delay(n)* seconds (`Backoff(settings.backoff, random).delay`).

        *look_up* is asked where an answer lets one think that the CRD gained or lost its status subresource.
        """
        self._look_up = look_up
        self._client = client
        self._clock = clock
        self._delay = delay
        self._settings = settings
        self._logger = logger
        self._told: set[tuple[Resource, str]] = set()

    async def write(
        self,
        resource: Resource,
        obj: Object,
        *,
        compute: Compute,
        unless: Unless = lambda _live: False,
        newest: Object | None = None,
    ) -> WriteResult:
        """Bring the conditions of *obj* to what *compute* makes of those found on the live object.

        Nothing is written where *unless* is true of the live object; a change after it was read is met as a Conflict.
        *newest* is a whole state of the object that was seen a moment ago: it spares the read where it still holds.

        Raises:
            StatusWriteExhausted: tries or time are used up; the caller keeps the transition and comes again.
            KubeError: an answer that another try would not change: Forbidden, Unauthorized (the client has read its
                credentials again), Invalid in every form of the conditions, NotFound of the status subresource.
        """
        started = self._clock.monotonic()
        change = _Change(resource=resource, obj=obj, compute=compute, unless=unless)
        attempt = 1
        while True:
            try:
                given, newest = newest, None
                return await self._try_unread(change, given) or await self._try(change, attempt=attempt)
            except _RETRIED as error:
                await self._pause(error, attempt=attempt, started=started)
                attempt += 1

    async def _pause(self, error: KubeError, *, attempt: int, started: float) -> None:
        """Wait before the next try, or give up when no try is left or the wait would end after the total time."""
        wait = max(self._delay(attempt), error.retry_after or 0.0)
        spent = self._clock.monotonic() - started
        if attempt >= self._settings.attempts or spent + wait > self._settings.total_time:
            raise StatusWriteExhausted(last=error, attempts=attempt, seconds=spent) from error
        self._logger.debug("Status write is tried again", error=str(error), attempt=attempt, wait_seconds=wait)
        await self._clock.sleep(wait)

    async def _try_unread(self, change: _Change, newest: Object | None) -> WriteResult | None:
        """Write onto *newest*; None where it is out of date, or asks for no write: a read has the last word then."""
        if newest is None or uid_of(newest) != uid_of(change.obj):
            return None
        with contextlib.suppress(Conflict):
            result = await self._try_onto(newest, change, attempt=1)
            return result if result.state is WriteState.WRITTEN else None
        return None

    async def _try(self, change: _Change, *, attempt: int) -> WriteResult:
        live = await self._read(change.resource, change.obj)
        if live is None:
            return WriteResult(state=WriteState.GONE, obj=None, attempts=attempt)
        if uid_of(live) != uid_of(change.obj):
            return WriteResult(state=WriteState.SUPERSEDED, obj=live, attempts=attempt)
        return await self._try_onto(live, change, attempt=attempt)

    async def _try_onto(self, live: Object, change: _Change, *, attempt: int) -> WriteResult:
        resource = change.resource
        if change.unless(live) or not self._has_status(resource, live):
            return WriteResult(state=WriteState.SKIPPED, obj=live, attempts=attempt)
        found = conditions_found(live)
        wanted = change.compute(list(found))
        if wanted == found:
            return WriteResult(state=WriteState.UNCHANGED, obj=live, attempts=attempt)
        try:
            written, sent = await self._send_acceptable(resource, live, wanted=wanted)
        except NotFound:
            # The object went between read and write; where it is still there, the kind has no such subresource.
            if await self._read(resource, change.obj) is not None:
                raise
            return WriteResult(state=WriteState.GONE, obj=None, attempts=attempt)
        state = WriteState.UNCHANGED if written is live else WriteState.WRITTEN
        pruned = state is WriteState.WRITTEN and self._note_pruned(resource, written, wanted=sent)
        return WriteResult(state=state, obj=written, attempts=attempt, pruned=pruned)

    async def _read(self, resource: Resource, obj: Object) -> Object | None:
        try:
            return await self._client.get(resource, namespace=namespace_of(obj), name=name_of(obj))
        except NotFound as error:
            if not error.names_object:
                raise  # its kind is not served, perhaps for a moment only: nothing is known about the object
            return None

    async def _send_acceptable(
        self, resource: Resource, live: Object, *, wanted: list[Any]
    ) -> tuple[Object, list[Any]]:
        """Send *wanted*, or what the CRD's schema accepts of it; *live* itself comes back where that is there already.

        Returns:
            the object as it is now, and the conditions that were sent.
        """
        try:
            return await self._send(resource, live, wanted=wanted), wanted
        except Invalid as refusal:
            found = conditions_found(live)
            for form in plainer_forms(wanted, found=found, refusal=refusal.message):
                if form == found:
                    return live, form
                with contextlib.suppress(Invalid):
                    written = await self._send(resource, live, wanted=form)
                    sentence = "The CRD's schema refuses the conditions, so they say less; widen it"
                    self._tell_once(resource, sentence, refusal=refusal.message)
                    return written, form
            raise

    async def _send(self, resource: Resource, live: Object, *, wanted: list[Any]) -> Object:
        """Send *wanted* to where the kind has its status, also where a change of its CRD just moved that."""
        try:
            written = await self._send_to(resource, live, wanted=wanted)
        except NotFound:
            moved = await self._look_again(resource)
            if moved == resource:
                raise
            return await self._send_to(moved, live, wanted=wanted)
        if "status" in resource.subresources or conditions_found(written) != conditions_found(live):
            return written
        moved = await self._look_again(resource)  # nothing of it was kept: so it is where there is a subresource now
        return written if moved == resource else await self._send_to(moved, live, wanted=wanted)

    async def _look_again(self, resource: Resource) -> Resource:
        return resource if self._look_up is None else await self._look_up(resource.gvk)

    async def _send_to(self, resource: Resource, live: Object, *, wanted: list[Any]) -> Object:
        if "status" in resource.subresources:
            status = live.get("status")
            body = {**live, "status": {**(status if isinstance(status, dict) else {}), "conditions": wanted}}
            return await self._client.replace(resource, body=body, subresource="status")
        # A merge patch that names resourceVersion and UID meets Conflict just as a PUT does, and sends nothing else.
        unchanged = {"resourceVersion": resource_version_of(live), "uid": uid_of(live)}
        return await self._client.patch(
            resource,
            namespace=namespace_of(live),
            name=name_of(live),
            body={"metadata": unchanged, "status": {"conditions": wanted}},
        )

    def _has_status(self, resource: Resource, live: Object) -> bool:
        """Tell whether the kind can have a status: ConfigMap, Secret and their like have no generation either."""
        if "status" in resource.subresources or generation_of(live):
            return True
        self._tell_once(resource, "This kind has no status; its conditions are not written")
        return False

    def _note_pruned(self, resource: Resource, written: Object, *, wanted: list[Any]) -> bool:
        """Tell once per kind what the API server did not keep; it isn't written again for that."""
        kept = {entry["type"]: entry for entry in conditions_found(written) if is_ours(entry)}
        asked = {entry["type"]: entry for entry in wanted if is_ours(entry)}
        lost = sorted({
            f"{type_}.{key}" for type_, entry in asked.items() for key in entry.keys() - kept.get(type_, {}).keys()
        })
        if lost:
            sentence = "The CRD's schema lets the API server drop fields of the conditions; add them to the schema"
            self._tell_once(resource, sentence, dropped=lost)
        return bool(lost)

    def _tell_once(self, resource: Resource, sentence: str, **keys: object) -> None:
        if (resource, sentence) not in self._told:
            self._told.add((resource, sentence))
            self._logger.info(sentence, GVK=str(resource.gvk), **keys)
