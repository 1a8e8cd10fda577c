"""Memory and processor time of a tree of processes, on processes that the test starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tools.bench.processes import lives, machine, memory, tree

_MEBIBYTES = 40
_BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


@contextmanager
def _parent(code: str) -> Iterator[subprocess.Popen[str]]:
    """Run *code*, which prints a line when it has come to its end and then waits for its input to end."""
    with subprocess.Popen(
        [sys.executable, "-c", code + "\nprint(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def test_the_time_of_a_child_that_has_ended_counts() -> None:
    """What a child used is its parent's after it was waited for, and the child itself is no more of the tree."""
    with _parent(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {_BURN!r}])") as process:
        found = tree(process.pid)
        assert found.count == 1
        assert found.cpu >= 0.29


def test_the_memory_of_a_child_counts() -> None:
    """A process in a session of its own is part of the tree, as runs are."""
    child = f"held = b'x' * {_MEBIBYTES} * 2 ** 20; print(flush=True); input()"
    start = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE,"
        " start_new_session=True)\nchild.stdout.readline()"
    )
    with _parent("pass") as alone, _parent(start) as process:
        assert tree(process.pid).count == 2
        assert memory(process.pid) > memory(alone.pid) + _MEBIBYTES


def test_an_operator_that_has_ended_is_noticed() -> None:
    """A process that nobody has waited for yet does not count as living."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert lives(process.pid)
        process.communicate()
        assert not lives(process.pid)
    with _parent("import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', ''])") as process:
        zombies = [pid for pid in _children(process.pid) if not lives(pid)]
        while not zombies:
            zombies = [pid for pid in _children(process.pid) if not lives(pid)]
        assert zombies


def test_the_machine_is_busy_for_a_part_of_its_time() -> None:
    """Busy seconds are fewer than all seconds, and both only grow."""
    before = machine()
    subprocess.run([sys.executable, "-c", _BURN], check=True)
    after = machine()
    assert 0.25 < after[0] - before[0] <= after[1] - before[1] + 0.1


def _children(pid: int) -> list[int]:
    answer = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in answer.stdout.split()]
