"""What imports do besides importing: `template` asks, to tell whether one process may do them for others.

Python tells of it in three ways: audit events (files, processes, sockets), the calls that a profile function sees, and
the state of the process before and after. What is not known to be harmless rules a template out.
"""

from __future__ import annotations

import atexit
import contextlib
import dis
import gc
import linecache
import os
import pkgutil
import signal
import sys
import tokenize
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from . import forking

_OF_IMPORTS = ("import", "compile", "exec", "marshal.loads", "marshal.load", "marshal.dumps", "pickle.find_class")
_OF_OBJECTS = (
    *("object.__getattr__", "object.__setattr__", "object.__delattr__", "builtins.id"),
    *("code.__new__", "function.__new__", "array.__new__", "gc.get_objects", "gc.get_referents"),
    *("sys._getframe", "sys._current_frames", "sys.excepthook", "sys.unraisablehook"),
)
"""They look at objects or make them; what `sys.excepthook` is set to is part of the state."""
_OF_LIBRARIES = ("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.cdata", "ctypes.addressof")
"""A shared library that is loaded stays so in forks; what it starts or opens shows in the state."""
_OF_VARIABLES = ("os.putenv", "os.unsetenv")
"""The variables are part of the state."""
_OWN = ("sys.addaudithook", "cpython._PySys_ClearAuditHooks")
_HARMLESS = frozenset((*_OF_IMPORTS, *_OF_OBJECTS, *_OF_LIBRARIES, *_OF_VARIABLES, *_OWN))
_FILES = frozenset({"open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.chmod"})
"""The import system does so to find sources and to write __pycache__; anybody else reads what may change."""
_IMPORT_SYSTEM = (
    *("<frozen importlib", "<frozen zipimport"),
    *(str(module.__file__) for module in (pkgutil, linecache, tokenize)),
)
"""And who asks it for the parts of a package, or reads sources for the text of a traceback."""
_OWN_ADDRESS = "127.0.0.1"
"""To look up nothing but this asks nobody."""
_READS_ITS_PLACE = frozenset({"__file__", "__path__", "__spec__", "__loader__", "__cached__"})
_CALLS_THAT_DIFFER = frozenset({
    *("getpid", "getppid", "getpgid", "getpgrp", "getsid", "isatty", "ttyname", "getlogin", "umask", "getrlimit"),
    *("getcwd", "getcwdb", "stat", "lstat", "access", "readlink", "statvfs"),
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "process_time", "now", "utcnow", "today"),
    *("localtime", "strftime", "ctime", "asctime", "mktime", "fromtimestamp", "astimezone", "tzset"),
    *("uuid1", "uuid4", "getnode", "urandom", "token_hex", "token_bytes", "getrandom"),
    *("random", "randint", "randrange", "getrandbits", "choice", "shuffle", "seed", "setstate"),
    *("getloadavg", "getpriority", "gethostname"),
})
_LOOKS_AT_CALLERS = frozenset({"_getframe", "currentframe"})
"""Only where a source does so itself: the standard library does, to name the module of a class that it makes."""
_VALUES_THAT_DIFFER = frozenset({
    *("argv", "orig_argv", "stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"),
    *("environb", "tzname", "timezone", "altzone", "daylight"),
})
"""What is another one in another process: a source that takes it at its import is not imported early."""
_MAIN = "__main__"
_OF_MODULES = "__getattr__"
"""The import system asks for names that aren't there; what the answer says of the place is thrown away."""
_DIFFERING: Mapping[str, frozenset[str]] = {
    "LOAD_METHOD": _CALLS_THAT_DIFFER | _LOOKS_AT_CALLERS,
    "LOAD_ATTR": _VALUES_THAT_DIFFER,
    "IMPORT_FROM": _VALUES_THAT_DIFFER,
    "LOAD_NAME": _READS_ITS_PLACE | {_MAIN},
    "LOAD_GLOBAL": _READS_ITS_PLACE | {_MAIN},
}
"""Names by what the interpreter does with them."""
_NEW_LOCALS = 2
"""Flag of functions' code; that of a module or class is executed by the import."""


