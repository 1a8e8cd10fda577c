"""Metrics that are read at the scrape, from what the operator knows anyway: its objects and its informers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runner.kube.objects import GVK, Object, metadata, name_of, namespace_of

_Key = tuple[str, str]


class CreatedObjects:
    """`resource_created_at_seconds` of the objects of one kind."""

    def __init__(self, gvk: GVK) -> None:
        """Start with no object."""
        self.gvk = gvk
        self._created: dict[_Key, float] = {}

    def seen(self, obj: Object) -> None:
        """Take an object whose event passed the predicates."""
        try:
            created = datetime.fromisoformat(str(metadata(obj).get("creationTimestamp")))
        except ValueError:
            return  # the API server always sets it; without it there is nothing to tell
        self._created[namespace_of(obj), name_of(obj)] = created.timestamp()

    def gone(self, obj: Object) -> None:
        """Forget an object."""
        self._created.pop((namespace_of(obj), name_of(obj)), None)

    def rows(self) -> Iterator[tuple[list[str], float]]:
        """Return the labels' values (group, kind, name, namespace, version) and the time of each object."""
        gvk = self.gvk
        for (namespace, name), created in list(self._created.items()):
            yield [gvk.group, gvk.kind, name, namespace, gvk.version], created


class CreatedCollector(Collector):
    """All `CreatedObjects` of the operator as one family."""

    def __init__(self) -> None:
        """Start with no kind."""
        self._kinds: list[CreatedObjects] = []

    def kind(self, gvk: GVK) -> CreatedObjects:
        """Return the objects of one more kind."""
        objects = CreatedObjects(gvk)
        self._kinds.append(objects)
        return objects

    def collect(self) -> Iterable[Metric]:
        """Return the family."""
        labels = ["group", "kind", "name", "namespace", "version"]
        family = GaugeMetricFamily("resource_created_at_seconds", "When an object was created.", labels=labels)
        for objects in self._kinds:
            for values, created in objects.rows():
                family.add_metric(values, created)
        return [family]


@dataclass(frozen=True, kw_only=True)
class InformerReading:
    """How one informer is doing."""

    state: str
    lists: int = 0
    watches: int = 0
    errors: int = 0


ReadInformers = Callable[[], Mapping[str, InformerReading]]
"""Returns the reading of each informer of a watch by its namespace (empty: all, or cluster scope)."""
ReadDependents = Callable[[], Mapping[GVK, Mapping[str, InformerReading]]]
"""Returns the same of all dependents, by their kind."""
_PRIMARY, _DEPENDENT = "primary", "dependent"
"""What an informer is for: a kind may be both."""


class InformerCollector(Collector):
    """The states and counters of all informers: a kind that is missing or forbidden shows here."""

    def __init__(self, *, states: Iterable[str]) -> None:
        """Write one series for each of *states*: 1 for the present one, else 0."""
        self._states = tuple(states)
        self._watches: list[tuple[GVK, ReadInformers]] = []
        self._dependents: list[ReadDependents] = []

    def watch(self, gvk: GVK, *, read: ReadInformers) -> None:
        """Report the informers of one more watch."""
        self._watches.append((gvk, read))

    def dependents(self, read: ReadDependents) -> None:
        """Report the informers of dependents, whose kinds are found as the operator runs."""
        self._dependents.append(read)

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        where = ["GVK", "namespace", "source"]
        own = "ansible_operator_informer"
        state = GaugeMetricFamily(
            "ansible_operator_watch_state",
            "1 for the state that the watch of a kind is in; a missing CRD or right shows here.",
            labels=[*where, "state"],
        )
        counters = {
            name: CounterMetricFamily(f"{own}_{name}", text, labels=where)
            for name, text in (
                ("lists", "Complete lists of a kind."),
                ("watches", "Watches of a kind that were opened."),
                ("errors", "Failed lists and watches of a kind."),
            )
        }
        for labels, reading in self._readings():
            for name in self._states:
                state.add_metric([*labels, name], float(name == reading.state))
            for name, family in counters.items():
                family.add_metric(labels, float(getattr(reading, name)))
        return [state, *counters.values()]

    def _readings(self) -> Iterator[tuple[list[str], InformerReading]]:
        for gvk, read in self._watches:
            for namespace, reading in read().items():
                yield [str(gvk), namespace, _PRIMARY], reading
        for read_all in self._dependents:
            for gvk, readings in read_all().items():
                for namespace, reading in readings.items():
                    yield [str(gvk), namespace, _DEPENDENT], reading
