"""The soak: varied requests of a run through the proxy, and changes of what it made, while the operator is sampled.

The run lasts, so that no plays dominate: changes of its dependents wait for its end. Half of them change a status only,
which starts no run in any case; half an annotation, which does.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.proxy_bench.case import JSON, MAPS, MERGE, PODS, Case, config_map
from tools.proxy_bench.cases_reads import READS
from tools.proxy_bench.cases_writes import WRITES
from tools.proxy_bench.sampling import Sample, sampled
from tools.proxy_bench.stage import Stage, create
from tools.proxy_bench.target import Sent, Way

_STRATEGIC = "application/strategic-merge-patch+json"
_AT_ONCE = 16
_CHANGERS = 4
_MAPS, _PODS = 20, 10
_REAL_WRITES = 10
"""One in so many requests makes an object that is kept for a moment."""
_HEAVY = frozenset({"/openapi/v2", "/metrics", "/openapi/v3/api/v1"})


@dataclass(frozen=True, kw_only=True)
class Load:
    """How much."""

    requests: int = 10_000
    changes: int = 50
    """A second."""
    seconds: float = 120.0


@dataclass(kw_only=True)
class Soaked:
    """What was done, and what was seen."""

    samples: list[Sample]
    statuses: Counter[int] = field(default_factory=Counter)
    """Of the requests through the proxy."""
    errors: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    seconds: float = 0.0


async def dependents(proxy: Way, *, namespace: str) -> None:
    """Let the run make the objects that will be changed."""
    for number in range(_MAPS):
        await create(proxy, MAPS.replace("{ns}", namespace), body=config_map(f"dependent-{number}"))
    spec = {"containers": [{"name": "a", "image": "registry.example.com/a:1"}], "nodeSelector": {"soak": "on-no-node"}}
    for number in range(_PODS):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"dependent-{number}"}, "spec": spec}
        await create(proxy, PODS.replace("{ns}", namespace), body=pod)


async def soak(proxy: Way, *, direct: Way, stage: Stage, load: Load, pid: int) -> Soaked:
    """Send the load and return what became of it; ends when both the requests and the time are over."""
    namespace = stage.values["ns"]
    async with sampled(pid) as samples:
        soaked = Soaked(samples=samples)
        begun = time.monotonic()
        requests = _requests(stage)
        changes = _changes(namespace)

        async def ask(number: int) -> None:
            request = next(requests) if number % _REAL_WRITES else _made(namespace, number)
            answer = await proxy.send(request)
            soaked.statuses[answer.status] += 1
            if request.method == "POST" and answer.status == 201 and not number % _REAL_WRITES:
                name = json.loads(answer.body)["metadata"]["name"]
                await proxy.send(Sent(method="DELETE", target=f"{MAPS.replace('{ns}', namespace)}/{name}"))

        async def change(_: int) -> None:
            answer = await direct.send(next(changes))
            soaked.changed += answer.status == 200

        total = round(load.changes * load.seconds)
        await asyncio.gather(
            _paced(ask, count=load.requests, seconds=load.seconds, at_once=_AT_ONCE, errors=soaked.errors),
            _paced(change, count=total, seconds=load.seconds, at_once=_CHANGERS, errors=soaked.errors),
        )
        soaked.seconds = time.monotonic() - begun
    return soaked


async def _paced(
    work: Callable[[int], Coroutine[Any, Any, None]], *, count: int, seconds: float, at_once: int, errors: Counter[str]
) -> None:
    """Do *work* *count* times, evenly over *seconds* or, where that is too fast, as fast as it goes."""
    begun, numbers = time.monotonic(), iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await asyncio.sleep(begun + number * seconds / count - time.monotonic())
            try:
                await work(number)
            except OSError as error:
                errors[type(error).__name__] += 1

    await asyncio.gather(*(worker() for _ in range(at_once)))


def _requests(stage: Stage) -> Iterator[Sent]:
    """Return requests for ever, in an order that is the same each time."""
    cases = [case for case in (*READS, *WRITES) if case.target not in _HEAVY and not _waits(case)]
    order = random.Random(1)  # noqa: S311 - no secret
    watches = [case for case in READS if case.lines]
    for number in itertools.count():
        chosen = order.choice(watches) if number % 100 == 0 else order.choice(cases)
        yield stage.request(chosen)


def _waits(case: Case) -> bool:
    """Tell whether the answer takes a second: watches are asked for more rarely."""
    return case.lines


def _made(namespace: str, number: int) -> Sent:
    headers = {"Accept": JSON, "Content-Type": JSON}
    body = json.dumps({**config_map(), "data": {"number": str(number)}}).encode()
    return Sent(method="POST", target=MAPS.replace("{ns}", namespace), headers=headers, body=body)


def _changes(namespace: str) -> Iterator[Sent]:
    """Return changes of the dependents for ever: a status, an annotation, and so on."""
    for number in itertools.count():
        if number % 2:
            annotation = {"metadata": {"annotations": {"soak": str(number)}}}
            target = f"{MAPS.replace('{ns}', namespace)}/dependent-{number // 2 % _MAPS}"
            yield _patch(target, body=annotation, kind=MERGE)
        else:
            condition = {"type": "Soaked", "status": "True", "message": str(number)}
            target = f"{PODS.replace('{ns}', namespace)}/dependent-{number // 2 % _PODS}/status"
            yield _patch(target, body={"status": {"conditions": [condition]}}, kind=_STRATEGIC)


def _patch(target: str, *, body: Mapping[str, Any], kind: str) -> Sent:
    headers = {"Accept": JSON, "Content-Type": kind}
    return Sent(method="PATCH", target=target, headers=headers, body=json.dumps(body).encode())


def summary(soaked: Soaked) -> Iterator[str]:
    """Return what was done, in Markdown."""
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(soaked.statuses.items()))
    sent = sum(soaked.statuses.values())
    cpu = soaked.samples[-1].cpu - soaked.samples[0].cpu
    yield (
        f"{sent} requests through the proxy ({sent / soaked.seconds:.0f} a second) and {soaked.changed} changes of "
        f"dependents ({soaked.changed / soaked.seconds:.0f} a second) in {soaked.seconds:.0f} s; "
        f"the operator took {cpu:.1f} s of processor time."
    )
    yield f"Answers: {statuses}; broken connections: {dict(soaked.errors) or 'none'}."
