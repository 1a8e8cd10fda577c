"""Metrics of roles and playbooks: what `operator_sdk.util.osdk_metric` sends, as series under exactly its names.

A request names a metric and holds one of `counter`, `gauge`, `histogram`, `summary` with one operation. The rules and
sentences are the peer's; what it accepts and then loses (a name that is none, `set: 0`) is refused or done here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Gauge, Histogram, Metric, Summary

from runner.clock import Clock
from runner.observe.metrics_families import USER_BUCKETS

KINDS: Mapping[str, Mapping[str, type]] = {
    "counter": {"increment": bool, "add": float},
    "gauge": {
        "set": float,
        "increment": bool,
        "decrement": bool,
        "add": float,
        "subtract": float,
        "set_to_current_time": bool,
    },
    "histogram": {"observe": float},
    "summary": {"observe": float},
}
"""The operations of each kind, and what they take."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
"""What the names of a metric's series end with, beside the name itself."""


class RefusedMetric(Exception):
    """The request is wrong; the text is the answer."""


class UserMetrics:
    """The metrics that were sent, by their names; they are gone with the process, as with the peer."""

    def __init__(self, *, taken: Iterable[str], clock: Clock) -> None:
        """Start with none; the names *taken* are those of the operator's own series (`series_names`)."""
        self._taken = set(taken)
        self._clock = clock
        self._metrics: dict[str, _UserMetric] = {}
        self.url = ""
        """Where runs can send them; empty where nobody listens, and until then."""

    def handle(self, request: object) -> str | None:
        """Carry out one request, as it came as JSON; return the metric's name if this is its first one.

        Raises:
            RefusedMetric: it is wrong; nothing was changed.
        """
        wanted = _Wanted.of(request)
        metric = self._metrics.get(wanted.name)
        if metric is not None:
            metric.apply(wanted, clock=self._clock)
            return None
        series = self._free_series(wanted)
        metric = _METRICS[wanted.kind](wanted.name, wanted.help)
        metric.apply(wanted, clock=self._clock)
        self._metrics[wanted.name] = metric
        self._taken |= series
        return wanted.name

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return [family for metric in list(self._metrics.values()) for family in metric.collect()]

    def _free_series(self, wanted: _Wanted) -> set[str]:
        """Return the names of the metric's series; refuse where two families would share one: no page could be read."""
        series = {wanted.name, *(wanted.name + suffix for suffix in _SUFFIXES.get(wanted.kind, ()))}
        if shared := sorted(series & self._taken):
            raise RefusedMetric(f"the name {wanted.name} is taken: there is a metric with the series {shared[0]}")
        return series


def series_names(families: Iterable[Metric]) -> set[str]:
    """Return the names of *families* of the library and of all series that they may have."""
    suffixes = {**_SUFFIXES, "counter": ("_total",)}
    return {family.name + suffix for family in families for suffix in ("", *suffixes.get(family.type, ()))}


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """A request that is well formed."""

    name: str
    help: str
    kind: str
    operations: Mapping[str, Any]
    """Those that were given and are not null."""

    @classmethod
    def of(cls, request: object) -> _Wanted:
        """Check the form of *request*; null counts as not given everywhere."""
        if not isinstance(request, dict):
            raise RefusedMetric("the request should be a JSON object with name, description and one metric")
        kinds = [kind for kind in KINDS if request.get(kind) is not None]
        if len(kinds) > 1:
            raise RefusedMetric("only one metric can be processed at a time")
        if not kinds:
            raise RefusedMetric("a request should contain at least one metric")
        name, text = request.get("name"), request.get("description")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise RefusedMetric(f"{name!r} is no metric name; use letters, digits, _ and :, and no digit in front")
        if not isinstance(text, str | None):
            raise RefusedMetric("description should be text")
        kind = kinds[0]
        return cls(name=name, help=_readable(text or ""), kind=kind, operations=_operations(kind, request[kind]))


