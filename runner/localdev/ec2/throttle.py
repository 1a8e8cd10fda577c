"""EC2's request limit: a token bucket that refills at `rate` per second up to `burst`."""

from __future__ import annotations

import threading

from runner.clock import Clock


class TokenBucket:
    """Lets a call pass while it holds a token."""

    def __init__(self, clock: Clock) -> None:
        """Start without a limit."""
        self._clock = clock
        self._lock = threading.Lock()
        self._rate = 0.0
        self._burst = 0.0
        self._tokens = 0.0
        self._filled_at = clock.monotonic()

    def limit(self, *, rate: float, burst: float) -> None:
        """Allow *rate* calls a second after a *burst*, from a full bucket; a rate of 0 lifts the limit."""
        with self._lock:
            self._rate, self._burst, self._tokens = rate, burst, burst
            self._filled_at = self._clock.monotonic()

    def take(self) -> bool:
        """Take a token; False: there is none, the call is refused."""
        with self._lock:
            if not self._rate:
                return True
            now = self._clock.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
            self._filled_at = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True
