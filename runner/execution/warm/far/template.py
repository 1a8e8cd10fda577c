"""Processes that have imported what one payload imports: `module_server` has them fork the modules of that payload.

When a payload comes the second time its module is forked from the module server as the first one was, and so is a
template, which does the payload's imports once (`imported`) and is asked to fork all later ones. What its imports read
of the environment has to be the same in a later module; what they did besides importing (`effects`) rules a template
out, and the log says why. One that nobody uses ends.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import gc
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from . import effects, environment, forking, marking, telling
from .imported import Imported, NotImportable, import_payload, module_in
from .stash import Stash

ENABLED = os.environ.get("ANSIBLE_OPERATOR_TEMPLATES") == "1"
"""What the operator was started with. Off unless asked for: texts that a module makes of a fault in its imports aren't
yet those of a cold one, see docs/critiques.md."""
KEPT = 3
"""Templates at a time; each is a process with some 18 MiB of its own. Who comes later goes the ordinary way: in a ring
of four payloads the least recently used one would always be the next, and each module would cost a template."""
UNUSED = 300.0
"""Seconds: one that nobody has used for so long ends, and a payload has to come twice within this time to get one."""
IMPORTING = 60.0
"""Seconds after which a template that is still not ready is taken to hang."""
_REMEMBERED = 256
"""Payloads of which is known that they came."""
_MISSES = 3
"""Modules in a row for which a template is of no use, as their environment differs where its imports read it."""
_ZIP = re.compile(rb"(?:ZIPDATA = |zip_data=)['\"]([A-Za-z0-9+/=]{256,})['\"]")
_ALWAYS_NEW = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
_TOLD = 50
"""Reasons that are told; each is told once."""


@dataclass(kw_only=True, eq=False)
class Template:
    """One, as the module server knows it."""

    pid: int
    control: socket.socket
    reads: Mapping[str, str | None] | None = None
    """What its imports read of the environment, once it is ready."""
    used: float = field(default_factory=time.monotonic)
    """When it was forked or forked a module, by the monotonic clock."""
    misses: int = 0

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

    def ends_at(self) -> float:
        """Return when it has been of no use for too long."""
        return self.used + (IMPORTING if self.reads is None else UNUSED)


@dataclass(kw_only=True)
class _Payload:
    """What is known of one, by the digest of its zip."""

    came: float
    again: bool = False
    """Whether it came twice within the time that a template is kept."""
    template: Template | None = None
    has_none: bool = False
    """Whether it can't have one."""


class Templates:
    """All of a module server."""

    def __init__(self, *, enabled: bool = ENABLED) -> None:
        """There are none where they are not *enabled*."""
        self._enabled = enabled
        self._payloads: OrderedDict[bytes, _Payload] = OrderedDict()
        self._leaving: list[Template] = []
        self._told: set[str] = set()

    def find(self, source: bytes, *, environ: Mapping[str, str]) -> Template | None:
        """Return the template that can run a module with the payload *source* and *environ*; None where there is none.

        One that can't for several modules in a row ends.
        """
        archive = archive_of(source) if self._enabled else None
        payload = self._payloads.get(_digest(archive)) if archive else None
        template = payload.template if payload else None
        if template is None or template.reads is None:
            return None
        if template.stands_for(environ):
            template.used, template.misses = time.monotonic(), 0
            return template
        template.misses += 1
        if template.misses >= _MISSES:
            names = sorted(name for name, value in template.reads.items() if environ.get(name) != value)
            self.rule_out(template, reason=f"each has other values in what its imports read: {', '.join(names)}")
        return None

    def wants(self, source: bytes) -> bytes | None:
        """Note that a module with the payload *source* was started; return its zip where it is to get a template."""
        archive = archive_of(source) if self._enabled else None
        if archive is None:
            return None
        now = time.monotonic()
        digest = _digest(archive)
        payload = self._payloads.pop(digest, None)
        known = payload is not None
        payload = payload or _Payload(came=now)
        payload.again = known and now - payload.came < UNUSED
        payload.came = now
        self._payloads[digest] = payload
        for other in [key for key, kept in self._payloads.items() if kept.template is None][:-_REMEMBERED]:
            del self._payloads[other]
        wanted = payload.again and payload.template is None and not payload.has_none
        return archive if wanted and len(self.standing()) < KEPT else None

    def has_room(self, archive: bytes) -> bool:
        """Tell whether the payload with *archive* can still get a template: it may have come twice at once."""
        payload = self._payloads.get(_digest(archive))
        return len(self.standing()) < KEPT and payload is not None and payload.template is None

    def add(self, archive: bytes, template: Template) -> None:
        """Keep *template*."""
        self._payloads.setdefault(_digest(archive), _Payload(came=template.used)).template = template

    def standing(self) -> list[Template]:
        """Return those that are there."""
        return [payload.template for payload in self._payloads.values() if payload.template is not None]

    def rule_out(self, template: Template, *, reason: str) -> None:
        """Have none for its payload from now on, and tell why."""
        for payload in self._payloads.values():
            if payload.template is template:
                payload.has_none = True
                self.let_go(template)
                if reason not in self._told and len(self._told) < _TOLD:
                    self._told.add(reason)
                    telling.tell("Modules with the same payload are not forked from a template", reason=reason)

    def let_go(self, template: Template) -> None:
        """Keep *template* no more; its payload may get another."""
        for payload in self._payloads.values():
            if payload.template is template:
                payload.template, payload.again = None, False
                self._leaving.append(template)

    def wait(self) -> float | None:
        """Return in how many seconds one of them has been of no use for too long; None where there are none."""
        ends = [template.ends_at() for template in self.standing()]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def leaving(self) -> list[Template]:
        """Return those that are kept no more, each once: they are to end when their modules have."""
        now = time.monotonic()
        for template in [template for template in self.standing() if template.ends_at() <= now]:
            if template.reads is None:
                self.rule_out(template, reason=f"its imports take more than {IMPORTING:.0f} s")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(template.pid, signal.SIGKILL)
            else:
                self.let_go(template)
        found, self._leaving = self._leaving, []
        return found


