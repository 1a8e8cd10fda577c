#!/usr/bin/python
"""Misbehaves in the way that it is asked to."""

from __future__ import annotations

import atexit
import builtins
import ctypes
import decimal
import gc
import json
import locale
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ansible.module_utils.basic
from ansible.module_utils.ansible_release import __version__
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.equality.tools.plugins.module_utils import words

ANSWER = '{"changed": false, "answer": "said"}'


def crash() -> None:
    """Raise what nobody catches."""
    raise RuntimeError("crashed with ünïcode")


def crash_in_a_chain() -> None:
    """Raise with a cause."""
    try:
        crash()
    except RuntimeError as error:
        raise ValueError("because of another") from error


def garbage_before() -> None:
    """Print before the answer."""
    print("This is no JSON: { [")
    print(ANSWER)


def garbage_after() -> None:
    """Print after the answer."""
    print(ANSWER)
    print("trailing words")


def only_garbage() -> None:
    """Print no answer at all."""
    print("nothing useful\nin two lines")


def two_answers() -> None:
    """Answer twice."""
    print(ANSWER)
    print(ANSWER.replace("said", "again"))


def no_object() -> None:
    """Answer with a list."""
    print("[1, 2]")


def not_utf8() -> None:
    """Print bytes that are no text."""
    sys.stdout.buffer.write(b'{"answer": "\xff\xfe"}\n')


def exit_silently() -> None:
    """End well without an answer."""
    sys.exit(0)


def exit_with_code() -> None:
    """End badly without an answer."""
    sys.exit(3)


def exit_with_text() -> None:
    """End with a text for standard error."""
    sys.exit("bye, ünïcode")


def answer_and_fail() -> None:
    """Answer well and exit badly."""
    print(ANSWER)
    sys.exit(5)


def leave_at_once() -> None:
    """End without flushing or exit handlers."""
    print(ANSWER)
    atexit.register(print, "never seen")
    sys.stdout.flush()
    os._exit(4)


def interrupt() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


def die_by_kill() -> None:
    """Kill itself."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_by_term() -> None:
    """Terminate itself."""
    os.kill(os.getpid(), signal.SIGTERM)


def die_by_segfault() -> None:
    """Read where nothing is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def recurse() -> None:
    """Recurse for ever."""

    def deeper(level: int) -> int:
        return deeper(level + 1) + 1

    deeper(0)


def close_streams() -> None:
    """Close standard output, then print."""
    os.close(1)
    print(ANSWER)


def noisy() -> None:
    """Write much on standard error, and more than a pipe holds on standard output."""
    sys.stderr.write("noise \u2603\n" * 40000)
    print(json.dumps({"answer": "x" * 3_000_000}))


def leave_thread() -> None:
    """Leave a thread running that writes after the main one."""

    def late() -> None:
        time.sleep(0.2)
        Path(os.environ["EQUALITY_OUT"], "late-thread").write_text("done")

    threading.Thread(target=late).start()
    print(ANSWER)


def at_exit() -> None:
    """Work at exit, and print there."""
    atexit.register(Path(os.environ["EQUALITY_OUT"], "at-exit").write_text, "done")
    atexit.register(sys.stderr.write, "printed at exit\n")
    print(ANSWER)


def broken_at_exit() -> None:
    """Fail at exit."""
    atexit.register(crash)
    print(ANSWER)


def become_daemon() -> None:
    """Leave a daemon with its own session, which holds no descriptor."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            Path(os.environ["EQUALITY_OUT"], "daemon").write_text("here")
            time.sleep(600)
        os._exit(0)
    os.wait()
    print(ANSWER)


def leave_child() -> None:
    """Leave a child that holds standard output for a while."""
    subprocess.Popen(["sh", "-c", "sleep 0.3; echo late words"])
    print(ANSWER)


def fork_and_answer_twice() -> None:
    """Let a fork print first; it leaves without tidying up, as both have the module's temporary folder.

    One after the other: a line is several writes, which two processes at once would mix.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        print(ANSWER, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print(ANSWER, flush=True)


def change_directory() -> None:
    """Change what later processes would inherit."""
    os.chdir("/")
    os.umask(0o777)
    os.nice(1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    print(ANSWER)


def mutate() -> None:
    """Change everything global that Python has."""
    os.environ.update(EQUALITY_LEAK="leaked", PATH="/nowhere", HOME="/nowhere", TMPDIR="/nowhere", TZ="Asia/Tokyo")
    time.tzset()
    sys.path.insert(0, "/nowhere")
    sys.argv[:] = ["leaked"]
    sys.setrecursionlimit(77)
    sys.dont_write_bytecode = True
    sys.modules["yaml"] = None  # type: ignore[assignment]  # what makes an import fail
    gc.disable()
    socket.setdefaulttimeout(0.001)
    warnings.simplefilter("error")
    decimal.getcontext().prec = 3
    random.seed(1)
    locale.setlocale(locale.LC_ALL, "C")
    tempfile.tempdir = "/nowhere"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    print(ANSWER)
    mutate_code()


def mutate_code() -> None:
    """Change code of others."""
    words.GREETING = "leaked"
    ansible.module_utils.basic.AnsibleModule.exit_json = None
    ansible.module_utils.basic.PASS_VARS = {}
    builtins.EQUALITY_LEAK = "leaked"  # type: ignore[attr-defined]  # the point of it
    json.dumps = str  # type: ignore[assignment]  # the point of it


def leak_descriptors() -> None:
    """Open files that children inherit, and leave them."""
    for _ in range(20):
        os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)  # noqa: FBT003 - the function has no keyword
    left, right = socket.socketpair()
    left.detach()
    right.detach()
    print(ANSWER)


def new_session() -> None:
    """Leave the process group."""
    if os.getpgid(0) != os.getpid():
        os.setsid()
    print(ANSWER)


def import_what_is_missing() -> None:
    """Import what nobody has."""
    __import__("no_such_library_at_all")


def ask_for_input() -> None:
    """Ask a person."""
    input("Name? ")


def write_to_terminal() -> None:
    """Write past all redirections, if there is a terminal: on ansible-core 2.18 only cold modules have one."""
    if __version__.startswith("2.18."):
        print(ANSWER)
        return
    try:
        with Path("/dev/tty").open("w") as terminal:
            terminal.write("to the terminal\n")
    except OSError as error:
        print(json.dumps({"answer": type(error).__name__}))
    else:
        print(ANSWER)


def sleep_long() -> None:
    """Take longer than anybody waits."""
    time.sleep(60)
    Path(os.environ["EQUALITY_OUT"], "slept").write_text("it was not ended")


WAYS: dict[str, Callable[[], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__
}


def main() -> None:
    """Misbehave."""
    module: Any = AnsibleModule(argument_spec={"how": {"type": "str", "required": True}, "out": {"type": "str"}})
    os.environ["EQUALITY_OUT"] = module.params["out"] or "/nowhere"
    WAYS[module.params["how"]]()


if __name__ == "__main__":
    main()
