"""Which kind a URL's plural is: `Mapper`, through API discovery of one group and version at a time.

The other direction is `Discovery`. What one broken aggregated API answers never disturbs another group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.clock import Clock, SystemClock
from runner.errors import Call, KubeError, NotFound
from runner.kube.discovery import Mapped, Requests, served_in

__all__ = ["Mapped", "Mapper"]

_PATIENCE = 1.0
"""Seconds between two questions for what isn't there: who hammers it costs the API server one request a second."""
_MOST_REMEMBERED = 1000
"""A client can name any group in a URL."""

_Served = Mapping[str, Mapped]


@dataclass(kw_only=True)
class _GroupVersion:
    """What is known of one group and version."""

    root: str
    asked: float = float("-inf")
    """When the newest question that has its answer was sent."""
    served: _Served = field(default_factory=dict)
    """By plural."""
    error: KubeError | None = None
    """How the newest question failed; what is known from before stays."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Mapper:
    """Finds resources by the plural in a URL, and remembers each group and version as it was served."""

    def __init__(self, *, client: Requests, clock: Clock | None = None) -> None:
        """Ask through *client*."""
        self._client = client
        self._clock = clock or SystemClock()
        self._groups: dict[tuple[str, str], _GroupVersion] = {}

    async def find(
        self, group: str, version: str, *, plural: str, namespaced: bool | None = None, max_age: float = 0.0
    ) -> Mapped | None:
        """Return what *plural* is, None where the API server serves no such thing.

        What isn't known is asked for anew, so that a None is never older than the call; so is what is known with
        another scope, as a CRD that was deleted may have come back with that one.

        Args:
            group: the API group, empty for the core group.
            version: its version.
            plural: as in the URL.
            namespaced: whether the URL names a namespace that it lies in; None: that doesn't matter.
            max_age: seconds by which a None may be older, for who can live with that.

        Raises:
            KubeError: the API server can't say.
        """
        state = self._state(group, version)
        found = _in_scope(state.served.get(plural), namespaced=namespaced)
        if found is not None:
            return found
        came = self._clock.monotonic()
        async with state.lock:  # one question at a time, and its answer serves all who came before it was sent
            found = _in_scope(state.served.get(plural), namespaced=namespaced)
            if found is not None:
                return found
            if state.asked < came - max_age:
                await self._clock.sleep(state.asked + _PATIENCE - came)
                await self._ask(state, group=group, version=version)
            if state.error is not None:
                raise state.error.with_traceback(None)
            return state.served.get(plural)

    def _state(self, group: str, version: str) -> _GroupVersion:
        key = (group, version)
        if key not in self._groups:
            for oldest in [*self._groups][: len(self._groups) + 1 - _MOST_REMEMBERED]:
                del self._groups[oldest]
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            self._groups[key] = _GroupVersion(root=root)
        return self._groups[key]

    async def _ask(self, state: _GroupVersion, *, group: str, version: str) -> None:
        asked, error = self._clock.monotonic(), None
        call = Call(verb="discover", resource=state.root.strip("/"))
        try:
            document = await self._client.request("GET", state.root, call=call)
        except NotFound:
            document = {}
        except KubeError as refusal:
            error, document = refusal, {}
        state.asked, state.error = asked, error
        if error is None:
            entries = served_in(document, group=group, version=version)
            state.served = {entry.resource.plural: entry for entry in entries}


def _in_scope(found: Mapped | None, *, namespaced: bool | None) -> Mapped | None:
    return None if found is None or namespaced not in {None, found.resource.namespaced} else found
