"""Runs a script in a fork of a process with a past, and ends as that fork did: run by test_warm_forking.

Its arguments: a script, the mark, a working directory; the environment of the script as JSON is in a file beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import logging
import multiprocessing.util
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from runner.execution.warm.far import forking, marking

marking.remember()
logging.getLogger("parent").debug("logging was imported")
random.seed(4)
atexit.register(print, "the parent's exit handler")
multiprocessing.util.Finalize(None, print, ("the parent's finalizer",), exitpriority=1)
folder = tempfile.TemporaryDirectory()
unwritten = (Path(folder.name) / "unwritten").open("w")
unwritten.write("the parent's")
signal.signal(signal.SIGTERM, lambda _number, _frame: print("the parent's signal handler"))


if __name__ == "__main__":
    script, mark, cwd = sys.argv[1:]
    environ = json.loads(Path(f"{script}.environ").read_text())
    code = compile(Path(script).read_text(), script, "exec")
    pid = forking.fork()
    if pid == 0:
        forking.become_child(mark=mark, environ=environ, cwd=cwd, session=False)
        forking.rebuild_stdio()
        forking.run_and_leave(functools.partial(exec, code, {"__name__": "__main__"}))
    _, status = os.waitpid(pid, 0)
    assert (Path(folder.name) / "unwritten").read_text() == ""
    end = os.waitstatus_to_exitcode(status)
    if end < 0:
        with contextlib.suppress(OSError):  # SIGKILL
            signal.signal(-end, signal.SIG_DFL)
        os.kill(os.getpid(), -end)
    os._exit(end)
