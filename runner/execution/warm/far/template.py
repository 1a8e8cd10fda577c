"""Processes that have imported what one payload imports: `module_server` has them fork the modules of that payload.

The first module with a payload is forked from the module server, and so is a template, which does the payload's imports
once (`imported`) and is asked to fork all later ones. What its imports read of the environment has to be the same in a
later module; what they did besides importing, such as starting a process or a thread, rules a template out.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import contextlib
import gc
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from . import environment, forking, marking, telling
from .imported import Imported, NotImportable, import_payload
from .module_child import Request
from .stash import Stash

ENABLED = os.environ.get("ANSIBLE_OPERATOR_TEMPLATES") == "1"
"""Off, as what they give has yet to be compared with cold modules."""
_KEPT = 4
"""Templates; each is a process with 18 MiB of its own."""
_REMEMBERED = 64
"""Payloads that can't have one, or wait for theirs."""
_ZIP = re.compile(rb"(?:ZIPDATA = |zip_data=)['\"]([A-Za-z0-9+/=]{256,})['\"]")
_ALWAYS_NEW = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
_HARMLESS = frozenset({
    *("import", "compile", "exec", "open", "marshal.loads", "marshal.load", "object.__getattr__", "sys._getframe"),
    *(
        "object.__setattr__",
        "object.__delattr__",
        "code.__new__",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.dlsym/handle",
    ),
    *(
        "os.listdir",
        "os.scandir",
        "os.mkdir",
        "os.rmdir",
        "os.remove",
        "tempfile.mkdtemp",
        "shutil.rmtree",
        "glob.glob",
    ),
    *("gc.get_objects", "gc.get_referents", "function.__new__", "sys.addaudithook", "builtins.id", "os.putenv"),
    *("os.unsetenv", "array.__new__", "pathlib.Path.glob", "sys.excepthook", "ctypes.cdata", "ctypes.addressof"),
    *(
        "marshal.dumps",
        "sys._current_frames",
        "cpython._PySys_ClearAuditHooks",
        "sys.unraisablehook",
        "pickle.find_class",
    ),
})
"""Events of `sys.audit` that leave nothing behind outside the process, or are `imported`'s own."""


@dataclass(kw_only=True)
class Template:
    """One, as the module server knows it."""

    pid: int
    control: socket.socket
    reads: Mapping[str, str | None] | None = None
    """What its imports read of the environment, once it is ready."""

    def stands_for(self, environ: Mapping[str, str]) -> bool:
        """Tell whether a module with *environ* would import the same."""
        return self.reads is not None and all(environ.get(name) == value for name, value in self.reads.items())

    def hand_over(self, connection: socket.socket, descriptors: Sequence[int]) -> bool:
        """Have it run a module; tell whether that was possible."""
        try:
            socket.send_fds(self.control, [b"run"], [connection.fileno(), *descriptors])
        except OSError:
            return False
        return True


class Templates:
    """All of a module server, by the zip of their payload."""

    def __init__(self) -> None:
        self._templates: OrderedDict[bytes, Template | None] = OrderedDict()

    def find(self, source: bytes) -> tuple[bytes, Template | None] | None:
        """Return the zip of the payload *source* and its template; None where it has no zip, or can't have one."""
        found = _ZIP.search(source) if ENABLED else None
        if found is None:
            return None
        archive = found[1]
        if archive not in self._templates:
            return archive, None
        self._templates.move_to_end(archive)
        template = self._templates[archive]
        return (archive, template) if template else None

    def add(self, archive: bytes, template: Template) -> list[Template]:
        """Keep *template*; return those that aren't kept any more."""
        self._templates[archive] = template
        alive = [key for key, kept in self._templates.items() if kept is not None]
        removed = [self._templates.pop(key) for key in alive[:-_KEPT]]
        while len(self._templates) > _REMEMBERED:
            removed.append(self._templates.popitem(last=False)[1])
        return [template for template in removed if template is not None]

    def drop(self, template: Template) -> None:
        """Have no template for its payload: it can't be one."""
        for archive, kept in self._templates.items():
            if kept is template:
                self._templates[archive] = None


