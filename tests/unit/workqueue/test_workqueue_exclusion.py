"""One run per UID over the queues of several watches (field case W3)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.settings import BackoffSettings
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually
from runner.workqueue.backoff import Backoff
from runner.workqueue.exclusion import Claims, Exclusion
from runner.workqueue.request import Request
from runner.workqueue.workers import run_workers
from runner.workqueue.workqueue import WorkQueue

UID = "8d7f0f0c"


@dataclass(kw_only=True)
class Side:
    """One watch: its queue and its view of the table."""

    gvk: GVK
    queue: WorkQueue
    claims: Claims

    def key(self, name: str = "a") -> Request:
        """Return the key of one object."""
        return Request(self.gvk, "default", name)

    async def take(self, *, uid: str = UID) -> tuple[Request, bool]:
        """Take the next key and try to claim; a refused one is done at once, as its reconcile ends."""
        request = await asyncio.wait_for(self.queue.get(), timeout=30)
        claimed = self.claims.claim(request, uid=uid)
        if not claimed:
            self.claims.end(request)
            self.queue.done(request)
        return request, claimed

    def finish(self, request: Request) -> None:
        """End the reconcile of a key."""
        self.claims.end(request)
        self.queue.done(request)


@pytest.fixture
def table() -> Exclusion:
    """Return an empty table."""
    return Exclusion()


@pytest.fixture
def sides(table: Exclusion) -> Iterator[list[Side]]:
    """Return three watches on one kind."""
    clock = FakeClock()
    made = []
    for version in ("v1", "v2", "v3"):
        gvk = GVK("example.com", version, "Widget")
        queue = WorkQueue(clock=clock, backoff=Backoff(BackoffSettings(), lambda: 0.5), name=str(gvk))
        made.append(Side(gvk=gvk, queue=queue, claims=table.for_queue(queue, name=str(gvk))))
    yield made
    for side in made:
        side.queue.close()


async def test_the_second_watch_waits_without_a_worker(table: Exclusion, sides: list[Side]) -> None:
    """A key whose object is being reconciled by another watch is neither in line nor in a worker's hands."""
    first, second, _ = sides
    first.queue.add(first.key())
    second.queue.add(second.key())
    assert (await first.take())[1]
    assert not (await second.take())[1]
    assert (second.queue.depth, second.queue.processing, second.queue.parked) == (0, 0, 1)
    assert (table.claimed, table.parked) == (1, 1)


async def test_a_parked_key_comes_back_when_the_other_ends(table: Exclusion, sides: list[Side]) -> None:
    """The end of the other reconcile puts the key in line, and then it gets the object."""
    first, second, _ = sides
    first.queue.add(first.key())
    second.queue.add(second.key())
    held, _ = await first.take()
    await second.take()
    first.finish(held)
    assert (second.queue.depth, second.queue.parked) == (1, 0)
    request, claimed = await second.take()
    assert claimed
    second.finish(request)
    assert (table.claimed, table.parked) == (0, 0)


async def test_a_parked_key_goes_ahead_of_its_queue(sides: list[Side]) -> None:
    """Its turn had come once: it passes fresh keys that were added meanwhile."""
    first, second, _ = sides
    first.queue.add(first.key())
    second.queue.add(second.key(), fresh=False)
    held, _ = await first.take()
    await second.take()
    second.queue.add(second.key("fresh"))
    first.finish(held)
    assert (await second.take())[0].name == "a"


async def test_changes_while_parked_neither_wake_nor_double_the_key(sides: list[Side]) -> None:
    """An object that changes while its key is parked is reconciled once, afterwards."""
    first, second, _ = sides
    first.queue.add(first.key())
    second.queue.add(second.key())
    held, _ = await first.take()
    await second.take()
    for _ in range(3):
        second.queue.add(second.key())
    assert second.queue.depth == 0
    first.finish(held)
    request, _ = await second.take()
    second.finish(request)
    assert second.queue.depth == 0


async def test_a_delay_of_a_parked_key_is_kept(sides: list[Side]) -> None:
    """Parking decides nothing: the period that was pending when the key was handed out is pending after it."""
    first, second, _ = sides
    second.queue.add_after(second.key(), 100)
    second.queue.add(second.key())
    first.queue.add(first.key())
    await first.take()
    await second.take()
    assert (second.queue.parked, second.queue.delayed) == (1, 1)


async def test_who_waits_longest_is_next_and_nobody_overtakes(sides: list[Side]) -> None:
    """The watch that held the object goes behind those that wait, however fast its key returns."""
    first, second, third = sides
    for side in sides:
        side.queue.add(side.key())
    held, _ = await first.take()
    await second.take()
    await third.take()
    first.queue.add(first.key())
    first.finish(held)
    assert not (await first.take())[1]
    request, claimed = await second.take()
    assert claimed
    second.finish(request)
    request, claimed = await third.take()
    assert claimed
    third.finish(request)
    assert (await first.take())[1]


