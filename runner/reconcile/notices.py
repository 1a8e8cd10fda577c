"""What an object's Events said already, so that a periodic run doesn't repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from runner.workqueue.request import Request


class Events(Protocol):
    """Writes Kubernetes Events (`runner.kube.events.EventRecorder`)."""

    async def record(
        self,
        obj: Mapping[str, Any],
        *,
        type: str,  # noqa: A002 - the field's name in an Event
        reason: str,
        message: str,
    ) -> None:
        """Tell *message* about *obj*; never raise."""
        ...


class NoEvents:
    """Nobody reads Events: the default of `Parts`, for reconciles that are put together without an API server."""

    async def record(
        self,
        obj: Mapping[str, Any],
        *,
        type: str,  # noqa: A002 - the field's name in an Event
        reason: str,
        message: str,
    ) -> None:
        """Say nothing."""


class Notices:
    """Remembers for which state of each object something was told; in memory, as a restart may repeat it."""

    def __init__(self) -> None:
        """Start with none."""
        self._told: dict[Request, tuple[str, int]] = {}

    def is_new(self, request: Request, *, uid: str, wish: int) -> bool:
        """Tell whether nothing was told yet about what the object *uid* asks for; from now on it was."""
        new = self._told.get(request) != (uid, wish)
        self._told[request] = (uid, wish)
        return new

    def forget(self, request: Request) -> None:
        """Drop what is known of an object that is gone, or that has nothing to be told any more."""
        self._told.pop(request, None)
