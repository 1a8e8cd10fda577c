"""The work queue against a model: random operations, compared step by step."""

from __future__ import annotations

import random

import pytest

from runner.kube.objects import GVK
from runner.settings import BackoffSettings
from runner.testing.clock import FakeClock
from runner.workqueue.backoff import Backoff
from runner.workqueue.request import Request
from runner.workqueue.workqueue import WorkQueue

_GVK = GVK("example.com", "v1", "Widget")
OPERATIONS = ["add", "after", "fail", "forget", "cancel", "get", "get", "done", "done", "advance", "parking", "parking"]
KEYS = [Request(_GVK, "default", str(number)) for number in range(6)]


class Model:
    """The queue's rules, written down as plainly as possible: lists, and a walk over all keys at each step."""

    def __init__(self) -> None:
        """Start empty at time zero."""
        self.time = 0.0
        self.fresh: list[Request] = []
        self.periodic: list[Request] = []
        self.again: dict[Request, bool] = {}
        self.held: dict[Request, tuple[float, bool] | None] = {}
        self.delays: dict[Request, tuple[float, bool]] = {}
        self.failures: dict[Request, int] = {}
        self.passed = 0
        self.parked: set[Request] = set()
        self.returned: list[Request] = []

    def add(self, request: Request, *, fresh: bool) -> None:
        """Put a key in line."""
        if request in self.parked or request in self.returned:
            return
        if request in self.held:
            self.again[request] = fresh or self.again.get(request, False)
        elif fresh and request not in self.fresh:
            self.periodic = [other for other in self.periodic if other != request]
            self.fresh.append(request)
        elif not fresh and request not in self.fresh + self.periodic:
            self.periodic.append(request)

    def add_after(self, request: Request, delay: float) -> None:
        """Delay a key."""
        if request in self.held:
            self.held[request] = None
        self.delay(request, (self.time + delay, False))

    def delay(self, request: Request, wanted: tuple[float, bool]) -> None:
        """Merge a delay."""
        present = self.delays.get(request, wanted)
        self.delays[request] = (min(present[0], wanted[0]), present[1] or wanted[1])

    def fail(self, request: Request, *, delay: float) -> None:
        """Count a failure."""
        self.failures[request] = self.failures.get(request, 0) + 1
        self.add_after(request, delay)

    def forget(self, request: Request) -> None:
        """Reset a key."""
        self.failures[request] = 0
        if request in self.held:
            self.held[request] = None

    def cancel(self, request: Request) -> None:
        """Cancel a delay."""
        self.delays.pop(request, None)
        if request in self.held:
            self.held[request] = None

    def park(self, request: Request) -> None:
        """Hold a key back."""
        self.parked.add(request)
        self.again.pop(request, None)

    def unpark(self, request: Request) -> None:
        """Let a key come back."""
        if request not in self.parked:
            return
        self.parked.remove(request)
        if request in self.held:
            self.again[request] = True
        else:
            self.returned.append(request)

    def get(self) -> Request:
        """Hand out a key."""
        if self.returned:
            request = self.returned.pop(0)
            self.held[request] = self.delays.pop(request, None)
            return request
        take_fresh = bool(self.fresh) and (not self.periodic or self.passed < 9)
        self.passed = self.passed + 1 if take_fresh and self.periodic else 0
        request = (self.fresh if take_fresh else self.periodic).pop(0)
        self.held[request] = self.delays.pop(request, None)
        return request

    def done(self, request: Request) -> None:
        """Finish a key."""
        delay = self.held.pop(request)
        if delay is not None:
            self.delay(request, delay)
        if request in self.again:
            self.add(request, fresh=self.again.pop(request))

    def advance(self, seconds: float) -> None:
        """Move time."""
        self.time += seconds
        due = sorted((delay[0], request) for request, delay in self.delays.items() if delay[0] <= self.time)
        for _, request in due:
            self.add(request, fresh=self.delays.pop(request)[1])


async def step(choices: random.Random, *, queue: WorkQueue, model: Model, clock: FakeClock) -> None:
    """Do one random operation to both."""
    request = choices.choice(KEYS)
    fresh = choices.random() < 0.5
    # Fractions that never meet: the order of two keys due at the same moment is nobody's promise.
    delay = choices.uniform(0.1, 20)
    match choices.choice(OPERATIONS):
        case "add":
            queue.add(request, fresh=fresh)
            model.add(request, fresh=fresh)
        case "after":
            queue.add_after(request, delay)
            model.add_after(request, delay)
        case "fail":
            model.fail(request, delay=queue.add_rate_limited(request))
        case "forget":
            queue.forget(request)
            model.forget(request)
        case "cancel":
            queue.cancel_delayed(request)
            model.cancel(request)
        case "get" if queue.depth:
            assert await queue.get() == model.get()
        case "done" if model.held:
            finished = choices.choice(sorted(model.held))
            queue.done(finished)
            model.done(finished)
        case "advance":
            await clock.advance(delay)
            model.advance(delay)
        case "parking":
            park_or_unpark(choices, queue=queue, model=model)


def park_or_unpark(choices: random.Random, *, queue: WorkQueue, model: Model) -> None:
    """Park a key that is held, or let one come back."""
    if model.held and choices.random() < 0.5:
        held = choices.choice(sorted(model.held))
        queue.park(held)
        model.park(held)
    else:
        request = choices.choice(KEYS)
        queue.unpark(request)
        model.unpark(request)


@pytest.mark.parametrize("seed", range(10))
async def test_random_operations_follow_the_model(seed: int) -> None:
    """A thousand random operations leave the queue exactly where the rules say, at each step."""
    choices = random.Random(seed)  # noqa: S311 - repeatable, nothing secret
    clock, model = FakeClock(), Model()
    queue = WorkQueue(clock=clock, backoff=Backoff(BackoffSettings(), choices.random))
    for _ in range(1000):
        await step(choices, queue=queue, model=model, clock=clock)
        # A timer that is due at this very moment has its turn before the comparison.
        await clock.settle()
        model.advance(0)
        assert queue.depth == len(model.returned) + len(model.fresh) + len(model.periodic)
        assert queue.parked == len(model.parked)
        assert queue.processing == len(model.held)
        assert queue.delayed == len(model.delays)
        assert [queue.failures(request) for request in KEYS] == [model.failures.get(request, 0) for request in KEYS]
    queue.close()
