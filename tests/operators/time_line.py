"""Follows one NodePool through the API server, and writes down each state that differs from the one before."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from runner.errors import Call
from runner.kube.client import KubeClient
from runner.kube.objects import conditions_of
from runner.testing.waiting import eventually
from tests.content.node_pool.pool_bench import NODE_POOLS


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One state of the pool, or something that somebody did."""

    at: float
    """Seconds since the follower began."""
    told: str
    """What was done; empty for a state."""
    generation: int = 0
    target: int = 0
    seen: int = 0
    """The generation that the status is for."""
    scale: str = ""
    nodes: tuple[int, int] = (0, 0)
    """`currentNodes` and `readyNodes`."""
    run: str = ""
    """The reason of the condition `Running`."""

    @property
    def state(self) -> tuple[object, ...]:
        """Return what makes it differ from another one."""
        return (self.generation, self.target, self.seen, self.scale, self.nodes, self.run)


@dataclass(kw_only=True)
class TimeLine:
    """What was seen so far."""

    began: float
    moments: list[Moment] = field(default_factory=list)

    def tell(self, what: str) -> None:
        """Write down what somebody did."""
        self.moments.append(Moment(at=self._now(), told=what))

    def take(self, pool: Mapping[str, Any]) -> None:
        """Write down the state of *pool* where it differs from the newest one."""
        status = pool.get("status") or {}
        running = next((item for item in conditions_of(dict(pool)) if item["type"] == "Running"), {})
        moment = Moment(
            at=self._now(),
            told="",
            generation=pool["metadata"]["generation"],
            target=pool["spec"]["targetNodes"],
            seen=status.get("observedGeneration", 0),
            scale=status.get("scaleOperation", ""),
            nodes=(status.get("currentNodes", 0), status.get("readyNodes", 0)),
            run=running.get("reason", ""),
        )
        if not self.states or self.states[-1].state != moment.state:
            self.moments.append(moment)

    @property
    def states(self) -> list[Moment]:
        """Return the states without what was done."""
        return [moment for moment in self.moments if not moment.told]

    def __str__(self) -> str:
        """Return the table."""
        heads = ("s", "generation", "targetNodes", "observedGeneration", "scaleOperation", "current, ready")
        rows = [f"| {' | '.join(heads)} | Running |", "|---|---|---|---|---|---|---|"]
        for one in self.moments:
            if one.told:
                rows.append(f"| {one.at:.1f} | **{one.told}** | | | | | |")
                continue
            cells = (one.generation, one.target, one.seen or "-", one.scale or "-", "{}, {}".format(*one.nodes))
            rows.append(f"| {one.at:.1f} | {' | '.join(map(str, cells))} | {one.run or '-'} |")
        return "\n".join(rows)

    def _now(self) -> float:
        return time.monotonic() - self.began


@contextlib.asynccontextmanager
async def followed(kube: KubeClient, *, namespace: str, name: str) -> AsyncIterator[TimeLine]:
    """Give the time line of a NodePool that is there, which grows until the end of the block."""
    line = TimeLine(began=time.monotonic())
    task = asyncio.create_task(_follow(kube, line, namespace=namespace, name=name))
    try:
        await eventually(lambda: line.states)
        yield line
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _follow(kube: KubeClient, line: TimeLine, *, namespace: str, name: str) -> None:
    query = [("watch", "true"), ("fieldSelector", f"metadata.name={name}")]
    call = Call(verb="watch", resource=NODE_POOLS.plural, namespace=namespace, name=name)
    path = NODE_POOLS.path(namespace=namespace)
    timeout = aiohttp.ClientTimeout(total=None)
    async with kube.stream("GET", path, call=call, timeout=timeout, query=query) as response:
        async for raw in response.content:
            line.take(json.loads(raw)["object"])
