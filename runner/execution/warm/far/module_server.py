"""The module server: has modules' libraries imported and their sources compiled, and forks one process per module.

It is forked from the play server before that imports Ansible, since no module may find the controller's code loaded.
A worker's connection plugin (`module_client`) connects, hands over the module's descriptors and a memory file with the
request, and gets the exit status back on the same connection:

    {"starts": true}  the module is forked now: from here on it may have run
    {"status": N}     as `os.waitpid` has it
    {"refused": why}  the module was not started and goes the ordinary way

So a module never runs twice: what goes wrong before it starts is a refusal, or the end of the connection where nothing
was said yet; what goes wrong later ends the module, and its worker never learns how it ended.
A connection that ends early means that the worker was killed; its module gets SIGTERM, as it would from the worker.
"""

from __future__ import annotations

import contextlib
import errno
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

from . import addresses, aws_data, forking, marking, module_child, pages, telling, template
from .environment import ImportedIn, import_libraries
from .imported import Imported
from .module_child import Request, RequestError
from .needs import Needs
from .payload import NoPayload, Payloads
from .shell import ShellEnvironments
from .stash import Stash, sources_of
from .template import Template, Templates

LET_GO = b"let go"
"""A worker says so before it leaves a module running, as one does whose task has timed out."""
_NAME = "modules.socket"
_BACKLOG = 256
_DESCRIPTORS = 4
"""Of a request: the memory file, standard input, output and error."""
_ENDS_AT_ONCE = "/bin/true"
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE = 0.1
"""Seconds without a look at who wants to connect, where there are no descriptors to let anybody in."""
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


