"""Threads that don't keep the process alive."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runner.handlers.threads import DaemonThreads


def test_calls_run_and_their_errors_come_back() -> None:
    """A result or an exception reaches the future."""
    pool = DaemonThreads(most=2)
    assert pool.submit(int, "7").result(timeout=60) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "x").result(timeout=60)
    pool.shutdown()


def test_no_more_threads_than_allowed_run_at_once() -> None:
    """Two calls of a pool of two are under way, the third waits for its turn and comes."""
    pool, doors, inside = DaemonThreads(most=2), [threading.Event() for _ in range(3)], threading.Semaphore(0)
    busy: list[int] = []

    def wait(door: threading.Event) -> str:
        busy.append(1)
        inside.release()
        door.wait(60)
        return threading.current_thread().name

    futures = [pool.submit(wait, door) for door in doors]
    assert inside.acquire(timeout=60)
    assert inside.acquire(timeout=60)
    assert len(busy) == 2
    doors[0].set()
    assert inside.acquire(timeout=60)
    for door in doors:
        door.set()
    assert {future.result(timeout=60) for future in futures} == {"handler-1", "handler-2"}
    pool.shutdown()


def test_a_thread_is_used_again() -> None:
    """Calls one after the other need one thread."""
    pool = DaemonThreads(most=8)

    def name() -> str:
        return threading.current_thread().name

    assert {pool.submit(name).result(timeout=60) for _ in range(200)} == {"handler-1"}
    pool.shutdown()


def test_after_the_end_no_call_is_taken() -> None:
    """As with any executor."""
    pool = DaemonThreads(most=1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


async def test_asyncio_takes_it_as_its_default() -> None:
    """It is a ThreadPoolExecutor for who asks, and the shutdown waits for no thread."""
    door = threading.Event()

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(DaemonThreads(most=1))
        asyncio.get_running_loop().run_in_executor(None, door.wait, 60)

    await asyncio.to_thread(asyncio.run, main())
    door.set()
    assert issubclass(DaemonThreads, ThreadPoolExecutor)


def test_a_process_ends_though_a_call_does_not() -> None:
    """A thread that sleeps for ever doesn't hold the process."""
    code = (
        "import time; from runner.handlers.threads import DaemonThreads; DaemonThreads(most=1).submit(time.sleep, 999)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
