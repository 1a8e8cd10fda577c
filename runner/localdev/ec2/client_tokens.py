"""Client tokens of RunInstances: the same request twice is one launch.

What EC2 does, as its developer guide and users report it:
- the same token and parameters give the first launch's instances, in their present state;
- other parameters are refused with IdempotentParameterMismatch; they count as given once a launch got as far as
  the search for capacity, so also after InsufficientInstanceCapacity (a retry with another type needs a new token);
- once the instance is terminated, the token is refused with IdempotentInstanceTerminated (boto/boto3#4406);
- a token belongs to one region, and where the request names a zone or a subnet, to that zone.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runner.localdev.ec2.aws_request import Call

T = TypeVar("T")

_NOT_COMPARED = frozenset({"Action", "Version", "ClientToken", "DryRun"})


class ParameterMismatch(Exception):
    """The token was used with other parameters."""


class InstanceTerminated(Exception):
    """The token's instance is terminated."""


def fingerprint(call: Call) -> str:
    """Return a digest of the parameters that must be equal on a retry."""
    compared = sorted((key, str(value)) for key, value in call.params.items() if key not in _NOT_COMPARED)
    return hashlib.sha256(json.dumps(compared).encode()).hexdigest()


@dataclass(kw_only=True)
class _Entry(Generic[T]):
    fingerprint: str
    launched: T | None = None


class ClientTokens(Generic[T]):
    """What was launched with which token; `T` is a launch."""

    def __init__(self) -> None:
        """Start without tokens."""
        self._lock = threading.RLock()
        self._entries: dict[Hashable, _Entry[T]] = {}

    def bind(self, key: Hashable, print_: str) -> None:
        """Tie the token *key* to the parameters with fingerprint *print_*, although nothing was launched."""
        with self._lock:
            self._entry(key, print_)

    def launch(self, key: Hashable, print_: str, *, execute: Callable[[], T], is_terminated: Callable[[T], bool]) -> T:
        """Return what was launched with token *key*; the first time, that is what *execute* returns.

        One launch at a time, so that requests which come at the same moment get the same instances.
        """
        with self._lock:
            known = self._entries.get(key)
            if known is None or known.launched is None:
                if known is not None and known.fingerprint != print_:
                    raise ParameterMismatch
                launched = execute()
                self._entry(key, print_).launched = launched
                return launched
            if known.fingerprint != print_:
                raise ParameterMismatch
            if is_terminated(known.launched):
                raise InstanceTerminated
            return known.launched

    def _entry(self, key: Hashable, print_: str) -> _Entry[T]:
        entry = self._entries.setdefault(key, _Entry(fingerprint=print_))
        if entry.fingerprint != print_:
            raise ParameterMismatch
        return entry

    def clear(self) -> None:
        """Forget all tokens."""
        with self._lock:
            self._entries.clear()
