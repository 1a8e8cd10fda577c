"""The replay: each request sent directly and through the proxy, and the answers compared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.proxy_bench.case import Case
from tools.proxy_bench.compare import differences
from tools.proxy_bench.stage import Stage
from tools.proxy_bench.target import Way

_AT_ONCE = 4
_TRIES = 3
"""The cluster changes between two requests, by its own controllers or by somebody's kinds: only what stays is told."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one request showed."""

    case: Case
    status: int
    size: int
    """Bytes of the body of the API server's answer."""
    differences: Sequence[str]


async def replay(  # noqa: PLR0917 - the two ways are a pair
    cases: Sequence[Case], direct: Way, proxy: Way, *, stage: Stage, owned: bool
) -> list[Result]:
    """Send all *cases* both ways; *owned*: the proxy knows the sender as a live run."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(case: Case) -> Result:
        async with gate:
            return await _one(case, direct, proxy, stage=stage, owned=owned)

    return await asyncio.gather(*map(one, cases))


async def _one(  # noqa: PLR0917 - the two ways are a pair
    case: Case, direct: Way, proxy: Way, *, stage: Stage, owned: bool
) -> Result:
    request = stage.request(case)
    for _ in range(_TRIES):
        plain, proxied = await asyncio.gather(direct.send(request), proxy.send(request))
        found = differences(case, plain, proxied, owned=owned)
        if not found:
            break
    return Result(case=case, status=plain.status, size=len(plain.body), differences=found)


def table(results: Sequence[Result]) -> Iterator[str]:
    """Return the results as Markdown."""
    yield "| # | request | method | status | bytes | difference |"
    yield "|---|---|---|---|---|---|"
    for number, result in enumerate(results, 1):
        told = "; ".join(result.differences).replace("|", "\\|") or "none"
        case = result.case
        yield f"| {number} | {case.name} | {case.method} | {result.status} | {result.size} | {told} |"
    different = sum(bool(result.differences) for result in results)
    yield ""
    yield f"{len(results)} requests, {different} of them with a difference."
