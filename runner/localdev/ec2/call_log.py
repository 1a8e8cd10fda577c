"""Every call of the AWS API in the order of arrival: what `/sim/calls` tells, and what tests count writes with."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace

from runner.clock import Clock
from runner.localdev.ec2.aws_request import Call
from runner.localdev.ec2.records import CallRecord

_KEPT = 100_000


class CallLog:
    """Numbers calls from 1; the numbers go on after `clear`, so that a `since` stays meaningful."""

    def __init__(self, clock: Clock) -> None:
        """Stamp records with *clock*'s time."""
        self._clock = clock
        self._lock = threading.Lock()
        self._records: deque[CallRecord] = deque(maxlen=_KEPT)
        self._last = 0

    def begin(self, call: Call) -> int:
        """Keep *call*, which has just come in, and return its number."""
        shown = call.shown_params()
        with self._lock:
            self._last += 1
            self._records.append(
                CallRecord(
                    sequence=self._last,
                    time=self._clock.now().timestamp(),
                    service=call.service,
                    region=call.region,
                    action=call.action,
                    write=call.write,
                    params=shown,
                )
            )
            return self._last

    def end(self, sequence: int, *, status: int, code: str, executed: bool) -> None:
        """Note how the call *sequence* ended; one that was cleared meanwhile stays forgotten."""
        with self._lock:
            first = self._records[0].sequence if self._records else self._last + 1
            index = sequence - first
            if 0 <= index < len(self._records):
                self._records[index] = replace(self._records[index], status=status, code=code, executed=executed)

    def since(self, sequence: int = 0) -> list[CallRecord]:
        """Return the calls after number *sequence*."""
        with self._lock:
            return [record for record in self._records if record.sequence > sequence]

    def clear(self) -> None:
        """Forget all calls."""
        with self._lock:
            self._records.clear()