def _readable(text: str) -> str:
    """Return *text* with each lone surrogate (JSON can name one) as U+FFFD, as Go reads it: UTF-8 has none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _operations(kind: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise RefusedMetric(f"{kind} should be an object with its operations: {', '.join(KINDS[kind])}")
    operations = {name: given[name] for name in KINDS[kind] if given.get(name) is not None}
    return {name: _value(value, name=f"{kind}.{name}", kind=KINDS[kind][name]) for name, value in operations.items()}


def _value(value: object, *, name: str, kind: type) -> bool | float:
    if kind is bool:
        if not isinstance(value, bool):
            raise RefusedMetric(f"{name} should be true or false")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedMetric(f"{name} should be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RefusedMetric(f"{name} should be a finite number")
    return number


class _UserMetric:
    """One metric; the subclasses say what its operations do."""

    kinds: tuple[str, ...]
    """The kinds of request that it takes."""

    def apply(self, wanted: _Wanted, *, clock: Clock) -> None:
        """Carry out the operation."""
        if wanted.kind not in self.kinds:
            names = " or ".join(self.kinds)
            raise RefusedMetric(f"cannot change metric type of {wanted.name}, which is a {names}")
        self._apply(wanted.operations, clock=clock)

    def _apply(self, operations: Mapping[str, Any], *, clock: Clock) -> None:
        raise NotImplementedError

    def collect(self) -> Iterable[Metric]:
        """Return the family."""
        raise NotImplementedError


class _Counter(_UserMetric):
    """A counter of our own: the library's would be exported as `<name>_total`, whatever its name."""

    kinds = ("counter",)

    def __init__(self, name: str, text: str) -> None:
        """Start at zero."""
        self._name, self._help, self._total = name, text, 0.0

    def _apply(self, operations: Mapping[str, Any], *, clock: Clock) -> None:
        if operations.get("increment"):
            self._total += 1
            return
        amount = operations.get("add", 0.0)
        if amount < 0:
            raise RefusedMetric("counter metrics cannot decrease in value")
        self._total += amount

    def collect(self) -> Iterable[Metric]:
        """Return the family."""
        family = Metric(self._name, self._help, "counter")
        family.add_sample(self._name, {}, self._total)
        return [family]


class _Gauge(_UserMetric):
    """A gauge; of several operations the first one counts: increment, decrement, add, subtract, set, current time."""

    kinds = ("gauge",)

    def __init__(self, name: str, text: str) -> None:
        """Start at zero."""
        self._gauge = Gauge(name, text, registry=None)

    def _apply(self, operations: Mapping[str, Any], *, clock: Clock) -> None:
        actions: Mapping[str, Callable[[Any], None]] = {
            "increment": lambda _: self._gauge.inc(),
            "decrement": lambda _: self._gauge.dec(),
            "add": self._gauge.inc,
            "subtract": self._gauge.dec,
            "set": self._gauge.set,
            "set_to_current_time": lambda _: self._gauge.set(clock.now().timestamp()),
        }
        for name, action in actions.items():
            if operations.get(name):
                action(operations[name])
                return
        if "set" in operations:
            self._gauge.set(0)

    def collect(self) -> Iterable[Metric]:
        """Return the family."""
        return self._gauge.collect()


class _Distribution(_UserMetric):
    """A histogram or a summary: each takes observations in both words, as with the peer."""

    kinds = ("histogram", "summary")

    def __init__(self, metric: Histogram | Summary) -> None:
        """Start without an observation."""
        self._metric = metric

    def _apply(self, operations: Mapping[str, Any], *, clock: Clock) -> None:
        if "observe" in operations:
            self._metric.observe(operations["observe"])

    def collect(self) -> Iterable[Metric]:
        """Return the family."""
        return self._metric.collect()


_METRICS: Mapping[str, Callable[[str, str], _UserMetric]] = {
    "counter": _Counter,
    "gauge": _Gauge,
    "histogram": lambda name, text: _Distribution(Histogram(name, text, registry=None, buckets=USER_BUCKETS)),
    "summary": lambda name, text: _Distribution(Summary(name, text, registry=None)),
}
