"""What is done where nobody will know how a module ended: its run ends at once, and the operator is told why.

To the play it would look like a failure of the module, which `rescue`, `ignore_errors` and `failed_when` are for, and a
role would go on with what isn't so. Therefore a worker that finds this out (`lose_run`, asked by the connection plugin)
leaves a word in the fork server's folder and ends the playbook's process; `server` reads the word when the run has
ended (`reason_of`), and the reconcile is retried as after the death of the fork server itself.

Where the server of modules merely doesn't answer, nothing is lost: the module goes the ordinary way. That is noted
(`note_silence`), and the fork server is replaced.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NoReturn

from . import marking

_PREFIX = "lost-"
_SILENT = "silent"
_CODE = 1


class Playbook:
    """The process that plays, whose forks are the workers."""

    pid = 0


def lose_run(reason: str, *, address: str) -> NoReturn:
    """End the run of this process, a worker, and leave *reason*; *address* is the module server's.

    Where the word can't be left (the fork server's folder is gone with it, or the disk is full) the run ends in the
    failure of an ansible-playbook that was killed.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # a task's time may be up just now
    path = _path(Path(address).parent, ident=os.environ.get(marking.VARIABLE, ""))
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # as where another worker of the run was first
        new.write_text(reason)
        os.link(new, path)
    with contextlib.suppress(OSError):
        new.unlink()
    with contextlib.suppress(OSError):
        play = os.pidfd_open(Playbook.pid)
        if os.getppid() == Playbook.pid:  # else it has ended, and its number may be another one's
            signal.pidfd_send_signal(play, signal.SIGKILL)
    os._exit(_CODE)


def reason_of(scratch: str, *, ident: str) -> str:
    """Return why the run *ident* was lost, nothing where it wasn't; the word is taken away."""
    path = _path(Path(scratch), ident=ident)
    try:
        said = path.read_text()
        path.unlink()
    except OSError:
        return ""
    return said


def note_silence(*, address: str) -> None:
    """Note that the module server at *address* doesn't answer."""
    with contextlib.suppress(OSError):
        (Path(address).parent / _SILENT).touch()


def is_silent(scratch: str) -> bool:
    """Tell whether the module server of *scratch* didn't answer a worker."""
    return (Path(scratch) / _SILENT).exists()


def _path(folder: Path, *, ident: str) -> Path:
    return folder / f"{_PREFIX}{ident.strip(chr(0))}"