def fork(*, scratch: str, needs: Needs, libraries: Sequence[str], collections_path: Sequence[str] = ()) -> ModuleServer:
    """Fork the module server, which listens in *scratch*, a private folder. It ends with this process.

    It imports *libraries* itself: this process, and so each play, is the smaller without them.

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
            _serve(listener, scratch=scratch, parent=parent, stash=stash, libraries=libraries, services=needs.services)
    return ModuleServer(pid=pid, address=address, sources=known)


def _serve(
    listener: socket.socket,
    *,
    scratch: str,
    parent: int,
    stash: Stash,
    libraries: Sequence[str],
    services: Sequence[str],
) -> NoReturn:
    code = 1
    try:
        forking.set_name("warm-modules")
        forking.die_with_parent(parent)
        keep = (listener.fileno(), *telling.descriptors())
        forking.become_child(mark=marking.ROOM, environ=dict(os.environ), cwd=None, keep=keep)
        imported = import_libraries((*libraries, *_PRELOADED, *stash.standard_library()))
        aws_data.keep(services)
        gc.disable()
        gc.collect()
        gc.freeze()
        pages.fill_holes()
        pages.make_huge()
        _Server(listener, scratch=scratch, stash=stash, imported_in=ImportedIn(imported.reads)).serve()
    except BaseException:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
    finally:
        os._exit(code)


@dataclass(kw_only=True)
class _Module:
    """A module that runs."""

    pid: int
    group: int
    connection: socket.socket
    watched: int = -1
    """Descriptor that tells of its end."""

    def signal(self, number: signal.Signals) -> None:
        """Signal its process group."""
        with contextlib.suppress(ProcessLookupError):
            if self.group and os.getpgid(self.pid) == os.getpgrp():  # it has yet to enter its group
                os.kill(self.pid, number)
            else:
                os.killpg(self.group or self.pid, number)

    def reap(self) -> int:
        """Wait for its end, and that of its group; return its status."""
        _, status = os.waitpid(self.pid, 0)
        _reap_group(self.group)
        return status


def call_ready(selector: selectors.BaseSelector, *, timeout: float | None = None) -> None:
    """Wait, and call what is to be called for each descriptor that is ready, if an earlier call didn't remove it.

    A call may close a descriptor and open another with its number: that one has not said that it is ready.
    """
    for key, _ in selector.select(timeout):
        if selector.get_map().get(key.fd) is key:
            key.data()


class _Server:
    def __init__(
        self,
        entrance: socket.socket,
        *,
        scratch: str,
        stash: Stash,
        imported_in: ImportedIn,
        imported: Imported | None = None,
    ) -> None:
        """*entrance* is where workers connect; of a template (that has *imported*), where it is handed connections."""
        self._entrance = entrance
        self._scratch = scratch
        self._stash = stash
        self._imported = imported
        self._imported_in = imported_in
        self._shells = ShellEnvironments()
        self._payloads = Payloads()
        self._templates = Templates()
        self._wanted: list[tuple[bytes, dict[str, str]]] = []
        self._selector = selectors.DefaultSelector()
        self._lacks = _lacks()
        self._pauses = False
        self._running = 0
        self._closed = False

    def serve(self) -> None:
        """Serve until a template's entrance is closed, and its modules have ended."""
        self._watch(self._entrance, self._accept if self._imported is None else self._take_over)
        while self._running or not self._closed:
            paused, self._pauses = self._pauses, False
            call_ready(self._selector, timeout=_PAUSE if paused else self._templates.wait())
            if paused:
                self._watch(self._entrance, self._accept)
            while self._wanted:
                self._start_template()
            for leaving in self._templates.leaving():
                self._part_from(leaving)

    def _accept(self) -> None:
        try:
            connection = self._entrance.accept()[0]
        except OSError as error:  # it has gone already, or there is no descriptor for it
            if error.errno in _SCARCE:
                self._selector.unregister(self._entrance)
                self._pauses = True
            return
        try:
            if _uid_of(connection) == os.geteuid():
                self._watch(connection, lambda: self._receive(connection))
                return
        except OSError:
            traceback.print_exc()
        connection.close()

    def _take_over(self) -> None:
        """Take a worker's connection and its request from the module server."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._entrance, 64, _DESCRIPTORS + 1)
        except OSError:
            message, descriptors = b"", []
        if not message:
            self._selector.unregister(self._entrance)
            self._closed = True
        elif len(descriptors) == _DESCRIPTORS + 1:
            connection = socket.socket(fileno=descriptors[0])
            self._watch(connection, lambda: self._receive(connection))
            self._try(connection, descriptors[1:])
        else:  # cut short, as there are no descriptors: nothing was said to the worker yet, so that it goes another way
            _close(descriptors)

    def _watch(self, connection: socket.socket, call: Callable[[], None]) -> None:
        self._selector.register(connection, selectors.EVENT_READ, call)

    def _leave(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):  # it may not be watched, or be closed
            self._selector.unregister(connection)
        connection.close()

    def _receive(self, connection: socket.socket) -> None:
        """Take the request and start its module."""
        try:
            message, descriptors, _, _ = socket.recv_fds(connection, 64, _DESCRIPTORS)
        except OSError:
            message, descriptors = b"", []
        if message and len(descriptors) == _DESCRIPTORS and not self._lacks:
            self._try(connection, descriptors)
            return
        _close(descriptors)
        if message:
            self._refuse(connection, self._lacks or "the module server has no descriptors left")
        else:
            self._leave(connection)

    def _try(self, connection: socket.socket, descriptors: Sequence[int]) -> None:
        """Start the module; whatever goes wrong is the end of this request, and of nothing else."""
        try:
            request = module_child.read_request(descriptors[0])
            if self._hand_over(request, connection=connection, descriptors=descriptors):
                self._leave(connection)
                return
            request = self._understood(request)
            self._start(request, connection=connection, descriptors=descriptors)
        except RequestError as error:
            self._refuse(connection, str(error))
        except OSError as error:
            self._refuse(connection, f"the module server can't do it: {error.strerror}")
        except Exception as error:  # noqa: BLE001 - one request must not end the server of all
            traceback.print_exc()
            self._refuse(connection, f"the module server can't do it: {type(error).__name__}")
        else:
            self._prepare_for_next(request)  # the module runs: nothing of this may refuse it any more
        finally:
            _close(descriptors)

    def _refuse(self, connection: socket.socket, reason: str) -> None:
        self._answer(connection, refused=reason)
        self._leave(connection)
        telling.tell(telling.COLD_MODULE, reason=reason)

    def _hand_over(self, request: Request, *, connection: socket.socket, descriptors: Sequence[int]) -> bool:
        """Have the payload's template do it; tell whether there is one."""
        if self._imported is not None:
            return False
        known = self._templates.find(request.source, environ=request.environ)
        return known is not None and known.hand_over(connection, descriptors)

    def _prepare_for_next(self, request: Request) -> None:
        """Want a template for what was just started, if it may come again."""
        archive = self._templates.wants(request.source) if self._imported is None else None
        if archive is not None:
            self._wanted.append((archive, dict(request.environ)))

    def _start_template(self) -> None:
        """Fork one, while no request is on the stack: it would be in the memory of all later modules. It may fail."""
        archive, environ = self._wanted.pop()
        if not self._templates.has_room(archive):
            return
        try:
            made = template.start(
                archive, environ=environ, scratch=self._scratch, stash=self._stash, serve=self._serve_template
            )
        except (OSError, forking.ForkError):
            return
        try:
            watched = os.pidfd_open(made.pid)
            self._selector.register(watched, selectors.EVENT_READ, lambda: self._template_ended(made, watched=watched))
            self._watch(made.control, lambda: self._template_says(made))
        except OSError:  # it runs nothing yet
            os.kill(made.pid, signal.SIGKILL)
            os.waitpid(made.pid, 0)
            made.control.close()
            return
        self._templates.add(archive, made)

    def _serve_template(self, control: socket.socket, imported: Imported) -> None:
        self._wanted.clear()
        _Server(
            control, scratch=self._scratch, stash=self._stash, imported_in=self._imported_in, imported=imported
        ).serve()

    def _template_says(self, made: Template) -> None:
        if reason := template.read_ready(made):
            self._templates.rule_out(made, reason=reason)

    def _part_from(self, made: Template) -> None:
        """Let it end: it does when the modules that it runs have ended."""
        if made.control.fileno() != -1:
            self._leave(made.control)

    def _template_ended(self, made: Template, *, watched: int) -> None:
        os.waitpid(made.pid, 0)
        self._selector.unregister(watched)
        os.close(watched)
        self._templates.rule_out(made, reason="it ended unexpectedly")
        self._part_from(made)

    def _understood(self, request: Request) -> Request:
        """Return the request with the environment that its module will find.

        Raises:
            RequestError: the module must go the ordinary way.
        """
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
        module_child.own_modules()
        room = os.dup(connection.fileno())  # for the child's
        group = _new_group()
        server = os.getpid()
        try:
            connection.send(json.dumps({"starts": True}).encode())
            pid = forking.fork()
        except forking.ForkError as error:
            _reap_group(group)
            raise RequestError(str(error)) from error
        except OSError:  # the worker is gone: nothing starts for it any more
            _reap_group(group)
            self._leave(connection)
            return
        finally:
            os.close(room)
        if pid == 0:
            try:
                forking.die_with_parent(server)
                module_child.run(
                    request,
                    code=code,
                    descriptors=descriptors[1:],
                    group=group,
                    stash=self._stash,
                    imported_in=self._imported_in,
                    imported=self._imported,
                )
            finally:
                os._exit(forking.BROKEN)
        self._follow(_Module(pid=pid, group=group, connection=connection))

    def _follow(self, module: _Module) -> None:
        """Watch for the module's end, and its worker's. What can't be watched is ended: it is too late to refuse it."""
        self._running += 1
        try:
            module.watched = os.pidfd_open(module.pid)
            self._selector.register(module.watched, selectors.EVENT_READ, lambda: self._ended(module))
            self._selector.modify(module.connection, selectors.EVENT_READ, lambda: self._left_by_worker(module))
        except Exception:  # noqa: BLE001 - whatever it is, the module runs
            traceback.print_exc()
            module.signal(signal.SIGKILL)
            self._forget(module)
            self._leave(module.connection)

    def _forget(self, module: _Module) -> int:
        """Reap the module; return its status."""
        status = module.reap()
        self._running -= 1
        if module.watched != -1:
            with contextlib.suppress(KeyError):  # watching it may be what failed
                self._selector.unregister(module.watched)
            os.close(module.watched)
        return status

    def _ended(self, module: _Module) -> None:
        status = self._forget(module)
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
            module.signal(signal.SIGTERM)

    def _answer(self, connection: socket.socket, **fields: Any) -> None:
        with contextlib.suppress(OSError):
            connection.send(json.dumps(fields).encode())


def _new_group() -> int:
    """Return a process group for a module. Its leader ends at once, and is reaped when that module has ended.

    Cold, the leader of a module's group and session is a process above it: so a module may call setsid and setpgid.
    0 where the system has no such program: the module leads its own group then.
    """
    try:
        return os.posix_spawn(_ENDS_AT_ONCE, [_ENDS_AT_ONCE], {}, setpgroup=0)
    except OSError:
        return 0


def _reap_group(group: int) -> None:
    if group:
        os.waitpid(group, 0)


def _lacks() -> str | None:
    """Return what keeps modules from being run here at all."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return "this system can't tell of the end of a process (pidfd_open)"
    return None


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _uid_of(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