def archive_of(source: bytes) -> bytes | None:
    """Return the zip of the payload *source*, in base64; None where there is none."""
    found = _ZIP.search(source)
    return found[1] if found else None


def _digest(archive: bytes) -> bytes:
    return hashlib.blake2b(archive, digest_size=20).digest()


def read_ready(template: Template) -> str | None:
    """Read what *template* says when it has done its imports; return what keeps it from being one, or None."""
    if template.reads is not None:
        return "it ended unexpectedly"
    try:
        answer = json.loads(template.control.recv(1 << 16))
        template.reads = answer["reads"]
    except (OSError, ValueError):
        return "it ended while it did its imports"
    except KeyError:
        return str(answer.get("why"))
    template.used = time.monotonic()
    return None


def start(
    archive: bytes,
    *,
    environ: dict[str, str],
    scratch: str,
    stash: Stash,
    serve: Callable[[socket.socket, Imported], None],
) -> Template:
    """Fork a template for the payload with *archive*; *serve* is what it does with its end of the control socket.

    Its imports find *environ*, which it empties afterwards: another run's values must not be in a module's memory. So
    no caller may hold a request, either. A copy of the zip is for a moment in *scratch*, a private folder.

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
            forking.die_with_parent(parent)
            _become(archive, environ=environ, scratch=scratch, stash=stash, control=far, serve=serve)
    return Template(pid=pid, control=near)


def _become(
    archive: bytes,
    *,
    environ: dict[str, str],
    scratch: str,
    stash: Stash,
    control: socket.socket,
    serve: Callable[[socket.socket, Imported], None],
) -> NoReturn:
    try:
        own, complaints = dict(os.environ), os.dup(2)
        _silence()
        keep = (control.fileno(), complaints, *telling.descriptors())
        forking.become_child(mark=marking.ROOM, environ=environ, cwd=None, keep=keep)
        forking.rebuild_stdio()
        try:
            imported, reads = _imported(archive, scratch=scratch, stash=stash)
        except Exception as error:  # noqa: BLE001 - whatever a module utility raises: a module will say so itself
            control.send(json.dumps({"why": _told_of(error, archive=archive)}).encode())
            os._exit(0)
        os.dup2(complaints, 2)
        os.dup2(0, 1)
        os.close(complaints)
        values = {name: environ.get(name) for name in reads}
        environ.clear()
        os.environ.clear()
        os.environ.update(own)
        gc.disable()
        gc.collect()
        gc.freeze()
        control.send(json.dumps({"reads": values}).encode())
        del values, own
        serve(control, imported)
    except BaseException:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
    finally:
        os._exit(1)


def _told_of(error: Exception, *, archive: bytes) -> str:
    """Return what the log may know of *error*: which module it was, and why. A foreign error's text is not ours."""
    why = str(error) if isinstance(error, NotImportable) else f"its imports fail with {type(error).__name__}"
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(archive))) as file:
            return f"{module_in(file.namelist())}: {why}"[:300]
    except (ValueError, zipfile.BadZipFile):
        return why[:300]


def _silence() -> None:
    """Give the imports no standard input, and a file of memory for what they print."""
    nothing, printed = os.open(os.devnull, os.O_RDWR), os.memfd_create("printed")
    os.dup2(nothing, 0)
    for descriptor in (1, 2):
        os.dup2(printed, descriptor)
    os.close(nothing)
    os.close(printed)


def _imported(archive: bytes, *, scratch: str, stash: Stash) -> tuple[Imported, list[str]]:
    """Do the imports, and find out whether they are all that was done.

    Raises:
        NotImportable: they are not.
    """
    stash.serve_payloads()
    try:
        content = base64.b64decode(archive)
    except binascii.Error as error:
        raise NotImportable("it has no zip") from error
    folder = tempfile.mkdtemp(prefix="ansible_x_payload_", dir=scratch)
    try:
        before = effects.state()
        with environment.reads_recorded() as reads:
            imported = import_payload(content, folder=folder, stash=stash)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if changed := [name for name, value in effects.state().items() if value != before[name]]:
        raise NotImportable(f"its imports change {', '.join(changed)}")
    sys.stdout.flush()
    if os.fstat(1).st_size:
        raise NotImportable("its imports print something")
    names = set(reads)
    if environment.EVERYTHING in names:
        raise NotImportable("its imports read all variables")
    if always_new := names & _ALWAYS_NEW:
        raise NotImportable(f"its imports read {', '.join(sorted(always_new))}")
    return imported, sorted(names)
