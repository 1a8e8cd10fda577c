"""The threads of handlers that are no coroutines: they don't keep the process alive.

`ThreadPoolExecutor` has its threads awaited when Python ends. A handler that sleeps for an hour, or a daemon that is
deaf to its stop flag, must not hold an operator that is told to stop.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Work = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads(ThreadPoolExecutor):
    """Runs calls in up to *most* threads. A `ThreadPoolExecutor` by name only: asyncio's default must be one."""

    def __init__(self, *, most: int) -> None:
        """Start no thread yet."""
        super().__init__(max_workers=most)
        self._max_workers = most  # kopf's `settings.execution.max_workers` sets it
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._busy = 0
        self._closed = False

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run *fn* in a thread."""
        future: Future[_T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._busy += 1
            self._waiting.put((future, lambda: fn(*args, **kwargs)))
            if self._busy > self._started and self._started < self._max_workers:
                self._started += 1
                threading.Thread(target=self._work, name=f"handler-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - the base's
        """Take no more calls; wait for none, whatever is asked."""
        with self._lock:
            self._closed = True
            for _ in range(self._started):
                self._waiting.put(None)

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            future, call = work
            wanted = future.set_running_or_notify_cancel()
            result, error = _outcome(call) if wanted else (None, None)
            with self._lock:  # before anybody learns of the end, and calls again: this thread is the next one's
                self._busy -= 1
            if error is not None:
                future.set_exception(error)
            elif wanted:
                future.set_result(result)


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - it belongs to who waits for the future
        return None, error
