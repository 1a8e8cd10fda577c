"""Kubernetes Events about objects, for people who look with `kubectl describe`; nobody's work depends on them.

The right to write Events is never needed: what cannot be written costs one log line, and the caller goes on. A message
must not hold a value of a spec or a Secret: Events are read by more people than those.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runner.clock import Clock, SystemClock, within
from runner.errors import NotFound, OperatorError
from runner.kube.client import KubeClient
from runner.kube.discovery import Resource
from runner.kube.names import is_subdomain
from runner.kube.objects import GVK, Object, name_of, namespace_of, resource_version_of, uid_of
from runner.logs import Logger

EVENTS = Resource(gvk=GVK("", "v1", "Event"), plural="events")
NORMAL = "Normal"
WARNING = "Warning"

_MESSAGE_BYTES = 1024
_MARK = " ..."
_KNOWN = 1024
"""How many Events are remembered, so that a repeated one is counted and not written anew; client-go has 4096."""


@dataclass(frozen=True, kw_only=True)
class _Key:
    """What makes two Events the same."""

    object: tuple[str, ...]
    type: str
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class _Written:
    """An Event that the API server has, and how often it was told."""

    name: str
    count: int


class EventRecorder:
    """Writes Events of one component; `record` never raises an error of ours."""

    def __init__(
        self,
        *,
        client: KubeClient,
        logger: Logger,
        component: str = "ansible-operator",
        clock: Clock | None = None,
        limit: float = 5.0,
    ) -> None:
        """Write as *component*; one Event may take *limit* seconds of the caller's time."""
        self._client = client
        self._logger = logger.named("events")
        self._component = component
        self._clock = clock or SystemClock()
        self._limit = limit
        self._known: OrderedDict[_Key, _Written] = OrderedDict()
        self._told: set[tuple[str, str]] = set()

    async def record(
        self,
        obj: Mapping[str, Any],
        *,
        type: str = NORMAL,  # noqa: A002 - the field's name in an Event
        reason: str,
        message: str,
    ) -> None:
        """Tell *message* about *obj* (its apiVersion, kind, metadata), as `kubectl describe` shows it.

        Args:
            obj: the object; Events of one in no namespace stand in `default`.
            type: `Normal` or `Warning`.
            reason: one word in CamelCase, the same for all Events of one cause.
            message: a sentence; cut at 1 KiB.
        """
        key = _Key(object=_identity(obj), type=type, reason=reason, message=_cut(message))
        namespace = namespace_of(obj) or "default"
        try:
            await within(self._limit, self._write(obj, key=key, namespace=namespace), clock=self._clock)
        except (OperatorError, TimeoutError) as error:
            self._not_written(error, namespace=namespace, reason=reason)

    async def _write(self, obj: Mapping[str, Any], *, key: _Key, namespace: str) -> None:
        """Count an Event that is there already, else create it."""
        now = self._clock.now()
        known = self._known.get(key)
        if known is None or (known := await self._repeat(known, namespace=namespace, now=now)) is None:
            name = _event_name(name_of(obj), now=now)
            body = event_body(obj, key=key, name=name, component=self._component, now=now)
            await self._client.create(EVENTS, namespace=namespace, body=body)
            known = _Written(name=name, count=1)
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)

    async def _repeat(self, known: _Written, *, namespace: str, now: datetime) -> _Written | None:
        """Return what is written now; None where the Event is gone (they live for an hour)."""
        body = {"count": known.count + 1, "lastTimestamp": _stamp(now)}
        try:
            await self._client.patch(EVENTS, name=known.name, namespace=namespace, body=body)
        except NotFound:
            return None
        return _Written(name=known.name, count=known.count + 1)

    def _not_written(self, error: BaseException, *, namespace: str, reason: str) -> None:
        first = (namespace, reason) not in self._told
        self._told.add((namespace, reason))
        tell = self._logger.info if first else self._logger.debug
        tell("An Event is not written; grant create and patch on events to have them", reason=reason, error=str(error))


def event_body(obj: Mapping[str, Any], *, key: _Key, name: str, component: str, now: datetime) -> Object:
    """Return the core/v1 Event *name* of *component* about *obj*."""
    about = {
        "apiVersion": str(obj.get("apiVersion", "")),
        "kind": str(obj.get("kind", "")),
        "namespace": namespace_of(obj),
        "name": name_of(obj),
        "uid": uid_of(obj),
        "resourceVersion": resource_version_of(obj),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace_of(obj) or "default"},
        "involvedObject": {field: value for field, value in about.items() if value},
        "type": key.type,
        "reason": key.reason,
        "message": key.message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "count": 1,
        "firstTimestamp": _stamp(now),
        "lastTimestamp": _stamp(now),
    }


def _identity(obj: Mapping[str, Any]) -> tuple[str, ...]:
    gvk = GVK.of(obj)
    return gvk.group, gvk.version, gvk.kind, namespace_of(obj), name_of(obj), uid_of(obj)


def _event_name(of: str, *, now: datetime) -> str:
    """Return the name that client-go would give, a random one where that would not be allowed."""
    name = f"{of}.{int(now.timestamp() * 1_000_000) * 1000:x}"
    return name if is_subdomain(name) else str(uuid.uuid4())


def _cut(message: str) -> str:
    data = message.encode(errors="replace")
    if len(data) <= _MESSAGE_BYTES:
        return data.decode()
    return data[: _MESSAGE_BYTES - len(_MARK)].decode(errors="ignore") + _MARK


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
