"""A callback plugin: writes to $SURROUNDINGS what the process of a playbook finds around itself, and in itself."""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import locale
import os
import resource
import signal
import struct
import sys
import tempfile
import termios
import threading
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.plugins.callback import CallbackBase
from ansible.utils.display import Display

SEEN_ELSEWHERE = {"ANSIBLE_OPERATOR_RUN", "AWX_ISOLATED_DATA_DIR", "ANSIBLE_CACHE_PLUGIN_CONNECTION", "TMPDIR"} | {
    "ANSIBLE_LOCAL_TEMP"
}


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Writes once, when the playbook starts."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "surroundings"

    def v2_playbook_on_start(self, playbook: object) -> None:
        """Write."""
        if where := os.environ.get("SURROUNDINGS"):
            Path(where).write_text(json.dumps({**_of_process(), **_of_python(), **_of_terminal(), **_of_ansible()}))


def _of_process() -> dict[str, object]:
    umask = os.umask(0)
    os.umask(umask)
    mark = f"ANSIBLE_OPERATOR_RUN={os.environ['ANSIBLE_OPERATOR_RUN']}".encode()
    return {
        "cwd": str(Path.cwd()),
        "umask": umask,
        "leads session": os.getsid(0) == os.getpid(),
        "leads group": os.getpgrp() == os.getpid(),
        "group of parent": os.getpgid(os.getppid()) == os.getppid(),
        "handlers": {number.name: str(signal.getsignal(number)).partition(" at ")[0] for number in _signals()},
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name},
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "environ": {key: value for key, value in os.environ.items() if key not in SEEN_ELSEWHERE},
        "name": Path("/proc/self/comm").read_text(),
        "marked": mark in Path("/proc/self/environ").read_bytes().split(b"\0"),
        "open": sorted(_kind(path) for path in Path("/proc/self/fd").iterdir()),
    }


def _signals() -> list[signal.Signals]:
    return [number for number in signal.valid_signals() if isinstance(number, signal.Signals)]


def _kind(descriptor: Path) -> str:
    try:
        target = str(descriptor.readlink())
    except OSError:
        return "gone"
    if target.startswith("/dev/pts/"):
        return "terminal"  # its number says how many there are on the machine
    return target.partition(":")[0] if target.startswith(("/dev", "pipe", "socket")) else "file"


def _of_python() -> dict[str, object]:
    streams: tuple[Any, ...] = (sys.stdin, sys.stdout, sys.stderr)
    return {
        "argv": [part.replace(os.environ["ANSIBLE_OPERATOR_RUN"], "IDENT") for part in sys.argv],
        "orig_argv": [part.replace(os.environ["ANSIBLE_OPERATOR_RUN"], "IDENT") for part in sys.orig_argv],
        "executable": sys.executable,
        "path": sys.path,
        "main": sys.modules["__main__"].__file__,
        "threads": threading.active_count(),
        "collector": gc.isenabled(),
        "locale": locale.setlocale(locale.LC_ALL),
        "temporary": tempfile.gettempdir() == os.environ["TMPDIR"],
        "at exit": atexit._ncallbacks() < 12,
        "streams": [[s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through] for s in streams],
    }


def _of_terminal() -> dict[str, object]:
    attributes = termios.tcgetattr(0)
    size = fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8)
    return {
        "terminals": [os.isatty(descriptor) for descriptor in range(3)],
        "size": struct.unpack("HHHH", size),
        "modes": attributes[:6],
        "control": [str(character) for character in attributes[6]],
        "foreground": os.tcgetpgrp(0) == os.getpgrp(),
    }


def _of_ansible() -> dict[str, object]:
    display = Display()
    scratch = os.environ["TMPDIR"]
    settings = {name: repr(getattr(constants, name)) for name in constants.config.get_configuration_definitions()}
    settings["DEFAULT_LOCAL_TMP"] = str(Path(constants.DEFAULT_LOCAL_TMP).parent)
    ident = os.environ["ANSIBLE_OPERATOR_RUN"]
    return {
        "settings": {name: text.replace(scratch, "S").replace(ident, "I") for name, text in settings.items()},
        "columns": display.columns,
        "verbosity": display.verbosity,
        "warned": len(display._warns) + len(display._deprecations) + len(display._errors),
        "arguments": sorted((name, repr(value)) for name, value in context.CLIARGS.items()),
        "own folder": Path(constants.DEFAULT_LOCAL_TMP).name.startswith(f"ansible-local-{os.getpid()}"),
    }
