"""A `pexpect.spawn` whose process is a fork of this one where it is to run ansible-playbook: ansible-runner's seam.

ansible-runner starts everything through `pexpect.spawn`, and so reads and ends everything as ever. What is no
ansible-playbook of this interpreter, or differs in something that was fixed when Ansible was imported, is really
started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import pexpect
import ptyprocess

from . import forking, playbook_child, sameness

_ROWS_AND_COLUMNS = (24, 80)
"""What ptyprocess gives a terminal that nobody asked a size for."""
_ECHO_FLAGS = 3
"""Where termios has the flags that ECHO is one of."""


class Spare:
    """A fork of this process on a terminal of its own, which stands by for an order."""

    def __init__(self, *, beforehand: bool = False) -> None:
        """Fork it; *beforehand* there is time to copy the memory that it will write to.

        Raises:
            ForkError: it cannot be forked.
            OSError: there are no terminals or descriptors left.
        """
        self.terminal, other = os.openpty()
        reading, self._orders = os.pipe()
        set_up(other)
        self.pid = forking.fork()
        if self.pid == 0:
            self._in_child(other, reading=reading, beforehand=beforehand)
        os.close(other)
        os.close(reading)

    def _in_child(self, terminal: int, *, reading: int, beforehand: bool) -> NoReturn:
        try:
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            for descriptor in range(3):
                os.dup2(terminal, descriptor)
            forking.close_descriptors({reading})
            playbook_child.stand_by(reading, beforehand=beforehand)
        finally:
            os._exit(forking.BROKEN)

    def descriptors(self) -> tuple[int, ...]:
        """Return what must stay open, for `forking.become_child`."""
        return (self.terminal, self._orders)

    def give(self, order: playbook_child.Order) -> None:
        """Have it play *order*.

        Raises:
            OSError: it isn't there any more; nothing was played.
        """
        orders, self._orders = self._orders, -1
        with open(orders, "wb") as pipe:  # noqa: PTH123 - a descriptor
            pipe.write(playbook_child.encode(order))

    def dismiss(self) -> None:
        """End it, as there is nothing to play."""
        if self._orders >= 0:
            os.close(self._orders)
        os.close(self.terminal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def set_up(terminal: int) -> None:
    """Do to *terminal* what ptyprocess does for ansible-runner: a size, and no echo."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *_ROWS_AND_COLUMNS, 0, 0))
    attributes = termios.tcgetattr(terminal)
    attributes[_ECHO_FLAGS] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


class _Process(ptyprocess.PtyProcess):  # type: ignore[misc]
    """A process on a pty; to close it doesn't take a tenth of a second where it has ended."""

    def close(self, force: bool = True) -> None:  # noqa: FBT001, FBT002 - ptyprocess's
        if not self.closed and not self.isalive():
            self.delayafterclose = 0
        super().close(force=force)


class PlaybookSpawn(pexpect.spawn):  # type: ignore[misc]
    """`pexpect.spawn`, which forks where it can."""

    spare: Spare | None = None
    """What `ready` made; used for the first ansible-playbook."""
    imported: sameness.Imported
    mark: str = ""
    payloads: str = ""
    tell: Callable[[str], None] = staticmethod(lambda _: None)
    """Called with the reason where something is really started."""

    def _spawnpty(self, args: Sequence[bytes], **kwargs: Any) -> Any:
        spare, PlaybookSpawn.spare = PlaybookSpawn.spare, None
        try:
            order = self._order(args, **kwargs)
        except _Ordinary as ordinary:
            PlaybookSpawn.tell(str(ordinary))
            if spare is not None:
                spare.dismiss()
            return _Process.spawn(args, **kwargs)
        try:
            spare = spare or Spare()
        except (forking.ForkError, OSError) as error:
            PlaybookSpawn.tell(str(error))
            return _Process.spawn(args, **kwargs)
        try:
            spare.give(order)
        except OSError as error:  # the kernel may have ended it, where memory ran out
            spare.dismiss()
            PlaybookSpawn.tell(f"the process that stood by for it is gone: {error}")
            return _Process.spawn(args, **kwargs)
        process = _Process(spare.pid, spare.terminal)
        process.argv, process.env, process.launch_dir = args, kwargs["env"], kwargs["cwd"]
        return process

    def _order(
        self, args: Sequence[bytes], *, env: Mapping[str, str] | None, cwd: str | None, echo: bool, **others: Any
    ) -> playbook_child.Order:
        """Return what to play.

        Raises:
            _Ordinary: it has to be really started; the text says why.
        """
        argv = [os.fsdecode(argument) for argument in args]
        interpreter = sameness.interpreter_of_playbook(argv[0])
        if interpreter is None:
            raise _Ordinary(f"{argv[0]} is not ansible-playbook on the fork server's interpreter")
        if env is None or cwd is None or echo or others.keys() - {"preexec_fn"} or not self.ignore_sighup:
            raise _Ordinary("it is asked for in another way than by ansible-runner 2.4")
        if playbook_child.is_wordy(argv):
            raise _Ordinary("at this verbosity it tells of what it loads")
        if reason := self.imported.why_not(env, cwd=cwd):
            raise _Ordinary(reason)
        return playbook_child.Order(
            argv=argv, interpreter=interpreter, environ=env, cwd=cwd, mark=self.mark, payloads=self.payloads
        )


class _Ordinary(Exception):
    """Something is started as a new process; not an error."""
