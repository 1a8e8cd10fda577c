"""Rate and latency of each way, measured in turns: a round of requests on one, then on the next, again and again.

The machine's speed drifts over minutes and hits both ways alike, so that what a proxy adds is told by pairs: the median
over the rounds of the difference between a round's medians.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tools.proxy_bench.case import JSON, MAPS, MERGE, config_map
from tools.proxy_bench.figures import percentile
from tools.proxy_bench.target import Sent, Way

_PER_ROUND = 40
"""Requests of a round, for each number of connections the same."""
_BETWEEN = 0.01
"""Seconds between two changes, so that no event waits for another one."""
_ACCEPT = {"Accept": JSON}


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A way, and the namespace in which it is measured; it has the ConfigMaps `m-0` to `m-99`."""

    way: Way
    namespace: str

    @property
    def name(self) -> str:
        """Return the way's name."""
        return self.way.target.name

    @property
    def maps(self) -> str:
        """Return the path of its ConfigMaps."""
        return MAPS.replace("{ns}", self.namespace)

    def one(self) -> Sent:
        """Read a small object."""
        return Sent(target=f"{self.maps}/m-7", headers=_ACCEPT)

    def version(self) -> Sent:
        """Read what costs the API server nothing."""
        return Sent(target="/version", headers=_ACCEPT)

    def many(self) -> Sent:
        """Read a hundred objects."""
        return Sent(target=f"{self.maps}?labelSelector=replay%3D{self.namespace}", headers=_ACCEPT)

    def make(self) -> Sent:
        """Create an object, which a proxy gives an owner."""
        body = json.dumps(config_map(labels={"made-by": "bench"})).encode()
        return Sent(method="POST", target=self.maps, headers={**_ACCEPT, "Content-Type": JSON}, body=body)

    def sweep(self) -> Sent:
        """Remove what was created."""
        return Sent(method="DELETE", target=f"{self.maps}?labelSelector=made-by%3Dbench")

    def mark(self, number: int) -> Sent:
        """Change an object."""
        body = json.dumps({"data": {"mark": str(number)}}).encode()
        headers = {**_ACCEPT, "Content-Type": MERGE}
        return Sent(method="PATCH", target=f"{self.maps}/m-0", headers=headers, body=body)


@dataclass(frozen=True, kw_only=True)
class Work:
    """One kind of request."""

    name: str
    request: Callable[[Lane], Sent]
    status: int = 200


WORKS = (
    Work(name="GET one ConfigMap", request=Lane.one),
    Work(name="GET /version", request=Lane.version),
    Work(name="LIST 100 ConfigMaps", request=Lane.many),
    Work(name="POST a ConfigMap", request=Lane.make, status=201),
)


@dataclass(kw_only=True)
class Series:
    """What was measured of one kind of request on one way, by rounds."""

    rounds: list[list[float]] = field(default_factory=list)
    """Seconds of each request."""
    walls: list[float] = field(default_factory=list)
    """Seconds of each round."""

    @property
    def all(self) -> list[float]:
        """Return every measurement."""
        return [seconds for one in self.rounds for seconds in one]

    @property
    def rate(self) -> float:
        """Return requests per second."""
        return len(self.all) / sum(self.walls)


async def measure(work: Work, lanes: Sequence[Lane], *, connections: int, requests: int) -> dict[str, Series]:
    """Return a series for each lane, by its name, of about *requests* on each."""
    series = {lane.name: Series() for lane in lanes}
    per_round = max(connections, min(_PER_ROUND, requests))
    for lane in lanes:  # connections come up, caches fill
        await _round(work, lane, connections=connections, requests=per_round)
    for _ in range(max(1, requests // per_round)):
        for lane in random.sample(lanes, len(lanes)):
            begun = time.perf_counter()
            seconds = await _round(work, lane, connections=connections, requests=per_round)
            series[lane.name].walls.append(time.perf_counter() - begun)
            series[lane.name].rounds.append(seconds)
    return series


async def _round(work: Work, lane: Lane, *, connections: int, requests: int) -> list[float]:
    """Send *requests*, as many at once as there are connections."""
    left = iter(range(requests))
    seconds: list[float] = []

    async def sender() -> None:
        for _ in left:
            answer = await lane.way.send(work.request(lane))
            if answer.status != work.status:
                told = answer.body[:300].decode(errors="replace")
                raise RuntimeError(f"{work.name} was answered with {answer.status} by {lane.name}: {told}")
            seconds.append(answer.seconds)

    await asyncio.gather(*(sender() for _ in range(connections)))
    return seconds


async def watch_delays(lanes: Sequence[Lane], *, changes: int) -> dict[str, list[float]]:
    """Return, by lane, after how many seconds a watch tells each of the *changes*, which are made by the first way."""
    sent: dict[tuple[str, str], float] = {}

    async def follow(lane: Lane, opened: asyncio.Event) -> list[float]:
        delays: list[float] = []
        # without a field selector, as the peer answers a watch of one name with the bare object
        request = Sent(target=f"{lane.maps}?watch=true", headers=_ACCEPT)
        async with lane.way.opened(request) as events:
            while len(delays) < changes:
                event = json.loads(await events.content.readline())
                if (key := (lane.namespace, event["object"]["data"].get("mark"))) in sent:
                    delays.append(time.perf_counter() - sent[key])
                opened.set()
        return delays

    opens = [asyncio.Event() for _ in lanes]
    of_namespace = {lane.namespace: lane for lane in lanes}
    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(follow(lane, opened)) for lane, opened in zip(lanes, opens, strict=True)]
        await asyncio.gather(*(opened.wait() for opened in opens))
        for number in range(changes):
            for namespace, lane in of_namespace.items():
                sent[namespace, str(number)] = time.perf_counter()
                await lanes[0].way.send(lane.mark(number))
                await asyncio.sleep(_BETWEEN)
    return {lane.name: follower.result() for lane, follower in zip(lanes, followers, strict=True)}


HEADING = (
    "| request | connections | way | requests | rate /s | p50 ms | p95 ms | added p50 ms | added p95 ms |",
    "|---|---|---|---|---|---|---|---|---|",
)


def rows(name: str, *, connections: int, series: Mapping[str, Series]) -> Iterator[str]:
    """Return a row per way; what a way adds is against the first one."""
    first, *_ = series.values()
    for way, one in series.items():
        added = ("", "") if one is first else tuple(_ms(_added(first, one, share=share)) for share in (0.5, 0.95))
        cells = [name, connections, way, len(one.all), f"{one.rate:.0f}", *_both(one.all), *added]
        yield f"| {' | '.join(map(str, cells))} |"


def delay_rows(delays: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Return a row per way of the delays of watch events."""
    first, *_ = delays.values()
    for way, seconds in delays.items():
        pairs = [two - one for one, two in zip(first, seconds, strict=True)]
        added = ["", ""] if seconds is first else [_ms(percentile(pairs, share)) for share in (0.5, 0.95)]
        cells = ["watch event after a PATCH", 1, way, len(seconds), "", *_both(seconds), *added]
        yield f"| {' | '.join(map(str, cells))} |"


def _added(first: Series, other: Series, *, share: float) -> float:
    """Return the median over pairs of rounds of what the other one's percentile is more."""
    pairs = zip(first.rounds, other.rounds, strict=True)
    return median(percentile(two, share) - percentile(one, share) for one, two in pairs)


def _both(seconds: Sequence[float]) -> list[str]:
    return [_ms(percentile(seconds, share)) for share in (0.5, 0.95)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"
