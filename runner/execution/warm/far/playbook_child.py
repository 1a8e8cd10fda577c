"""The process that plays: ansible-playbook's ordinary command line, in a fork of ansible-runner's process, on a pty.

It is forked before ansible-runner knows what to play and stands by, so that both get ready at the same time on two
processors. An order makes it what ansible-runner would have started; without one it ends and nothing is noticed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

from . import ansible_internals as internals
from . import environment, forking, losing, pages, sameness, warmup
from .payload_cache import PayloadCache

_CHUNK = 1 << 20
_KUBECONFIG = environment.ImportedIn(
    {"KUBECONFIG": ("kubernetes.config.kube_config", "kubernetes.aio.config.kube_config")}, environ={}
)
"""The only variable that is another one in each run and that a library keeps at import: see `sameness`."""
_TELLS_OF_LOADS = 4
_VERBOSE = re.compile(r"-(v+)$|--verbose$")


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to play."""

    argv: Sequence[str]
    """The program's path and its arguments."""
    interpreter: str
    """The one that the program's first line names."""
    environ: Mapping[str, str] = field(repr=False)
    cwd: str
    mark: str
    payloads: str
    """The folder of payloads of this content."""


def encode(order: Order) -> bytes:
    """Return *order* as what `stand_by` reads."""
    return json.dumps(asdict(order)).encode()


def stand_by(pipe: int, *, beforehand: bool = False) -> NoReturn:
    """Wait in a forked process, on its terminal, for an order at *pipe*; play it. *beforehand* there is time."""
    if beforehand:
        pages.copy_beforehand(warmup.pages_of("playbook"))
    received = b""
    while chunk := os.read(pipe, _CHUNK):
        received += chunk
    os.close(pipe)
    if not received:
        os._exit(0)  # nobody needs this process, and nothing was done in it
    play(Order(**json.loads(received)))


def play(order: Order) -> NoReturn:
    """Become ansible-playbook."""
    forking.become_child(mark=order.mark, environ=order.environ, cwd=order.cwd, session=False)
    forking.set_name(Path(order.argv[0]).name)
    losing.Playbook.pid = os.getpid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as ansible-runner has pexpect do
    # ansible-runner catches these, so what it starts has the default, also where the operator was told to ignore them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    forking.rebuild_stdio()
    imported = warmup.imported()
    if imported.said:
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, imported.said)
    _become_program(order)
    code = compile(Path(order.argv[0]).read_bytes(), order.argv[0], "exec")
    if _has_own_collections(order.argv):
        internals.forget_collections()
    payloads = PayloadCache(Path(order.payloads), find_sources=internals.sources_of_payload)
    refresh(payloads=payloads)

    def run() -> None:
        try:
            exec(code, sys.modules["__main__"].__dict__)  # noqa: S102 - ansible-playbook itself, see `sameness`
        finally:
            payloads.keep()
            pages.note_copied(warmup.pages_of("playbook"))

    forking.run_and_leave(run)


def is_wordy(argv: Sequence[str]) -> bool:
    """Tell whether each collection that is loaded is told of: then it has to be loaded in the run."""
    return (
        internals.verbosity() + sum(len(found[1] or "v") for found in map(_VERBOSE.match, argv) if found)
        >= _TELLS_OF_LOADS
    )


def _has_own_collections(argv: Sequence[str]) -> bool:
    """Tell whether there are collections beside a playbook, which come before all others; a guess that may be yes."""
    return any((Path(argument).parent / "collections").is_dir() for argument in argv[1:] if argument[:1] != "-")


def _become_program(order: Order) -> None:
    """Let Python's own variables say what they would in a process that was started as *order* says."""
    program = order.argv[0]
    sys.argv = list(order.argv)
    sys.orig_argv = [order.interpreter, *order.argv]
    sys.executable = order.interpreter
    if not order.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, str(Path(program).parent))
    module = types.ModuleType("__main__")
    module.__file__ = program
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module


def refresh(*, payloads: PayloadCache) -> None:
    """Read anew what the imports took from the server's surroundings, and start anew what counts or remembers."""
    _KUBECONFIG.refresh(os.environ)
    internals.renew_log_file()
    internals.renew_display()
    internals.renew_identifiers()
    internals.renew_locks()
    internals.renew_process_names()
    internals.renew_settings(sameness.REFRESHED)
    if internals.renew_configured(warmup.CONNECTION_PLUGINS):
        payloads.spoil("library")
    payloads.put(internals.local_temp())
    internals.Directories.told = payloads.spoil
