"""Finds out which libraries a server can import, in processes that are thrown away: one of them may do anything there.

A library may exit, crash, hang, start a thread (no process with threads can be forked safely) or print when it is
imported. In a module's own process that is the module's affair; here it would be that of every run. Used by `server`,
before it imports what is left for good.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from . import forking

EACH, ALL = 30.0, 60.0
"""Seconds that one import, and all of them, may take."""
_CHUNK = 4096
_GOOD, _MISSING, _BAD = "good", "missing", "bad"


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What is known of some libraries."""

    good: Sequence[str] = ()
    failed: Sequence[str] = ()
    """Their import raises an error, as where they aren't installed."""
    odd: Mapping[str, str] = field(default_factory=dict)
    """Why others must not be imported here."""


def probe(names: Iterable[str], *, each: float = EACH, all_together: float = ALL) -> Probed:
    """Try to import *names*, each of which may take *each* seconds; what there is no time for is odd."""
    rest = list(names)
    good: list[str] = []
    failed: list[str] = []
    odd: dict[str, str] = {}
    end = time.monotonic() + all_together
    while rest:
        try:
            verdicts = _try(rest, each=each, end=end)
        except (forking.ForkError, OSError) as error:
            odd.update(dict.fromkeys(rest, f"it cannot be tried: {error}"))
            break
        for name, (kind, why) in verdicts.items():
            if kind == _BAD:
                odd[name] = why
            else:
                (good if kind == _GOOD else failed).append(name)
        rest = [name for name in rest if name not in verdicts]
    return Probed(good=good, failed=failed, odd=odd)


def _try(names: Sequence[str], *, each: float, end: float) -> dict[str, tuple[str, str]]:
    """Return what a process says that imports *names* one by one, up to the first bad one: kind and reason of each."""
    reading, writing = os.pipe()
    server = os.getpid()
    try:
        pid = forking.fork()
    except forking.ForkError:
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        _import_all(names, verdicts=writing, server=server)
    os.close(writing)
    lines: list[str] = []
    hung = _read_all(reading, lines, each=each, end=end)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found: dict[str, tuple[str, str]] = {}
    for name, line in zip(names, lines, strict=False):
        kind, _, why = line.partition(" ")
        found[name] = (kind, why)
    if len(found) < len(names) and not any(kind == _BAD for kind, _ in found.values()):
        how = "takes too long" if hung else f"ends the process ({code})"
        found[names[len(found)]] = (_BAD, how)
    return found


def _read_all(pipe: int, lines: list[str], *, each: float, end: float) -> bool:
    """Read *lines* until there are no more; tell whether one took too long."""
    rest = b""
    while True:
        patience = max(0.0, min(each, end - time.monotonic()))
        if not select.select([pipe], [], [], patience)[0]:
            return True
        chunk = os.read(pipe, _CHUNK)
        *whole, rest = (rest + chunk).split(b"\n")
        lines += [line.decode() for line in whole]
        if not chunk:
            return False


def _import_all(names: Sequence[str], *, verdicts: int, server: int) -> NoReturn:
    """Import *names* in a process of its own, and write a line about each."""
    try:
        forking.die_with_parent(server)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        with tempfile.TemporaryFile(buffering=0) as printed:
            for descriptor in (1, 2):
                os.dup2(printed.fileno(), descriptor)
            _tell_of(names, verdicts=verdicts, printed=printed.fileno())
    finally:
        os._exit(0)


def _tell_of(names: Sequence[str], *, verdicts: int, printed: int) -> None:
    for name in names:
        line = _import(name, printed=printed)
        os.write(verdicts, line.encode("ascii") + b"\n")
        if line.startswith(_BAD):
            break


def _import(name: str, *, printed: int) -> str:
    try:
        importlib.import_module(name)
    except SystemExit:
        return f"{_BAD} exits"
    except Exception:  # noqa: BLE001 - whatever a library raises at import; a module that needs it will say so itself
        kind = _MISSING
    else:
        kind = _GOOD
    if len(forking.alive_threads()) > 1:
        return f"{_BAD} starts a thread"
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    return f"{_BAD} prints" if os.fstat(printed).st_size else kind
