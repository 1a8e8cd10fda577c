#!/usr/bin/python
"""Tells everything that a module can see of its own process."""

from __future__ import annotations

import atexit
import decimal
import fcntl
import gc
import locale
import logging
import os
import pkgutil
import resource
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEEN_FIRST = sorted(sys.modules)

from ansible.module_utils import basic  # noqa: E402 - what was loaded before is one of the things to tell
from ansible.module_utils.ansible_release import __version__  # noqa: E402 - the same

_WATCHED = ("ansible", "ansible_collections", "ansible_runner", "ansible_operator_warm", "jinja2", "pexpect", "runner")
_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


def descriptors() -> list[Any]:
    """Return each open descriptor: number, what it is, access mode, whether it is inherited."""
    found = []
    for number in sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir()):
        try:
            what = str(Path(f"/proc/self/fd/{number}").readlink())
            mode = fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_NONBLOCK | os.O_APPEND)
            found.append([number, what, mode, os.get_inheritable(number), os.isatty(number)])
        except OSError:
            continue  # the one that the listing itself had open
    return found


def standard_streams() -> dict[str, Any]:
    """Return what the three streams are, and what standard input gives."""
    streams = {
        name: [type(stream).__name__, stream.name, stream.encoding, stream.errors, stream.line_buffering, stream.closed]
        for name in ("stdin", "stdout", "stderr")
        for stream in (getattr(sys, name),)
    }
    same = [getattr(sys, name) is getattr(sys, f"__{name}__") for name in ("stdin", "stdout", "stderr")]
    return {**streams, "same": same, "input": sys.stdin.read()}


def signals() -> dict[str, str]:
    """Return the disposition of each signal, and the masks as the kernel has them."""
    found = {}
    for number in sorted(signal.valid_signals()):
        handler = signal.getsignal(number)
        found[str(int(number))] = getattr(handler, "__name__", str(handler))
    wanted = ("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "Threads")
    status = Path("/proc/self/status").read_text().splitlines()
    return {**found, **{line.split(":")[0]: line.split()[1] for line in status if line.split(":")[0] in wanted}}


def process() -> dict[str, Any]:
    """Return what the kernel knows about the process."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        terminal = "there"
    except OSError as error:
        terminal = type(error).__name__
    if __version__.startswith("2.18."):  # its workers keep ansible-runner's terminal, which no forked module can have
        terminal = "not compared"
    variables = Path("/proc/self/environ").read_bytes().split(b"\0")
    return {
        "leads session": os.getsid(0) == os.getpid(),
        "leads group": os.getpgid(0) == os.getpid(),
        "in parent's session": os.getsid(0) == os.getsid(os.getppid()),
        "name": Path("/proc/self/comm").read_text().strip(),
        "terminal": terminal,
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "nice": os.nice(0),
        "cpus": len(os.sched_getaffinity(0)),
        "oom": Path("/proc/self/oom_score_adj").read_text().strip(),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS},
        "mark": [entry.decode() for entry in variables if entry.startswith(b"ANSIBLE_OPERATOR_RUN=")],
        "executable": str(Path("/proc/self/exe").readlink()),
    }


def finders() -> list[str]:
    """Return the finders of modules that are Python's or Ansible's; libraries that are loaded may bring others."""
    kinds = [finder if isinstance(finder, type) else type(finder) for finder in sys.meta_path]
    return [kind.__name__ for kind in kinds if of_python_or_ansible(kind)]


def of_python_or_ansible(kind: Any) -> bool:
    """Tell whether *kind* is no library's, as those that are loaded may leave their own things in the process."""
    origin = str(kind.__module__).partition(".")[0]
    return origin in _WATCHED or origin in sys.stdlib_module_names


def exit_handlers() -> int:
    """Return how many there are, without the one that a library's import of multiprocessing brings."""
    return atexit._ncallbacks() - ("multiprocessing.util" in sys.modules)


def interpreter() -> dict[str, Any]:
    """Return how Python was started and set."""
    return {
        "argv": sys.argv,
        "original": sys.orig_argv,
        "executable": sys.executable,
        "flags": str(sys.flags),
        "options": [sys.warnoptions, str(sys._xoptions)],
        "path": sys.path,
        "finders": finders(),
        "hooks": len(sys.path_hooks),
        "no bytecode": sys.dont_write_bytecode,
        "encodings": [
            sys.getfilesystemencoding(),
            sys.getdefaultencoding(),
            locale.getpreferredencoding(do_setlocale=False),
        ],
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "threads": [thread.name for thread in threading.enumerate()],
        "traced": [sys.gettrace() is not None, sys.getprofile() is not None],
        "hook": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "at exit": exit_handlers(),
        "warnings": [str(entry) for entry in warnings.filters if of_python_or_ansible(entry[2])],
        "logging": [logging.root.level, len(logging.root.handlers), logging.raiseExceptions],
        "socket timeout": socket.getdefaulttimeout(),
        "decimal": str(decimal.getcontext()),
        "zone": [time.tzname, time.timezone],
    }


def loaded(names: list[str]) -> list[str]:
    """Return those of *names* that belong to Ansible or to the operator."""
    return [name for name in names if name.partition(".")[0] in _WATCHED]


def utilities() -> dict[str, Any]:
    """Return what Ansible's own packages say about themselves in a module."""
    main = sys.modules["__main__"]
    source = pkgutil.get_data("ansible.module_utils", "basic.py")
    packages = {}
    for name in loaded(sorted(sys.modules)):
        module = sys.modules[name]
        spec = getattr(module, "__spec__", None)
        packages[name] = [
            getattr(module, "__file__", None),
            list(getattr(module, "__path__", [])),
            getattr(spec, "origin", None),
            type(getattr(module, "__loader__", None)).__name__,
            getattr(module, "__package__", None),
        ]
    return {
        "first": loaded(SEEN_FIRST),
        "packages": packages,
        "main": {name: str(getattr(main, name, None)) for name in ("__name__", "__file__", "__package__", "__doc__")},
        "names": sorted(name for name in vars(main) if name.startswith("_")),
        "source": len(source or b""),
        "own": basic.AnsibleModule.__module__,
    }


def temporary(module: Any) -> dict[str, Any]:
    """Return where temporary files go, and what is there."""
    folder = Path(module.tmpdir)
    return {
        "of python": tempfile.gettempdir(),
        "of the module": str(folder),
        "mode": stat.filemode(folder.stat().st_mode),
        "files": sorted(entry.name for entry in folder.iterdir()),
        "remote": module._remote_tmp,
        "beside": sorted(entry.name for entry in Path(tempfile.gettempdir()).iterdir()),
    }


def main() -> None:
    """Tell."""
    module = basic.AnsibleModule(argument_spec={"only": {"type": "str"}}, supports_check_mode=True)
    os.umask(umask := os.umask(0))
    parts: dict[str, Callable[[], Any]] = {
        "descriptors": descriptors,
        "streams": standard_streams,
        "signals": signals,
        "process": process,
        "interpreter": interpreter,
        "utilities": utilities,
        "temporary": lambda: temporary(module),
        "environment": lambda: dict(sorted(os.environ.items())),
        "place": lambda: [str(Path.cwd()), oct(umask)],
        "verbosity": lambda: [module._verbosity, module.check_mode, module._diff, module._name],
    }
    witness = Path(os.environ["EQUALITY_WITNESS"], str(os.getpid()))
    witness.write_bytes(Path("/proc/self/cmdline").read_bytes().replace(b"\0", b" "))
    only = module.params["only"]
    module.exit_json(**{name: tell() for name, tell in parts.items() if only in {None, name}})


if __name__ == "__main__":
    main()
