"""The process of one run: ansible-runner's ordinary command line, in a fork of the server.

It differs from `python -P -m ansible_runner run ...` in what was loaded before, and in how ansible-playbook comes to
life: see `spawn`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from . import forking, pages, payload_cache, sameness, spawn, telling, warmup
from .protocol import Run

_START = ("-P", "-m", "ansible_runner")
_IDENT = ("-i", "--ident")


def why_not(run: Run) -> str | None:
    """Return why *run* can't be forked from this process, None where it can: it is started as a new one then."""
    if tuple(run.argv[1:4]) != _START or not set(_IDENT) & set(run.argv):
        return "it is no command line of the operator's"
    if reason := warmup.why_never():
        return reason
    names = sameness.differing(run.environ, warmup.started_with(), known=sameness.OF_A_RUN)
    return f"variables differ from the fork server's: {', '.join(names)}" if names else None


class _Playbook:
    """What stands by for this run's playbook."""

    spare: spawn.Spare | None = None


def stand_by() -> None:
    """Do beforehand what doesn't depend on the run: fork the process that will play, copy memory."""
    _fork_playbook(beforehand=True)
    pages.copy_beforehand(warmup.pages_of("runner"))


def _fork_playbook(*, beforehand: bool) -> None:
    with contextlib.suppress(forking.ForkError, OSError):  # then it is tried again, and told, when it is needed
        _Playbook.spare = spawn.Spare(beforehand=beforehand)


def play(run: Run) -> NoReturn:
    """Become *run*, in a process that was forked for it, or that has stood by."""
    if _Playbook.spare is None:
        _fork_playbook(beforehand=False)
    spare = _Playbook.spare
    of_spare = () if spare is None else spare.descriptors()
    forking.become_child(mark=run.ident, environ=run.environ, cwd=run.cwd, keep=(*telling.descriptors(), *of_spare))
    _open_standard_streams(run.complaints)
    forking.rebuild_stdio()
    if reason := why_not(run):
        telling.tell("Runs are started cold", reason=reason)
        if spare is not None:
            spare.dismiss()
        os.execve(run.argv[0], list(run.argv), dict(run.environ))  # noqa: S606 - the operator's own command

    import ansible_runner.__main__ as runner  # noqa: PLC0415 - the server imported it at the right moment
    import pexpect  # noqa: PLC0415

    spawn.PlaybookSpawn.imported = warmup.imported()
    spawn.PlaybookSpawn.mark = run.ident
    spawn.PlaybookSpawn.tell = staticmethod(lambda reason: telling.tell("Playbooks are started cold", reason=reason))
    spawn.PlaybookSpawn.payloads = str(warmup.payloads() / payload_cache.key_of(run.argv))
    spawn.PlaybookSpawn.spare = spare
    pexpect.spawn = spawn.PlaybookSpawn
    sys.argv = [runner.__file__, *run.argv[4:]]
    sys.orig_argv = list(run.argv)
    sys.executable = run.argv[0]
    forking.set_name(Path(run.argv[0]).name)

    def main() -> NoReturn:
        code = runner.main()
        pages.note_copied(warmup.pages_of("runner"))
        sys.exit(code)

    forking.run_and_leave(main)


def _open_standard_streams(complaints: str) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open(complaints, os.O_WRONLY | os.O_APPEND)
    for descriptor, file in enumerate((nothing, nothing, errors)):
        os.dup2(file, descriptor)
    for file in {nothing, errors} - {0, 1, 2}:
        os.close(file)
