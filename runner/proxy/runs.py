"""Which runs live, and by which secret each of them is known: what the proxy asks before it lets anybody write.

`runner.assembly.run_access` opens a run here for as long as it lasts; `identify` asks who a request comes from. Only
the hashes of secrets are kept, so that nothing that reads this process's state can speak for a run.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import sha256

from runner.errors import OperatorError
from runner.proxy.exchange import Caller, Owner
from runner.proxy.kubeconfig import owner_of

LEADERSHIP_LOST = (
    "this instance of the operator doesn't lead any more, so none of its runs may speak to the API server: another "
    "instance runs the object anew"
)
"""The reason to `Runs.close_all` when the Lease is lost."""
_REMEMBERED = 1000
"""Secrets that are over and whose end can still be told; beyond that they are unknown ones."""
_UNKNOWN = (
    "the password belongs to no live run of this operator; the run ended or belongs to an earlier operator process. "
    "Use the kubeconfig that the run got ($K8S_AUTH_KUBECONFIG), or no credentials at all"
)
_ENDED = (
    "the run {run} is over, and its kubeconfig with it. What a task leaves running in the background can't speak to "
    "the API server after the run; wait for it within the run"
)
_SUPERSEDED = "the run {run} was superseded: a newer run for the same object has begun, and this one must end"
_NO_OWNER = (
    "the user name names no owner: {error}. Use the kubeconfig that the run got ($K8S_AUTH_KUBECONFIG), or no "
    "credentials at all"
)
_OTHER_OWNER = (
    "the user name names another owner than the one that the run {run} is for. Use the kubeconfig that the run got "
    "($K8S_AUTH_KUBECONFIG) as it is"
)
_BROKEN = (
    "the header Authorization is no valid Basic authentication, and no single Bearer token either. Use the kubeconfig "
    "that the run got ($K8S_AUTH_KUBECONFIG), or no credentials at all"
)
_BASIC = re.compile(r"basic +(\S+)", re.IGNORECASE)
_BEARER = re.compile(r"bearer +[^\s,]+", re.IGNORECASE)


End = Callable[[str], None]
"""Breaks off a request that is under way, for a reason."""


class CallerRefused(OperatorError):
    """Credentials that stand for no live run; the text is for a person."""


class Runs:
    """The live runs of this process; used on the event loop alone."""

    def __init__(self, *, remembered: int = _REMEMBERED) -> None:
        """Begin with none; of *remembered* runs that are over the end can still be told."""
        self._live: dict[bytes, Caller] = {}
        self._newest: dict[str, bytes] = {}
        self._over: OrderedDict[bytes, str] = OrderedDict()
        self._remembered = remembered
        self._closed = ""
        self._speaking: dict[End, Caller | None] = {}

    @contextlib.contextmanager
    def open(self, *, owner: Owner, run: str) -> Iterator[str]:
        """Return a context in which *run* speaks for *owner* by the secret that is given; the last one opened counts.

        After `close_all` the secret is refused from the start: the run may be a step behind the news.
        """
        secret = secrets.token_urlsafe(32)
        key = _hash(secret)
        if self._closed:
            self._remember(key, self._closed)
        else:
            if earlier := self._newest.get(owner.uid):
                self._end(earlier, _SUPERSEDED.format(run=self._live[earlier].run))
            self._live[key] = Caller(owner=owner, run=run)
            self._newest[owner.uid] = key
        try:
            yield secret
        finally:
            self._end(key, _ENDED.format(run=run))

    def close_all(self, reason: str) -> None:
        """End all runs, every later one, and what nobody in particular writes now: *reason* is what they are told."""
        self._closed = reason
        for key in list(self._live):
            self._end(key, reason)
        self._break_off(None, reason)

    @contextlib.contextmanager
    def speaking(self, caller: Caller | None, end: End) -> Iterator[None]:
        """Return a context for a request of *caller*, as `authenticate` gave it: *end* is called when its run ends.

        None is nobody in particular, whose requests are ended by `close_all` alone.
        """
        self._speaking[end] = caller
        try:
            yield
        finally:
            del self._speaking[end]

    def lives(self, caller: Caller) -> bool:
        """Tell whether *caller*'s run still goes on."""
        return caller in self._live.values()

    def authenticate(self, header: str | None) -> Caller | None:
        """Return who sent the header Authorization; None where it claims no owner: there is none, or a Bearer token.

        Raises:
            CallerRefused: it does, and isn't a live run of that owner; or nobody can tell what it claims.
        """
        if header is None or _BEARER.fullmatch(header.strip()):
            return None
        username, password = _user_and_password(header.strip())
        key = _hash(password)
        caller = self._live.get(key)
        if caller is None:
            raise CallerRefused(self._over.get(key, _UNKNOWN))
        try:
            claimed = owner_of(username)
        except ValueError as error:
            raise CallerRefused(_NO_OWNER.format(error=error)) from error
        if claimed != caller.owner:
            raise CallerRefused(_OTHER_OWNER.format(run=caller.run))
        return caller

    def _end(self, key: bytes, reason: str) -> None:
        caller = self._live.pop(key, None)
        if caller is None:
            return
        if self._newest.get(caller.owner.uid) == key:
            del self._newest[caller.owner.uid]
        self._remember(key, reason)
        self._break_off(caller, reason)

    def _break_off(self, caller: Caller | None, reason: str) -> None:
        for end, speaker in list(self._speaking.items()):
            if speaker is caller:
                end(reason)

    def _remember(self, key: bytes, reason: str) -> None:
        self._over[key] = reason
        while len(self._over) > self._remembered:
            self._over.popitem(last=False)


def _user_and_password(header: str) -> tuple[str, str]:
    basic = _BASIC.fullmatch(header)
    if basic is None:
        raise CallerRefused(_BROKEN)
    try:
        text = base64.b64decode(basic[1], validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise CallerRefused(_BROKEN) from error
    username, colon, password = text.partition(":")
    if not colon:
        raise CallerRefused(_BROKEN)
    return username, password


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
