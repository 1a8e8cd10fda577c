"""What is done where nobody will know how a module ended: its run ends at once, and the operator is told why.

To the play it would look like a failure of the module, which `rescue`, `ignore_errors` and `failed_when` are for, and a
role would go on with what isn't so. Therefore a worker that finds this out (`lose_run`, asked by the connection plugin)
leaves a word in the fork server's folder and ends the playbook's process; `server` reads the word when the run has
ended (`reason_of`), and the reconcile is retried as after the death of the fork server itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from . import marking

_PREFIX = "lost-"
_CODE = 1


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Why a run is lost."""

    reason: str
    """A part of a sentence about the server of modules: `died while it ran a module`."""
    hung: bool = False
    """Whether that server is still there, and has to be ended."""


class Playbook:
    """The process that plays, whose forks are the workers."""

    pid = 0


def lose_run(loss: Loss, *, address: str) -> NoReturn:
    """End the run of this process, a worker; *address* is the module server's.

    Where the word can't be left (the fork server's folder is gone with it, or the disk is full) the run ends in the
    failure of an ansible-playbook that was killed.
    """
    with contextlib.suppress(OSError):
        path = _path(Path(address).parent, ident=os.environ.get(marking.VARIABLE, ""))
        path.write_text(json.dumps(asdict(loss)))
    if os.getppid() == Playbook.pid:  # else it has ended already, and this process is another one's
        os.kill(Playbook.pid, signal.SIGKILL)
    os._exit(_CODE)


def reason_of(scratch: str, *, ident: str) -> Loss | None:
    """Return why the run *ident* was lost, None where it wasn't; the word is taken away."""
    path = _path(Path(scratch), ident=ident)
    try:
        said = path.read_text()
        path.unlink()
        return Loss(**json.loads(said))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return Loss(reason="was lost while it ran a module")


def _path(folder: Path, *, ident: str) -> Path:
    return folder / f"{_PREFIX}{ident.strip(chr(0))}"
