"""Zombies that are nobody's, in a process that is made the parent of orphans as process 1 is (a child of the test)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from runner.execution.reaping import Reaper
from runner.logs import Logger
from runner.testing.clock import FakeClock

_ADOPT = """
import asyncio, ctypes, json, os
from runner.execution.reaping import INTERVAL, Reaper
from runner.logs import Logger
from runner.owner import stat_fields
from runner.testing.clock import FakeClock
from runner.testing.waiting import eventually

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans of ours become our children

def zombie(pid):
    return stat_fields(pid)[:1] == [b"Z"]

async def orphan():
    line, pipe = "sleep 0.2 >/dev/null & echo $!", asyncio.subprocess.PIPE
    shell = await asyncio.create_subprocess_exec("/bin/sh", "-c", line, stdout=pipe)
    said, _ = await shell.communicate()
    await eventually(lambda: zombie(int(said)))
    return int(said)

"""


def _in_a_parent_of_orphans(text: str) -> object:
    """Run the coroutine function `main` in *text* there, and return what it returns."""
    source = f"{_ADOPT}\n{textwrap.dedent(text)}\nprint(json.dumps(asyncio.run(main())))\n"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", source], env=environ, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_orphans_that_ended_are_collected() -> None:
    """Each of many, not at the first look but at the second."""
    assert _in_a_parent_of_orphans("""
        async def main():
            clock = FakeClock()
            reaper = Reaper(clock=clock, logger=Logger(), needed=True)
            await reaper.start()
            pids = [await orphan() for _ in range(3)]
            await clock.advance(INTERVAL)
            first = [zombie(pid) for pid in pids]
            await clock.advance(INTERVAL)
            second = [zombie(pid) for pid in pids]
            await reaper.stop()
            return [first, second]
    """) == [[True] * 3, [False] * 3]


def test_the_children_of_asyncio_are_left_to_it() -> None:
    """Every one gets its own exit code, however often the reaper looks meanwhile."""
    assert _in_a_parent_of_orphans("""
        async def main():
            reaper = Reaper(clock=FakeClock(), logger=Logger(), needed=True)
            done = asyncio.Event()
            async def look():
                while not done.is_set():
                    reaper.look()
                    await asyncio.sleep(0.01)
            looking = asyncio.create_task(look())
            codes = []
            for number in range(40):
                process = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"exit {number}")
                codes.append(await process.wait())
            done.set()
            await looking
            return codes
    """) == list(range(40))


async def test_only_process_1_looks() -> None:
    """Another one never gets orphans, and is spared the work."""
    clock = FakeClock()
    reaper = Reaper(clock=clock, logger=Logger())
    await reaper.start()
    await clock.settle()
    assert clock.sleeping == 0
    await reaper.stop()
