"""What discovery costs a run: the documents that the official Python client asks for, from each of three places."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.proxy_bench.case import JSON
from tools.proxy_bench.figures import percentile
from tools.proxy_bench.target import Sent, Way, opened, through

DOCUMENTS = ("/version", "/apis", "/api/v1", "/apis/apps/v1")
"""Of a role with tasks for core and apps, as recorded."""
_PLACES = ("direct", "forwarded by the proxy", "from the proxy's memory")


async def measure(direct: Way, *, kubeconfig: Path, runs: int) -> Mapping[str, Sequence[float]]:
    """Return, by place, the seconds that all documents of a run take, one after the other."""
    seconds: dict[str, list[float]] = {place: [] for place in _PLACES}
    async with (
        _serving(kubeconfig, runs=runs + 1) as served,
        opened(through(f"http://127.0.0.1:{served['port']}")) as way,
    ):
        first, *others = served["authorization"]
        await _documents(way, authorization=first)  # fills the memory; it is filled again every ten seconds
        for authorization in others:
            seconds[_PLACES[0]].append(await _documents(direct))
            seconds[_PLACES[1]].append(await _documents(way))
            seconds[_PLACES[2]].append(await _documents(way, authorization=authorization))
    return seconds


async def _documents(way: Way, *, authorization: str = "") -> float:
    headers = {"Accept": JSON, **({"Authorization": authorization} if authorization else {})}
    answers = [await way.send(Sent(target=target, headers=headers)) for target in DOCUMENTS]
    if any(answer.status != 200 for answer in answers):
        raise RuntimeError(f"discovery was answered with {[answer.status for answer in answers]}")
    return sum(answer.seconds for answer in answers)


@contextlib.asynccontextmanager
async def _serving(kubeconfig: Path, *, runs: int) -> AsyncIterator[Mapping[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tools.proxy_bench.many_runs", str(kubeconfig), str(runs),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
    )  # fmt: skip
    try:
        assert process.stdout is not None  # noqa: S101 - asked for above
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError("the proxy did not start: its output is above")
        yield json.loads(line)
    finally:
        assert process.stdin is not None  # noqa: S101 - asked for above
        process.stdin.close()
        await process.wait()


def table(seconds: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Return the figures as Markdown."""
    yield f"| {len(DOCUMENTS)} documents of a run | runs | p50 ms | p95 ms | against direct, median of pairs, ms |"
    yield "|---|---|---|---|---|"
    direct = seconds[_PLACES[0]]
    for place, values in seconds.items():
        pairs = median(one - other for one, other in zip(values, direct, strict=True)) * 1000
        cells = [f"{percentile(values, share) * 1000:.2f}" for share in (0.5, 0.95)]
        yield f"| {place} | {len(values)} | {' | '.join(cells)} | {pairs:+.2f} |"
