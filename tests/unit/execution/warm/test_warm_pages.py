"""Memory that is arranged for forks: the same memory, and less to copy."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

_PROGRAM = """
import os, sys
from runner.execution.warm.far import pages
data = [bytearray([number % 256]) * (1 << 16) for number in range(256)]  # 16 MiB
before = int(open('/proc/self/statm').read().split()[1])
taken = pages.make_huge()
grown = (int(open('/proc/self/statm').read().split()[1]) - before) * os.sysconf('SC_PAGE_SIZE')
if os.fork() == 0:
    data[7][0] = 99
    os._exit(0)
os.wait()
assert data == [bytearray([number % 256]) * (1 << 16) for number in range(256)]
print(taken, grown)
"""


_HOLES = """
import os, resource, sys
from runner.execution.warm.far import pages
kept = [bytes(79) for _ in range(200_000)][::20]  # a few in each page
taken = pages.fill_holes()
reading, writing = os.pipe()
if os.fork() == 0:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    made = [bytes(79) for _ in range(20_000)]
    os.write(writing, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
    os._exit(0)
os.wait()
assert kept == [bytes(79)] * 10_000
print(taken, int(os.read(reading, 20)))
"""
_COPIED = """
import os, resource, sys
from pathlib import Path
from runner.execution.warm.far import pages
SIZE, COUNT = os.sysconf("SC_PAGE_SIZE"), 500
data = bytearray(2 * SIZE * COUNT)
def fork(copy):
    reading, writing = os.pipe()
    if os.fork() == 0:
        if copy:
            pages.copy_beforehand(Path(sys.argv[1]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for number in range(COUNT):
            data[2 * SIZE * number] = 1
        os.write(writing, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
        pages.note_copied(Path(sys.argv[1]))
        os._exit(0)
    os.wait()
    return int(os.read(reading, 20))
data[:] = bytes(len(data))
print(fork(False), fork(True))
assert not any(data)
"""


async def numbers_of(program: str, *arguments: str, cwd: Path) -> list[int]:
    """Return what *program* prints."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[4])}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, *arguments), env=environ, cwd=cwd, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return [int(number) for number in out.split()]


async def test_forks_allocate_where_nothing_else_is(tmp_path: Path) -> None:
    """What is free between objects in use is taken: a child's new objects are in few pages, old ones as ever."""
    taken, faults = await numbers_of(_HOLES, cwd=tmp_path)
    assert taken > 10_000_000
    assert faults < 1000  # 20 000 objects of 112 bytes are 547 pages; in the holes they were 5000


async def test_pages_that_a_fork_copied_are_copied_beforehand_in_the_next(tmp_path: Path) -> None:
    """What one child writes to is noted, and a child that makes use of it has nothing left to copy when it writes."""
    first, second = await numbers_of(_COPIED, str(tmp_path / "pages"), cwd=tmp_path)
    assert first > 500
    assert second < 100


async def test_memory_in_huge_pages_is_the_same_and_not_more(tmp_path: Path) -> None:
    """Putting memory into huge pages changes nothing of what is in it, for children neither, and takes little more."""
    taken, grown = await numbers_of(_PROGRAM, cwd=tmp_path)
    assert taken % (1 << 21) == 0
    assert grown <= taken // 4
