"""The processes of a run are found, whenever they get its mark."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from runner.execution.processes import MARK, SERVER_IDENT, Search, end_processes
from runner.settings import environment

_ROOT = Path(__file__).parents[3]
_FORKED = """
import sys
from runner.execution.warm.far import marking
marking.remember()
print("forked", flush=True)
sys.stdin.readline()
marking.write(sys.argv[1])
print("marked", flush=True)
sys.stdin.readline()
"""


def test_a_process_that_is_marked_between_two_looks_is_found_and_ended() -> None:
    """A fork server's fork has room for a mark before it has one; it must not outlive its run for that."""
    ident = "7340912"
    environ = {**environment(), MARK: SERVER_IDENT, "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-c", _FORKED, ident]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "forked\n"
            search = Search(ident)
            assert search.look() == set()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "marked\n"
            assert search.look() == {process.pid}
            assert asyncio.run(end_processes(ident, grace=30)) == set()
            assert process.wait(30) != 0
        finally:
            process.kill()
