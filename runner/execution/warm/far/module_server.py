"""The module server: has modules' libraries imported and their sources compiled, and forks one process per module.

It is forked from the play server before that imports Ansible, since no module may find the controller's code loaded.
A worker's connection plugin (`module_client`) connects, hands over the module's descriptors and a memory file with the
request, and gets the exit status back on the same connection:

    {"status": N}     as `os.waitpid` has it
    {"refused": why}  the module was not started and goes the ordinary way

A connection that ends early means that the worker was killed; its module gets SIGTERM, as it would from the worker.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from . import addresses, forking, marking, module_child
from .environment import ImportedIn, Libraries, import_libraries, merged
from .module_child import Request, RequestError
from .needs import Needs
from .payload import NoPayload, Payloads
from .shell import ShellEnvironments
from .stash import Stash, sources_of

LET_GO = b"let go"
"""A worker says so before it leaves a module running, as one does whose task has timed out."""
_NAME = "modules.socket"
_BACKLOG = 256
_DESCRIPTORS = 4
"""Of a request: the memory file, standard input, output and error."""
_ENDS_AT_ONCE = "/bin/true"
_CREDENTIALS = struct.Struct("3i")
_PRELOADED = ("atexit", "base64", "ctypes", "grp", "pwd", "shutil", "syslog", "tempfile", "zipfile", "zipimport")
"""What payloads and `ansible.module_utils.basic` import of the standard library, and little else does."""


@dataclass(frozen=True, kw_only=True)
class ModuleServer:
    """A forked module server."""

    pid: int
    address: str
    """Path of its socket; it accepts connections already."""
    sources: int
    """How many sources it has compiled."""


def fork(*, scratch: str, needs: Needs, libraries: Libraries, collections_path: Sequence[str] = ()) -> ModuleServer:
    """Fork the module server, which listens in *scratch*, a private folder. It ends with this process.

    Raises:
        OSError: it can't listen there.
        ForkError: this process can't fork.
    """
    address = str(Path(scratch) / _NAME)
    stash = Stash()
    known = stash.add_all(sources_of((*needs.utilities, *needs.modules), collections_path=collections_path))
    parent = os.getpid()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with listener:
        with addresses.short(address) as name:
            listener.bind(name)
        listener.listen(_BACKLOG)
        pid = forking.fork()
        if pid == 0:
            _serve(listener, parent=parent, stash=stash, libraries=libraries)
    return ModuleServer(pid=pid, address=address, sources=known)


def _serve(listener: socket.socket, *, parent: int, stash: Stash, libraries: Libraries) -> NoReturn:
    code = 1
    try:
        forking.set_name("warm-modules")
        forking.die_with_parent(parent)
        forking.become_child(mark=marking.ROOM, environ=dict(os.environ), cwd=None, keep={listener.fileno()})
        standard = import_libraries((*_PRELOADED, *stash.standard_library()))
        gc.disable()
        gc.collect()
        gc.freeze()
        _Server(listener, stash=stash, imported_in=ImportedIn(merged(libraries, standard).reads)).serve()
    except BaseException:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
    finally:
        os._exit(code)


@dataclass(kw_only=True)
class _Module:
    """A module that runs."""

    pid: int
    group: int
    watched: int
    """Descriptor that tells of its end."""
    connection: socket.socket


class _Server:
    def __init__(self, listener: socket.socket, *, stash: Stash, imported_in: ImportedIn) -> None:
        self._listener = listener
        self._stash = stash
        self._imported_in = imported_in
        self._shells = ShellEnvironments()
        self._payloads = Payloads()
        self._selector = selectors.DefaultSelector()
        self._next_group = _new_group()

    def serve(self) -> NoReturn:
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._selector.get_map():  # an earlier one of this round may have closed it
                    key.data()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has gone already
            connection = self._listener.accept()[0]
            if _uid_of(connection) != os.geteuid():
                connection.close()
                return
            self._watch(connection, lambda: self._receive(connection))

    def _watch(self, connection: socket.socket, call: Callable[[], None]) -> None:
        self._selector.register(connection, selectors.EVENT_READ, call)

    def _leave(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()

    def _receive(self, connection: socket.socket) -> None:
        """Take the request and start its module."""
        descriptors: list[int] = []
        try:
            message, descriptors, _, _ = socket.recv_fds(connection, 64, _DESCRIPTORS)
            if not message or len(descriptors) != _DESCRIPTORS:
                self._leave(connection)
                return
            request = self._understood(descriptors[0])
            self._start(request, connection=connection, descriptors=descriptors)
        except RequestError as error:
            self._answer(connection, refused=str(error))
            self._leave(connection)
        except OSError as error:
            self._answer(connection, refused=f"the module server can't do it: {error.strerror}")
            self._leave(connection)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _understood(self, descriptor: int) -> Request:
        """Return the request with the environment that its module will find.

        Raises:
            RequestError: the module must go the ordinary way.
        """
        request = module_child.read_request(descriptor)
        environ = self._shells.behind(request.shells, request.environ, cwd=request.cwd, program=request.interpreter)
        if environ is None:
            raise RequestError(f"{request.shells.inner} doesn't tell which environment it gives to programs")
        self._imported_in.of_interpreter(environ)
        if reason := self._imported_in.why_not(environ):
            raise RequestError(f"the module's environment {reason}")
        return request.with_environ(environ)

    def _start(self, request: Request, *, connection: socket.socket, descriptors: Sequence[int]) -> None:
        try:
            code = self._payloads.code(request.source, filename=request.filename)
        except NoPayload as error:
            raise RequestError("it is no payload of Ansible's, or one of a release that is not known") from error
        group = self._next_group
        try:
            pid = forking.fork()
        except forking.ForkError as error:
            raise RequestError(str(error)) from error
        if pid == 0:
            module_child.run(
                request,
                code=code,
                descriptors=descriptors[1:],
                group=group,
                stash=self._stash,
                imported_in=self._imported_in,
            )
        module = _Module(pid=pid, group=group, watched=os.pidfd_open(pid), connection=connection)
        self._selector.register(module.watched, selectors.EVENT_READ, lambda: self._ended(module))
        self._selector.modify(connection, selectors.EVENT_READ, lambda: self._left_by_worker(module))
        self._next_group = _new_group()

    def _ended(self, module: _Module) -> None:
        _, status = os.waitpid(module.pid, 0)
        if module.group:
            os.waitpid(module.group, 0)
        self._selector.unregister(module.watched)
        os.close(module.watched)
        if module.connection.fileno() != -1:
            self._answer(module.connection, status=status)
            self._leave(module.connection)

    def _left_by_worker(self, module: _Module) -> None:
        try:
            said = module.connection.recv(len(LET_GO))
        except OSError:
            said = b""
        self._leave(module.connection)
        if said != LET_GO:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(module.group or module.pid, signal.SIGTERM)

    def _answer(self, connection: socket.socket, **fields: Any) -> None:
        with contextlib.suppress(OSError):
            connection.send(json.dumps(fields).encode())


def _new_group() -> int:
    """Return a process group for the next module. Its leader has ended, and is reaped when that module has.

    Cold, the leader of a module's group and session is a process above it: so a module may call setsid and setpgid.
    0 where the system has no such program: the module leads its own group then.
    """
    try:
        return os.posix_spawn(_ENDS_AT_ONCE, [_ENDS_AT_ONCE], {}, setpgroup=0)
    except OSError:
        return 0


def _uid_of(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
