"""What the AWS side and the control side of one emulator share: settings, faults, calls, tokens and the time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from runner.clock import Clock
from runner.localdev.ec2.aws_request import Call
from runner.localdev.ec2.call_log import CallLog
from runner.localdev.ec2.client_tokens import ClientTokens
from runner.localdev.ec2.config import SimConfig
from runner.localdev.ec2.faults import FaultTable
from runner.localdev.ec2.throttle import TokenBucket

_STATIC = frozenset({"DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeRegions"})


class Simulation:
    """The knobs and the memory of one emulator."""

    def __init__(self, clock: Clock, config: SimConfig | None = None) -> None:
        """Start with *config* (its defaults), which is also what `reset` goes back to."""
        self.clock = clock
        self.faults = FaultTable()
        self.calls = CallLog(clock)
        self.bucket = TokenBucket(clock)
        self.tokens: ClientTokens[Any] = ClientTokens()
        self._first_config = config or SimConfig()
        self._locks: dict[str, threading.RLock] = {}
        self._locks_lock = threading.Lock()
        self._call: ContextVar[Call | None] = ContextVar("call", default=None)
        self._moment: ContextVar[float | None] = ContextVar("moment", default=None)
        self._sees_all: ContextVar[bool] = ContextVar("sees_all", default=False)
        self.configure(self._first_config)

    def configure(self, config: SimConfig) -> None:
        """Work by *config* from now on."""
        self.config = config
        self.bucket.limit(rate=config.rate, burst=config.burst)

    def reset(self) -> None:
        """Forget faults, calls, tokens and settings; moto's own memory is `moto_patches.reset`'s."""
        self.faults.clear()
        self.calls.clear()
        self.tokens.clear()
        self.configure(self._first_config)

    def now(self) -> float:
        """Return the monotonic time, standing still during a call: a filter and the state shown must agree."""
        moment = self._moment.get()
        return self.clock.monotonic() if moment is None else moment

    @property
    def call(self) -> Call | None:
        """Return the call that this thread carries out."""
        return self._call.get()

    @property
    def sees_all(self) -> bool:
        """Tell whether instances that callers don't see yet are seen in this thread."""
        return self._sees_all.get()

    @contextlib.contextmanager
    def carrying_out(self, call: Call) -> Iterator[None]:
        """Carry out *call* alone in its service: moto's tables are not made for several threads at once."""
        # What moto reads from files may take seconds (all instance types do) and needs no lock.
        with contextlib.nullcontext() if call.action in _STATIC else self._lock(call.service):
            tokens = self._call.set(call), self._moment.set(self.clock.monotonic())
            try:
                yield
            finally:
                self._moment.reset(tokens[1])
                self._call.reset(tokens[0])

    @contextlib.contextmanager
    def seeing_all(self) -> Iterator[None]:
        """See instances that are too young to be seen: a launch must find its own."""
        token = self._sees_all.set(True)
        try:
            yield
        finally:
            self._sees_all.reset(token)

    @contextlib.contextmanager
    def out_of_band(self) -> Iterator[None]:
        """Act on EC2's state beside the API."""
        with self._lock("ec2"), self.seeing_all():
            yield

    def _lock(self, service: str) -> threading.RLock:
        with self._locks_lock:
            return self._locks.setdefault(service, threading.RLock())
