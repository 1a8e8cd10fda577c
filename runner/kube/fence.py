"""The client that the controllers write with: it sends nothing any more once this instance may not lead.

Cancelling the workers ends what they do, but not at a certain point; a process that stood still (SIGSTOP, a paused
machine) wakes up in the middle of a step. So the last look at the lease is here, right before a request is sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import aiohttp

from runner.errors import Call, LeaderElectionLost
from runner.kube.client import KubeClient, Observe, Query
from runner.settings import KubeSettings

_READS = frozenset({"GET", "HEAD"})


class FencedClient(KubeClient):
    """A `KubeClient` that refuses to write while *fenced* says so."""

    def __init__(
        self,
        *,
        settings: KubeSettings,
        fenced: Callable[[], bool],
        around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        observe: Observe | None = None,
    ) -> None:
        """Ask *fenced* before each write; for the rest see `KubeClient`."""
        super().__init__(settings=settings, around=around, observe=observe)
        self._fenced = fenced

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        call: Call,
        timeout: aiohttp.ClientTimeout,
        query: Query = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open one request; see `KubeClient.stream`.

        Raises:
            LeaderElectionLost: it would write, and this instance does not lead any more.
        """
        if method not in _READS and self._fenced():
            raise LeaderElectionLost
        request = super().stream(method, path, call=call, timeout=timeout, query=query, body=body, headers=headers)
        async with request as response:
            yield response
