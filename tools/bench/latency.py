"""Applied to Successful, one object at a time, in turns: created, then edited, with the processor time of the first."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from runner.kube.discovery import Resource
from tools.bench.catalogue import EC2, ONE_TASK
from tools.bench.contestants import FLOOR, PEER, Running
from tools.bench.processes import lives
from tools.bench.results import Results
from tools.bench.watching import Collection, RunFailedError, Told, collection, completion, ready, successful
from tools.proxy_bench.target import Way

_LIMIT = 180.0
_LOOK = 2.0
_EDITS = 3
"""Rounds with edits."""
_ORDER = random.Random(6)  # noqa: S311 - no secret
EC2_SPEC = {
    "region": "us-east-1",
    "imageId": "ami-0c0ffee0000000001",
    "instanceType": "t3.micro",
    "checkInterval": "10h",  # no second look while others are measured
}


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One contestant and its objects of one kind."""

    running: Running
    objects: Collection

    @property
    def name(self) -> str:
        """Return the contestant's name."""
        return self.running.name

    async def passed(self, future: asyncio.Future[Told], *, limit: float = _LIMIT) -> Told:
        """Return the moment; raise `RunFailedError` where a run failed, none ended, or the operator is gone."""
        deadline = time.monotonic() + limit
        while not future.done():
            await asyncio.wait({future}, timeout=_LOOK)
            if not lives(self.running.pid):
                raise RunFailedError(f"the operator has ended, see {self.running.project.folder}/operator.log")
            if time.monotonic() > deadline:
                raise RunFailedError(f"an object was not told as wanted within {limit:.0f} s")
        return future.result()


@asynccontextmanager
async def lanes(way: Way, runnings: Sequence[Running], *, kind: Resource) -> AsyncIterator[list[Lane]]:
    """Give a lane for each of *runnings*."""
    async with AsyncExitStack() as stack:
        yield [
            Lane(
                running=one,
                objects=await stack.enter_async_context(collection(way, kind=kind, namespace=one.namespace)),
            )
            for one in runnings
        ]


async def measure(section: str, lanes_: list[Lane], *, rounds: Iterator[int], results: Results) -> None:
    """Measure *section* with each lane in turn; who fails is left out from then on, and the results say why.

    A first round is for caches and counts for nothing, but not with EC2Instances, of which each takes long. All lanes
    are at rest when it begins. Of the longer role, edits are measured in the first rounds only.
    """
    if section != EC2.name:
        await _round(section, lanes_, name="warm-up", results=Results(notes=results.notes))
    for number in rounds:
        edited = section == ONE_TASK.name or number < _EDITS
        await _round(section, lanes_, name=f"round-{number}", results=results, edited=edited)


async def _round(section: str, lanes_: list[Lane], *, name: str, results: Results, edited: bool = True) -> None:
    for lane in _ORDER.sample(lanes_, len(lanes_)):
        try:
            if section == EC2.name:
                await _ec2(lane, name=name, results=results)
                continue
            told = await _created(section, lane, name=name, results=results)
            if edited:
                await _edited(section, lane, name=name, results=results, after=completion(told.obj))
        except (RunFailedError, TimeoutError) as error:
            lanes_.remove(lane)
            results.note(f"{lane.name} was left out of {section} from {name} on: {error}")


async def _created(section: str, lane: Lane, *, name: str, results: Results) -> Told:
    before = lane.running.used().cpu
    begun, future = await lane.objects.create(name, spec={"size": 1}, test=successful)
    told = await lane.passed(future)
    await lane.running.calm()
    results.add(f"{section}/new", lane.name, value=told.at - begun)
    results.add(f"{section}/cpu", lane.name, value=lane.running.used().cpu - before)
    return told


async def _edited(section: str, lane: Lane, *, name: str, results: Results, after: str) -> None:
    begun, future = await lane.objects.edit(name, spec={"size": 2}, test=lambda obj: successful(obj, after=after))
    told = await lane.passed(future)
    results.add(f"{section}/edit", lane.name, value=told.at - begun)
    await lane.running.calm()


async def _ec2(lane: Lane, *, name: str, results: Results) -> None:
    """Measure until the role is content, and until the runtime says so: the peer never does after `requeue_after`."""
    before = lane.running.used().cpu
    content = lane.objects.expect(name, test=ready)
    begun, future = await lane.objects.create(name, spec=EC2_SPEC, test=successful)
    results.add("ec2/ready", lane.name, value=(await lane.passed(content, limit=2 * _LIMIT)).at - begun)
    if lane.name != PEER:
        results.add("ec2/new", lane.name, value=(await lane.passed(future)).at - begun)
    await lane.running.calm()
    results.add("ec2/cpu", lane.name, value=lane.running.used().cpu - before)


def with_ansible(runnings: Sequence[Running]) -> list[Running]:
    """Leave the floor out."""
    return [one for one in runnings if one.name != FLOOR]