@dataclass(kw_only=True)
class Effects:
    """What was seen of imports from *folder*."""

    folder: str
    events: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)

    def why_not(self) -> str | None:
        """Return what of it is not known to be harmless, or None."""
        if others := self.events - _HARMLESS:
            return f"its imports do {', '.join(sorted(others))}"
        if self.calls:
            return f"its imports call {', '.join(sorted(self.calls))}"
        return None


@contextlib.contextmanager
def watched(folder: str) -> Iterator[Effects]:
    """Watch what is done in this thread by sources below *folder*, and whatever they call.

    Nothing mentions *folder* afterwards: a hook can't be taken back, but it forgets.
    """
    seen = Effects(folder=folder)
    recording = [seen]
    looked_at: set[CodeType] = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if recording and (what := _event(event, arguments)):
            recording[0].events.add(what)

    def profile(frame: FrameType, event: str, argument: Any) -> None:  # noqa: PLR0917 - as the interpreter calls it
        if event == "call":
            code = frame.f_code
            is_function = code.co_flags & _NEW_LOCALS and code.co_name != _OF_MODULES
            if is_function and code.co_filename.startswith(folder) and code not in looked_at:
                looked_at.add(code)
                seen.calls.update({f"{code.co_name} with {found}"} if (found := depends(code)) else ())
        elif event == "c_call" and argument.__name__ in _CALLS_THAT_DIFFER and _is_called_from(folder, frame):
            seen.calls.add(argument.__name__)

    former = sys.getprofile()
    sys.setprofile(profile)
    sys.addaudithook(hook)
    try:
        yield seen
    finally:
        recording.clear()
        sys.setprofile(former)


def _event(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return what to call an audit event, or None where it is known to be harmless by its arguments or its cause."""
    if event == "socket.getaddrinfo" and arguments[0] == _OWN_ADDRESS:
        return None
    if event in _FILES:
        cause = sys._getframe(2).f_code.co_filename  # noqa: SLF001 - as warnings and logging do
        return None if cause.startswith(_IMPORT_SYSTEM) else f"{event} {arguments[0]}"
    return event


def _is_called_from(folder: str, frame: FrameType | None) -> bool:
    """Tell whether a source below *folder* calls *frame*, and not another module's import."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(folder):
            return True
        if name.startswith(_IMPORT_SYSTEM):
            return False
        frame = frame.f_back
    return False


def depends(code: CodeType) -> str | None:
    """Return what of its process or place *code* takes when it is executed, the classes in it too."""
    names: set[str] = set()
    imports_main = False
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        if name in _DIFFERING.get(instruction.opname, ()):
            return name
        if imports_main and not instruction.opname.startswith("STORE_"):  # `basic` only keeps it
            return _MAIN
        imports_main = instruction.opname == "IMPORT_NAME" and name == _MAIN
        names.add(name)
    if names >= {_MAIN, "modules"} and _MAIN in code.co_consts:
        return f"sys.modules[{_MAIN!r}]"
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not constant.co_flags & _NEW_LOCALS and (found := depends(constant)):
            return found
    return None


def state() -> dict[str, Any]:
    """Return what an import may change of the process, and forks don't keep or should not have."""
    return {
        "threads": forking.alive_threads(),
        "descriptors": sorted(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only
        "exit handlers": (atexit._ncallbacks(), len(weakref.finalize._registry)),  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        "signal handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "the collector": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks)),
        "tracing": sys.gettrace(),
        "the search path": list(sys.path),
        "import hooks": [*map(id, sys.meta_path), *map(id, sys.path_hooks)],
        "standard streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr), id(sys.excepthook)],
        "who holds standard streams or arguments": [
            sys.getrefcount(held) for held in (sys.stdin, sys.stdout, sys.stderr, sys.argv)
        ],
        "variables": dict(os.environ),
        "the folder": os.getcwd(),  # noqa: PTH109 - as text
    }
