"""Writes our conditions through the status subresource, so that nothing of another writer is ever lost.

Each try reads the object live, computes the wanted conditions from what is there, and sends the object's status back
with the resourceVersion that was read: if anybody wrote in between, the API server answers Conflict and the next try
starts from the new state. `PUT /status` is used and not a patch, as roles of existing operators grant `update` there,
which is what the peer uses.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
from runner.kube.objects import Object, generation_of, name_of, namespace_of, resource_version_of, uid_of
from runner.logs import Logger
from runner.settings import StatusSettings
from runner.status.conditions import OURS, conditions_found
from runner.status.plain import plainer_forms

Compute = Callable[[list[Any]], list[Any]]
"""From the conditions found to those wanted; pure, as it is called once per try (`Transition.apply` is one)."""

_RETRIED = (Conflict, TooManyRequests, ServerError, ConnectionFailed)


class StatusClient(Protocol):
    """The verbs of `KubeClient` that a status write needs."""

    async def get(self, resource: Resource, *, namespace: str = "", name: str) -> Object:
        """Read one object."""
        ...

    async def replace(self, resource: Resource, *, body: Object, subresource: str = "") -> Object:
        """PUT an object or its subresource."""
        ...

    async def patch(
        self,
        resource: Resource,
        *,
        name: str,
        body: Object | Sequence[Object],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Patch an object."""
        ...


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
    """The kind has no status."""


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


class StatusWriter:
    """Writes conditions, with retries on what may go well the next time."""

    def __init__(
        self,
        *,
        client: StatusClient,
        clock: Clock,
        delay: Callable[[int], float],
        settings: StatusSettings,
        logger: Logger,
    ) -> None:
        """Wait by *clock* after the n-th failure for *delay(n)* seconds (`Backoff(settings.backoff, random).delay`)."""
        self._client = client
        self._clock = clock
        self._delay = delay
        self._settings = settings
        self._logger = logger
        self._told: set[tuple[Resource, str]] = set()

    async def write(self, resource: Resource, obj: Object, *, compute: Compute) -> WriteResult:
        """Bring the conditions of *obj* to what *compute* makes of those found on the live object.

        Raises:
            StatusWriteExhausted: tries or time are used up; the caller keeps the transition and comes again.
            KubeError: an answer that another try would not change: Forbidden, Unauthorized (the client has read its
                credentials again), Invalid in every form of the conditions, NotFound of the status subresource.
        """
        started = self._clock.monotonic()
        attempt = 1
        while True:
            try:
                return await self._try(resource, obj, compute=compute, attempt=attempt)
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

    async def _try(self, resource: Resource, obj: Object, *, compute: Compute, attempt: int) -> WriteResult:
        live = await self._read(resource, obj)
        if live is None:
            return WriteResult(state=WriteState.GONE, obj=None, attempts=attempt)
        if uid_of(live) != uid_of(obj):
            return WriteResult(state=WriteState.SUPERSEDED, obj=live, attempts=attempt)
        if not self._has_status(resource, live):
            return WriteResult(state=WriteState.SKIPPED, obj=live, attempts=attempt)
        found = conditions_found(live)
        wanted = compute(list(found))
        if wanted == found:
            return WriteResult(state=WriteState.UNCHANGED, obj=live, attempts=attempt)
        try:
            written, sent = await self._send_acceptable(resource, live, wanted=wanted)
        except NotFound:
            # The object went between read and write; where it is still there, the kind has no such subresource.
            if await self._read(resource, obj) is not None:
                raise
            return WriteResult(state=WriteState.GONE, obj=None, attempts=attempt)
        state = WriteState.UNCHANGED if written is live else WriteState.WRITTEN
        pruned = state is WriteState.WRITTEN and self._note_pruned(resource, written, wanted=sent)
        return WriteResult(state=state, obj=written, attempts=attempt, pruned=pruned)

    async def _read(self, resource: Resource, obj: Object) -> Object | None:
        try:
            return await self._client.get(resource, namespace=namespace_of(obj), name=name_of(obj))
        except NotFound:
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
            for form in plainer_forms(wanted, refusal=refusal.message):
                if form == conditions_found(live):
                    return live, form
                with contextlib.suppress(Invalid):
                    written = await self._send(resource, live, wanted=form)
                    sentence = "The CRD's schema refuses the conditions, so they say less; widen it"
                    self._tell_once(resource, sentence, refusal=refusal.message)
                    return written, form
            raise

    async def _send(self, resource: Resource, live: Object, *, wanted: list[Any]) -> Object:
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
        kept = {entry["type"]: entry for entry in conditions_found(written) if _is_ours(entry)}
        asked = {entry["type"]: entry for entry in wanted if _is_ours(entry)}
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


def _is_ours(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("type") in OURS
