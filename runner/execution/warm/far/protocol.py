"""What operator and fork server say to each other: JSON lines over one socket pair, both ways.

From the operator: `Start` (once, first), `Run`, `Drain`. From the server: `Ready` (once), `Started` and `Ended` or
`Refused` for each run, `Retiring`, `Note`.
The end of the stream is a message too: the server that sees it ends every run and exits (its operator is gone); the
operator that sees it knows that the server died. Nothing secret may be in a `Note`; a `Run` holds the environment.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1
LIMIT = 16 * 1024 * 1024
"""Bytes of one line; an environment is limited by the kernel to far less."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """What the server shall be: sent once, before anything else."""

    version: int = VERSION
    scratch: str
    """A private folder of the server's own; the module server listens there."""
    roles: Sequence[str] = ()
    """Absolute folders of the roles that are watched, finalizers' too."""
    playbooks: Sequence[str] = ()
    """Absolute paths of the playbooks that are watched."""
    roles_path: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """Fork one run."""

    id: int
    """Chosen by the operator, never used twice on one connection."""
    ident: str
    """The run's mark."""
    argv: Sequence[str]
    """`PlayCommand.argv`: the interpreter, `-P`, `-m`, `ansible_runner`, `run` and its arguments."""
    environ: Mapping[str, str] = field(repr=False)
    cwd: str
    complaints: str
    """The file that gets standard error (appended)."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Take no run any more, let those under way end, exit then with 0."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Runs can be forked from now on."""

    pid: int
    core: str
    """Version of ansible-core."""
    preloaded: Sequence[str] = ()
    """Names of the libraries that were imported for modules, and of the utilities whose code is kept."""
    seconds: float = 0.0
    """From the start of the process."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A run was forked."""

    id: int
    pid: int


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run's process was reaped."""

    id: int
    code: int
    """Its exit code, negative for a signal."""
    cold_modules: int = 0
    """Modules of whatever run that the server of modules refused since the last message of this kind."""
    lost: str = ""
    """Where nobody knows how a module of it ended: why, as a part of a sentence about the server of modules."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A run was not forked, and nothing of it was done: it goes the ordinary way."""

    id: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Retiring:
    """The server isn't what it should be any more: it takes no run, and exits (not with 0) when the last one ended.

    A new one can be started at once.
    """

    reason: str


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something for the operator's log."""

    level: str
    """`debug`, `info`, `warning` or `error`."""
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    run: int | None = None
    """The run that it is about."""


Message = Start | Run | Drain | Ready | Started | Ended | Refused | Retiring | Note
_KINDS: Mapping[str, type[Message]] = {
    kind.__name__: kind for kind in (Start, Run, Drain, Ready, Started, Ended, Refused, Retiring, Note)
}


class ProtocolError(Exception):
    """What came is no message: both sides are of one release, so one of them is broken."""


def encode(message: Message) -> bytes:
    """Return *message* as one line."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode(line: bytes | bytearray) -> Message:
    """Return the message in *line*.

    Raises:
        ProtocolError: there is none; the text holds nothing of the line, which may be secret.
    """
    try:
        body = json.loads(line)
        return _KINDS[body.pop("kind")](**body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError(f"a line of {len(line)} bytes is no message ({type(error).__name__})") from None


class Inbox:
    """Takes in what came from a stream, as it came, and gives the messages in it one by one."""

    def __init__(self) -> None:
        """Start empty."""
        self._rest = bytearray()
        self._messages: deque[Message] = deque()

    def feed(self, data: bytes) -> None:
        """Take in *data*.

        Raises:
            ProtocolError: a line is no message, or too long; the messages before it can be had.
        """
        self._rest += data
        if b"\n" in data:
            *lines, self._rest = self._rest.split(b"\n")
            self._messages.extend(decode(line) for line in lines)
        if len(self._rest) > LIMIT:
            raise ProtocolError(f"a line has more than {LIMIT} bytes")

    def next(self) -> Message | None:
        """Return the oldest message that wasn't given yet, if there is one."""
        return self._messages.popleft() if self._messages else None