async def test_a_called_key_whose_object_is_gone_frees_the_place(table: Exclusion, sides: list[Side]) -> None:
    """A key that comes back and finds nothing to claim (deleted, or no answer) lets the next one in."""
    first, second, third = sides
    for side in sides:
        side.queue.add(side.key())
    held, _ = await first.take()
    await second.take()
    await third.take()
    first.finish(held)
    second.finish(await second.queue.get())  # its read said 404
    request, claimed = await third.take()
    assert claimed
    third.finish(request)
    assert (table.claimed, table.parked) == (0, 0)


async def test_a_name_with_another_object_meanwhile_frees_the_old_uid(table: Exclusion, sides: list[Side]) -> None:
    """A key that comes back to an object of another UID claims that one, and holds up nobody on the old one."""
    first, second, third = sides
    for side in sides:
        side.queue.add(side.key())
    held, _ = await first.take()
    await second.take()
    await third.take()
    first.finish(held)
    anew, claimed = await second.take(uid="another")
    assert claimed
    old, claimed = await third.take()
    assert claimed
    second.finish(anew)
    third.finish(old)
    assert (table.claimed, table.parked) == (0, 0)


async def test_different_objects_do_not_wait_for_each_other(sides: list[Side]) -> None:
    """Exclusion is by UID: two watches work on two objects at once."""
    first, second, _ = sides
    first.queue.add(first.key("a"))
    second.queue.add(second.key("b"))
    assert (await first.take(uid="1"))[1]
    assert (await second.take(uid="2"))[1]


async def test_the_end_between_refusal_and_done_loses_nothing(sides: list[Side]) -> None:
    """A key that is called back before its worker has put it down is in line afterwards."""
    first, second, _ = sides
    first.queue.add(first.key())
    second.queue.add(second.key())
    held, _ = await first.take()
    request = await second.queue.get()
    assert not second.claims.claim(request, uid=UID)
    first.finish(held)
    second.claims.end(request)
    second.queue.done(request)
    assert (second.queue.depth, second.queue.parked) == (1, 0)
    assert (await second.take())[1]


async def test_a_closed_queue_drains_with_keys_parked(sides: list[Side]) -> None:
    """Shutting down waits for nobody who is parked, and hands nothing out."""
    first, second, _ = sides
    first.queue.add(first.key())
    second.queue.add(second.key())
    held, _ = await first.take()
    await second.take()
    for side in sides:
        side.queue.close()
    await asyncio.wait_for(second.queue.drained(), timeout=30)
    first.finish(held)
    await asyncio.wait_for(first.queue.drained(), timeout=30)
    assert second.queue.depth == 0


async def test_only_a_key_in_processing_can_be_parked(sides: list[Side]) -> None:
    """Parking a key that no worker has would lose it; that is refused."""
    with pytest.raises(ValueError, match="is not being processed"):
        sides[0].queue.park(sides[0].key())


def test_two_watches_of_one_name_are_refused(table: Exclusion, sides: list[Side]) -> None:
    """Their keys could not be told apart."""
    with pytest.raises(ValueError, match="two watches are called"):
        table.for_queue(sides[0].queue, name=str(sides[0].gvk))


@dataclass
class Shop:
    """Three watches with real workers on the same objects; notes overlaps and counts runs."""

    choices: random.Random
    sides: list[Side]
    running: set[str] = field(default_factory=set)
    runs: dict[tuple[str, str], int] = field(default_factory=dict)
    attempts: int = 0
    overlaps: int = 0

    async def handle(self, request: Request) -> None:
        """Reconcile: read for some turns, claim, run for some turns, sometimes ask to come again or break."""
        side = next(side for side in self.sides if side.gvk == request.gvk)
        self.attempts += 1
        try:
            await self._turns()
            if side.claims.claim(request, uid=request.name):
                await self._run(request)
        finally:
            side.claims.end(request)

    async def _run(self, request: Request) -> None:
        self.overlaps += request.name in self.running
        self.running.add(request.name)
        await self._turns()
        self.running.discard(request.name)
        key = (request.gvk.version, request.name)
        self.runs[key] = self.runs.get(key, 0) + 1

    async def _turns(self) -> None:
        for _ in range(self.choices.randrange(5)):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(5))
async def test_many_objects_and_watches_at_once(table: Exclusion, sides: list[Side], seed: int) -> None:
    """Under random timing no object is run twice at once, no key is lost, and nobody polls."""
    shop = Shop(random.Random(seed), sides)  # noqa: S311 - repeatable, nothing secret
    logger = Logger(sink=RecordingSink())
    pools = [asyncio.create_task(run_workers(side.queue, count=2, handle=shop.handle, logger=logger)) for side in sides]
    names = [str(number) for number in range(10)]
    for _ in range(20):
        for side in sides:
            for name in names:
                side.queue.add(side.key(name), fresh=shop.choices.random() < 0.5)
        await asyncio.sleep(0)
    idle = [0, 0, 0]
    await eventually(lambda: [side.queue.depth + side.queue.processing + side.queue.parked for side in sides] == idle)
    for side in sides:
        side.queue.close()
    await asyncio.gather(*pools)
    assert shop.overlaps == 0
    assert set(shop.runs) == {(side.gvk.version, name) for side in sides for name in names}
    assert shop.attempts <= 2 * sum(shop.runs.values())  # parked at most once per run: called keys are not refused
    assert (table.claimed, table.parked) == (0, 0)
