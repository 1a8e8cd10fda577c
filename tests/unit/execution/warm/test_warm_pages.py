"""Memory in huge pages: the same memory."""

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


async def test_memory_in_huge_pages_is_the_same_and_not_more(tmp_path: Path) -> None:
    """Putting memory into huge pages changes nothing of what is in it, for children neither, and takes little more."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[4])}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROGRAM), env=environ, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    taken, grown = map(int, out.split())
    assert taken % (1 << 21) == 0
    assert grown <= taken // 4
