"""`runner.testing.processes` sees other processes by their command lines."""

from __future__ import annotations

import os
import subprocess
import sys

from runner.testing.processes import command_lines, processes_with


def test_a_process_is_found_by_an_argument_until_it_has_ended() -> None:
    """A running process is found by the text of its arguments, with its id; one that ended is not."""
    needle = f"a needle of {os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", "input()", needle], stdin=subprocess.PIPE) as process:
        while not (found := processes_with(needle)):
            assert process.poll() is None
        assert list(found) == [process.pid]
        process.communicate(b"\n")
    assert not processes_with(needle)


def test_the_process_that_asks_is_not_among_those_found() -> None:
    """Whoever asks is in the whole list, and not among those with a text."""
    own = command_lines()[os.getpid()]
    assert os.getpid() not in processes_with(own)
