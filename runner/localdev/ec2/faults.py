"""Faults on request: which calls go wrong, how often, and in which way."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from runner.errors import ConfigError
from runner.localdev.ec2 import bodies
from runner.localdev.ec2.answers import Refusal
from runner.localdev.ec2.aws_request import Call


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A rule: calls of `action` whose parameters match are delayed, refused, or lose their answer."""

    action: str
    """`RunInstances`; `*`: every call."""
    code: str = ""
    """The error that the caller gets; empty: none, only `delay` or `drop`."""
    message: str = ""
    status: int = 0
    """The HTTP status; 0: what AWS uses for this code."""
    times: int | None = 1
    """How many calls it hits; None: all, until the faults are deleted."""
    match: Mapping[str, str] = field(default_factory=dict)
    """Parameters that a call must have; a key may hold `*`: `{"InstanceId.*": "i-..."}` is any place in the list."""
    after: bool = False
    """The call is carried out, then its answer is lost and the error sent instead."""
    drop: bool = False
    """The call is carried out, then the connection is closed without an answer."""
    delay: float = 0.0
    """Seconds before the call is carried out or refused."""

    def hits(self, call: Call) -> bool:
        """Tell whether *call* is one that goes wrong."""
        if self.action not in {"*", call.action}:
            return False
        return all(
            any(fnmatchcase(name, key) and str(given) == value for name, given in call.params.items())
            for key, value in self.match.items()
        )

    @property
    def refusal(self) -> Refusal:
        """Return the error that the caller gets."""
        return Refusal(code=self.code, message=self.message, status=self.status)


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A fault that a call has run into."""

    fault: Fault
    released: threading.Event
    """Set when the faults are deleted."""

    def hold_up(self) -> None:
        """Return after the fault's delay, or as soon as the faults are deleted."""
        if self.fault.delay:
            self.released.wait(self.fault.delay)


_KEYS = tuple(one.name for one in fields(Fault))


def parse_fault(body: bytes) -> Fault:
    """Return the fault that *body* describes."""
    given = bodies.json_object(body, known=_KEYS)
    fault = Fault(
        action=bodies.text(given, "action"),
        code=bodies.text(given, "code"),
        message=bodies.text(given, "message"),
        status=bodies.whole(given, "status", default=0, low=400, high=599) if given.get("status", 0) != 0 else 0,
        times=None if "times" in given and given["times"] is None else _times(given),
        match=_match(given.get("match", {})),
        after=bodies.flag(given, "after"),
        drop=bodies.flag(given, "drop"),
        delay=bodies.seconds(given, "delay", default=0.0),
    )
    _check(fault)
    return fault


def _times(given: Mapping[str, Any]) -> int:
    return bodies.whole(given, "times", default=1, low=1, high=1_000_000)


def _match(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(inner, str) for inner in value.values()):
        raise ConfigError(f"match: must be an object of strings, not {value!r}")
    return value


def _check(fault: Fault) -> None:
    if not fault.action:
        raise ConfigError("action: is missing; name an action such as RunInstances, or * for every call")
    if fault.drop and (fault.code or fault.after):
        raise ConfigError("drop: closes the connection without an answer; leave out code and after")
    if fault.after and not fault.code:
        raise ConfigError("code: is missing; `after` sends this error in place of the answer")
    if not (fault.code or fault.drop or fault.delay):
        raise ConfigError("code: is missing; a fault needs code, drop or delay")


class FaultTable:
    """The faults that are waiting, oldest first."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._faults: dict[int, Fault] = {}
        self._last = 0
        self._released = threading.Event()

    def add(self, fault: Fault) -> dict[str, Any]:
        """Add *fault* behind the others and return it with its id."""
        with self._lock:
            self._last += 1
            self._faults[self._last] = fault
            return {"id": self._last, **asdict(fault)}

    def take(self, call: Call) -> Hit | None:
        """Return the first fault that hits *call*, and count it as used."""
        with self._lock:
            for number, fault in self._faults.items():
                if fault.hits(call):
                    self._use(number, fault)
                    return Hit(fault=fault, released=self._released)
            return None

    def _use(self, number: int, fault: Fault) -> None:
        if fault.times is None:
            return
        if fault.times == 1:
            del self._faults[number]
        else:
            self._faults[number] = replace(fault, times=fault.times - 1)

    def waiting(self) -> list[dict[str, Any]]:
        """Return the faults with their ids; `times` is what is left."""
        with self._lock:
            return [{"id": number, **asdict(fault)} for number, fault in self._faults.items()]

    def clear(self) -> None:
        """Drop all faults and let the calls go on that they hold up."""
        with self._lock:
            self._faults.clear()
            self._released.set()
            self._released = threading.Event()
