"""The workers between queue and reconcile: N tasks that take a key, handle it, and take the next.

This is the worker boundary: whatever a handler raises ends here, is logged, and costs the key its back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runner.errors import OperatorError
from runner.logs import Logger
from runner.observe.activity import Activity
from runner.workqueue.request import Request
from runner.workqueue.workqueue import QueueClosed, WorkQueue

Handle = Callable[[Request], Awaitable[None]]
"""Reconciles one key, and tells the queue when the key is to come again."""


async def run_workers(
    queue: WorkQueue, *, count: int, handle: Handle, logger: Logger, activity: Activity | None = None
) -> None:
    """Handle the keys of *queue* with *count* workers, until the queue is closed and each worker's last key is done.

    *activity* knows of each key from hand-out to done. Cancelling it cancels the handlers at work; their keys are done
    afterwards, not queued again.
    """
    watched = _watched(handle, activity=activity) if activity is not None else handle
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            work = _work(queue, handle=watched, logger=logger)
            group.create_task(work, name=f"worker-{queue.name}-{number}")


def _watched(handle: Handle, *, activity: Activity) -> Handle:
    async def watched(request: Request) -> None:
        with activity.holding(str(request)):
            await handle(request)

    return watched


async def _work(queue: WorkQueue, *, handle: Handle, logger: Logger) -> None:
    while True:
        try:
            request = await queue.get()
        except QueueClosed:
            return
        try:
            await _handle_one(queue, request, handle=handle, logger=logger)
        finally:
            queue.done(request)


async def _handle_one(queue: WorkQueue, request: Request, *, handle: Handle, logger: Logger) -> None:
    try:
        await handle(request)
    except asyncio.CancelledError as cancelled:
        # Somebody cancels this worker: end. A cancelled task inside the handler is a failure like any other.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        error = OperatorError("the handler's work was cancelled").with_traceback(cancelled.__traceback__)
        _retry(queue, request, logger=logger, error=error)
    except Exception as error:  # noqa: BLE001 - the worker boundary: no handler may end the worker of other keys
        logger.error("Observed a panic", panic=type(error).__name__, **_keys(request), error=error)
        _retry(queue, request, logger=logger, error=error)


def _retry(queue: WorkQueue, request: Request, *, logger: Logger, error: Exception) -> None:
    """Log *error*, in the peer's words, and let the key wait for its next try; the logger adds where it was raised."""
    delay = queue.add_rate_limited(request)
    logger.error("Reconciler error", **_keys(request), error=error, retry_in_seconds=round(delay, 3))


def _keys(request: Request) -> dict[str, str]:
    return {"GVK": str(request.gvk), "namespace": request.namespace, "name": request.name}