def read_ready(template: Template) -> bool:
    """Read what *template* says when it is ready; tell whether it is."""
    try:
        answer = json.loads(template.control.recv(1 << 16))
        template.reads = answer["reads"]
    except (OSError, ValueError, KeyError):
        return False
    return True


def start(
    archive: bytes,
    *,
    request: Request,
    stash: Stash,
    serve: Callable[[socket.socket, Imported], None],
) -> Template:
    """Fork a template for the payload with *archive*; *serve* is what it does with its end of the control socket.

    Raises:
        ForkError: this process can't fork.
        OSError: there are no descriptors.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        try:
            parent = os.getpid()
            pid = forking.fork()
        except forking.ForkError:
            near.close()
            raise
        if pid == 0:
            _become(archive, request=request, stash=stash, control=far, parent=parent, serve=serve)
    return Template(pid=pid, control=near)


def _become(
    archive: bytes,
    *,
    request: Request,
    stash: Stash,
    control: socket.socket,
    parent: int,
    serve: Callable[[socket.socket, Imported], None],
) -> NoReturn:
    try:
        forking.die_with_parent(parent)
        own = dict(os.environ)
        _silence()
        forking.become_child(
            mark=marking.ROOM, environ=request.environ, cwd=None, keep=(control.fileno(), *telling.descriptors())
        )
        forking.rebuild_stdio()
        try:
            imported, reads = _imported(archive, stash=stash)
        except Exception as error:  # noqa: BLE001 - whatever a module utility raises: a module will say so itself
            control.send(json.dumps({"why": f"{type(error).__name__}: {error}"[:200]}).encode())
            os._exit(0)
        values = {name: request.environ.get(name) for name in reads}
        os.environ.clear()
        os.environ.update(own)
        gc.disable()
        gc.collect()
        gc.freeze()
        control.send(json.dumps({"reads": values}).encode())
        serve(control, imported)
    except BaseException:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
    finally:
        os._exit(1)


def _silence() -> None:
    """Give the imports no standard input, and the place of the server's standard error for what they complain of."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _imported(archive: bytes, *, stash: Stash) -> tuple[Imported, list[str]]:
    """Do the imports, and find out whether they are all that was done.

    Raises:
        NotImportable: they are not.
    """
    stash.serve_payloads()
    try:
        content = base64.b64decode(archive)
    except binascii.Error as error:
        raise NotImportable("it has no zip") from error
    folder = tempfile.mkdtemp(prefix="ansible_x_payload_")
    try:
        before = _state()
        with environment.reads_recorded() as reads, _events_recorded() as events:
            imported = import_payload(content, folder=folder, stash=stash)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if changed := [name for name, value in _state().items() if value != before[name]]:
        raise NotImportable(f"its imports change {', '.join(changed)}")
    if others := events - _HARMLESS:
        raise NotImportable(f"its imports do {', '.join(sorted(others))}")
    names = set(reads)
    if environment.EVERYTHING in names or names & _ALWAYS_NEW:
        raise NotImportable(f"its imports read {', '.join(sorted(names))}")
    return imported, sorted(names)


def _state() -> dict[str, Any]:
    """Return what an import may change of the process."""
    return {
        "threads": forking.alive_threads(),
        "descriptors": sorted(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only
        "exit handlers": atexit._ncallbacks(),  # noqa: SLF001 - there is no public way
        "signal handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "the search path": list(sys.path),
        "import hooks": [*map(id, sys.meta_path), *map(id, sys.path_hooks)],
        "standard streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr), id(sys.excepthook)],
        "variables": dict(os.environ),
        "the folder": os.getcwd(),  # noqa: PTH109 - as text
    }


@contextlib.contextmanager
def _events_recorded() -> Iterator[set[str]]:
    """Record the kinds of events that `sys.audit` tells of."""
    events: set[str] = set()
    recording = [True]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if recording and (event != "socket.getaddrinfo" or arguments[0] != "127.0.0.1"):  # that asks nobody
            events.add(event)

    sys.addaudithook(hook)
    try:
        yield events
    finally:
        recording.clear()
