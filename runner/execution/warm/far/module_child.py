"""One module, in a process forked for it: takes on what the request says and runs the payload as Python would.

What a module sees of itself is what it would see as `python AnsiballZ_x.py` (or `python < payload`, with pipelining):
descriptors, environment, folder, umask, limits, niceness, signals, arguments, `__main__`, sys.path.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import json
import mmap
import os
import resource
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from . import PACKAGE, forking
from .environment import ImportedIn
from .imported import Imported
from .shell import Shells
from .stash import Stash

STDIN = "<stdin>"
_LIMITS = tuple(getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_"))
_IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Each interpreter does so when it starts, and `subprocess` undoes it for what it starts."""
_started_path = list(sys.path)
_former_modules: list[ModuleType] = []
"""The server's own, out of a module's sight: to destroy them would copy the pages that they share with the server."""
_own_modules: dict[int, tuple[str, ...]] = {}
"""Their names, by how many modules there were."""


class RequestError(Exception):
    """The module must go the ordinary way; the text tells why, and holds nothing secret."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A module to run."""

    mark: str
    interpreter: str
    """As the command spells it."""
    script: str | None
    """The payload's file; None where it comes by standard input."""
    shells: Shells
    environ: Mapping[str, str] = field(repr=False)
    """The worker's; and that of the module once the server has it behind the shells."""
    cwd: str
    umask: int
    nice: int
    limits: Mapping[int, tuple[int, int]]
    ignored: Sequence[int] = ()
    """Signals that a program ignores which the worker starts."""
    blocked: Sequence[int] = ()
    source: bytes = field(default=b"", repr=False)

    @property
    def filename(self) -> str:
        """Return what tracebacks call the payload."""
        return self.script or STDIN

    def with_environ(self, environ: Mapping[str, str]) -> Request:
        """Return the same with another environment."""
        return replace(self, environ=environ)


def write_request(request: Request, descriptor: int) -> None:
    """Write *request* to the memory file *descriptor*."""
    header = {
        "mark": request.mark,
        "interpreter": request.interpreter,
        "script": request.script,
        "shells": [request.shells.outer, request.shells.inner],
        "environ": dict(request.environ),
        "cwd": request.cwd,
        "umask": request.umask,
        "nice": request.nice,
        "limits": [[number, *limits] for number, limits in request.limits.items()],
        "ignored": list(request.ignored),
        "blocked": list(request.blocked),
    }
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(json.dumps(header).encode() + b"\n")
        file.write(request.source)


def read_request(descriptor: int) -> Request:
    """Read a request.

    Raises:
        RequestError: there is none, or the payload can't be read.
    """
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as memory:
            end = memory.find(b"\n")
            header = json.loads(memory[:end])
            rest = memory[end + 1 :]
        outer, inner = header.pop("shells")
        limits = {number: (soft, hard) for number, soft, hard in header.pop("limits")}
        ignored, blocked = (tuple(header.pop(name)) for name in ("ignored", "blocked"))
        source = rest if header["script"] is None else _text_of(Path(header["script"]))
        return Request(
            **header,
            shells=Shells(outer=outer, inner=inner),
            limits=limits,
            ignored=ignored,
            blocked=blocked,
            source=source,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(f"the request can't be understood ({type(error).__name__})") from error
    except OSError as error:
        raise RequestError(f"the payload can't be read: {error.strerror}") from error


def _text_of(path: Path) -> bytes:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise RequestError("the payload is no file")
    return path.read_bytes()


def own_limits() -> dict[int, tuple[int, int]]:
    """Return the resource limits of this process."""
    return {number: resource.getrlimit(number) for number in _LIMITS}


def ignored_signals() -> list[int]:
    """Return which signals a program that this process starts ignores: not those that Python itself ignores."""
    return [
        number
        for number in sorted(signal.valid_signals() - _IGNORED_BY_PYTHON)
        if signal.getsignal(number) == signal.SIG_IGN
    ]


def own_modules() -> tuple[str, ...]:
    """Return the names of the server's own modules. Asked for before a fork it copies no page of all the names."""
    count = len(sys.modules)
    if count not in _own_modules:
        _own_modules.clear()
        _own_modules[count] = tuple(name for name in sys.modules if name.partition(".")[0] == PACKAGE)
    return _own_modules[count]


def run(
    request: Request,
    *,
    code: Sequence[CodeType],
    descriptors: Sequence[int],
    group: int,
    stash: Stash,
    imported_in: ImportedIn,
    imported: Imported | None = None,
) -> NoReturn:
    """Become the module, in a process just forked; *descriptors* become its standard streams."""
    try:
        os.setpgid(0, group)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        forking.become_child(mark=request.mark, environ=request.environ, cwd=request.cwd, session=False)
        forking.set_name(Path(request.interpreter).name)
        _take_on(request)
        imported_in.refresh(request.environ)
        forking.rebuild_stdio()
        if imported is None:
            stash.serve_payloads()
        else:
            imported.serve_payloads()
        main = _main_module(request)
        _leave_no_trace(request, main=main)
    except BaseException as error:  # noqa: BLE001 - the module can't be run: its worker will see that it said nothing
        os.write(2, f"cannot become a module: {type(error).__name__}: {error}\n".encode())
        os._exit(forking.BROKEN)
    forking.run_and_leave(lambda: _execute(code, main.__dict__))


def _execute(code: Sequence[CodeType], namespace: dict[str, Any]) -> None:
    for part in code:
        exec(part, namespace)  # noqa: S102 - it is what Ansible made to be executed


def _take_on(request: Request) -> None:
    os.umask(request.umask)
    if difference := request.nice - os.getpriority(os.PRIO_PROCESS, 0):
        os.nice(difference)
    ignored = set(request.ignored)
    for number in {*ignored, *ignored_signals()}:
        signal.signal(number, signal.SIG_IGN if number in ignored else _default_of(number))
    signal.pthread_sigmask(signal.SIG_SETMASK, request.blocked)
    for number, limits in request.limits.items():
        if resource.getrlimit(number) != limits:
            resource.setrlimit(number, limits)


def _default_of(number: int) -> Any:
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL


def _main_module(request: Request) -> ModuleType:
    """Return `__main__` as the interpreter sets it up for a script, or for standard input."""
    main = ModuleType("__main__")
    main.__dict__.update(__annotations__={}, __builtins__=builtins)
    if request.script is None:
        main.__dict__["__loader__"] = importlib.machinery.BuiltinImporter
    else:
        loader = importlib.machinery.SourceFileLoader("__main__", request.script)
        main.__dict__.update(__loader__=loader, __file__=request.script, __cached__=None)
    return main


def _leave_no_trace(request: Request, *, main: ModuleType) -> None:
    """Set up `sys` as for the module, and take the server's own modules out of it."""
    sys.executable = request.interpreter
    sys.argv = [request.script or ""]
    sys.orig_argv = [request.interpreter, *([request.script] if request.script else [])]
    folder = str(Path(request.script).parent.resolve()) if request.script else ""
    sys.path[:] = _started_path if request.environ.get("PYTHONSAFEPATH") else [folder, *_started_path]
    _former_modules.extend(sys.modules.pop(name) for name in own_modules())
    sys.modules["__main__"] = main
