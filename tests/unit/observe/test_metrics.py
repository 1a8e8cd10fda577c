"""What the operator's own metrics count, and under which names, types and labels."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink, records_of_libraries
from runner.observe.metrics import STATES, Metrics, controller_names
from runner.observe.metrics_objects import InformerReading
from runner.settings import BackoffSettings
from runner.sources.informer import State
from runner.testing.clock import FakeClock
from runner.workqueue.backoff import Backoff
from runner.workqueue.request import Request
from runner.workqueue.workqueue import WorkQueue

MEMCACHED = GVK("cache.example.com", "v1alpha1", "Memcached")
LABEL = "memcached-v1alpha1-controller"
GVK_LABEL = "cache.example.com/v1alpha1, Kind=Memcached"


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that stands still."""
    return FakeClock()


@pytest.fixture
def metrics(clock: FakeClock) -> Metrics:
    """Give metrics without a watch."""
    return Metrics(version="1.2.3", commit="abc", clock=clock)


def value(metrics: Metrics, series: str, /, **labels: str) -> float | None:
    """Return one sample as a scraper reads it."""
    for family in text_string_to_metric_families(metrics.text()):
        for sample in family.samples:
            if sample.name == series and sample.labels == labels:
                return float(sample.value)
    return None


def types(metrics: Metrics) -> Mapping[str, str]:
    """Return the type of each family by the name in its TYPE line."""
    lines = [line.split() for line in metrics.text().splitlines() if line.startswith("# TYPE ")]
    return {name: kind for _, _, name, kind in lines}


def test_requests_through_the_proxy_are_counted_by_who_sent_them(metrics: Metrics) -> None:
    """A run, nobody in particular and who was refused are told apart, and each by the answer's code."""
    metrics.proxy_request(caller="run", code="200")
    metrics.proxy_request(caller="run", code="200")
    metrics.proxy_request(caller="none", code="200")
    name = "ansible_operator_proxy_requests_total"
    found = [value(metrics, name, caller=caller, code="200") for caller in ("run", "none", "refused")]
    assert found == [2, 1, None]


def test_plays_that_run_and_that_wait_are_read_at_the_scrape(metrics: Metrics) -> None:
    """Two gauges of the whole operator; without anybody who tells them they are zero."""
    names = ("ansible_operator_running_plays", "ansible_operator_waiting_plays")
    assert [value(metrics, name) for name in names] == [0, 0]

    numbers = {"running": 2, "waiting": 7}
    metrics.plays(running=lambda: numbers["running"], waiting=lambda: numbers["waiting"])
    assert [value(metrics, name) for name in names] == [2, 7]
    numbers["waiting"] = 0
    assert [value(metrics, name) for name in names] == [2, 0]


def test_the_peers_families_have_its_names_and_types(metrics: Metrics) -> None:
    """Everything that dashboards of the peer read from a controller is there as soon as there is a watch."""
    controller = metrics.controller(MEMCACHED, workers=3)
    controller.ran(success=True, seconds=1)
    metrics.api_request("GET", code="200", host="10.0.0.1:443")
    metrics.leading("lock", True)  # noqa: FBT003 - the shape of the elector's callback
    expected = {
        "ansible_operator_build_info": "gauge",
        "ansible_operator_reconcile_result": "gauge",
        "ansible_operator_reconciles": "histogram",
        "certwatcher_read_certificate_errors_total": "counter",
        "certwatcher_read_certificate_total": "counter",
        "controller_runtime_active_workers": "gauge",
        "controller_runtime_max_concurrent_reconciles": "gauge",
        "controller_runtime_reconcile_errors_total": "counter",
        "controller_runtime_reconcile_panics_total": "counter",
        "controller_runtime_reconcile_time_seconds": "histogram",
        "controller_runtime_reconcile_total": "counter",
        "controller_runtime_terminal_reconcile_errors_total": "counter",
        "leader_election_master_status": "gauge",
        "process_cpu_seconds_total": "counter",
        "process_resident_memory_bytes": "gauge",
        "rest_client_requests_total": "counter",
        "workqueue_adds_total": "counter",
        "workqueue_depth": "gauge",
        "workqueue_longest_running_processor_seconds": "gauge",
        "workqueue_queue_duration_seconds": "histogram",
        "workqueue_retries_total": "counter",
        "workqueue_unfinished_work_seconds": "gauge",
        "workqueue_work_duration_seconds": "histogram",
    }
    found = types(metrics)
    assert {name: found.get(name) for name in expected} == expected


def test_the_controllers_series_start_at_zero(metrics: Metrics) -> None:
    """All results of a reconcile are there before the first one, so that a rate never misses its start."""
    metrics.controller(MEMCACHED, workers=3)
    results = ("success", "requeue", "requeue_after", "error")
    counts = [value(metrics, "controller_runtime_reconcile_total", controller=LABEL, result=name) for name in results]
    assert counts == [0, 0, 0, 0]
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller=LABEL) == 3
    assert value(metrics, "controller_runtime_active_workers", controller=LABEL) == 0


def test_build_info_is_one(metrics: Metrics) -> None:
    """Version and commit are labels of a constant 1."""
    assert 'ansible_operator_build_info{commit="abc",version="1.2.3"} 1\n' in metrics.text()


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ([("a.com", "v1", "Kind")], ["kind-v1-controller"]),
        ([("a.com", "v1", "Kind"), ("a.com", "v2", "Kind")], ["kind-v1-controller", "kind-v2-controller"]),
        (
            [("a.com", "v1", "Kind"), ("B.com", "v1", "KIND"), ("a.com", "v1", "Other")],
            ["kind-v1-a.com-controller", "kind-v1-b.com-controller", "other-v1-controller"],
        ),
        (
            [("", "v1", "Secret"), ("a.com", "v1", "Secret")],
            ["secret-v1-core-controller", "secret-v1-a.com-controller"],
        ),
    ],
)
def test_controllers_share_no_label(kinds: list[tuple[str, str, str]], names: list[str]) -> None:
    """The label is the peer's where it is unique; kinds that differ by the group only have it in the label (W3)."""
    gvks = [GVK(*kind) for kind in kinds]
    assert list(controller_names(gvks).values()) == names


def test_watches_of_one_kind_in_two_groups_have_series_of_their_own(metrics: Metrics) -> None:
    """Two watches that the peer refuses to start with count apart from each other (W3)."""
    gvks = (GVK("a.com", "v1", "Kind"), GVK("b.com", "v1", "Kind"))
    metrics.name_controllers(gvks)
    first, _ = (metrics.controller(gvk, workers=1) for gvk in gvks)
    first.added()
    first.ran(success=True, seconds=1)
    adds = {
        group: value(metrics, "workqueue_adds_total", controller=name, name=name)
        for group in ("a.com", "b.com")
        for name in [f"kind-v1-{group}-controller"]
    }
    assert adds == {"a.com": 1, "b.com": 0}
    assert value(metrics, "ansible_operator_reconcile_result", GVK="a.com/v1, Kind=Kind", result="succeeded") == 1
    assert value(metrics, "ansible_operator_reconcile_result", GVK="b.com/v1, Kind=Kind", result="succeeded") is None


async def test_a_queue_tells_its_life(metrics: Metrics, clock: FakeClock) -> None:
    """Adds, depth, waiting, work under way, finished work and retries of a real queue reach their series."""
    queue = WorkQueue(
        clock=clock,
        backoff=Backoff(BackoffSettings(jitter=0.0), lambda: 0.5),
        listener=metrics.controller(MEMCACHED, workers=2),
    )

    def of_queue(series: str, **labels: str) -> float | None:
        return value(metrics, f"workqueue_{series}", controller=LABEL, name=LABEL, **labels)

    one, two = Request(MEMCACHED, "ns", "one"), Request(MEMCACHED, "ns", "two")
    queue.add(one)
    queue.add(two)
    queue.add(two)
    assert (of_queue("adds_total"), of_queue("depth", priority="")) == (2, 2)
    await clock.advance(4)
    assert await queue.get() == one
    await clock.advance(2)
    assert await queue.get() == two
    await clock.advance(1)
    assert value(metrics, "controller_runtime_active_workers", controller=LABEL) == 2
    assert (of_queue("unfinished_work_seconds"), of_queue("longest_running_processor_seconds")) == (4, 3)
    queue.done(one)
    assert (of_queue("unfinished_work_seconds"), of_queue("longest_running_processor_seconds")) == (1, 1)
    queue.add_rate_limited(two)
    queue.done(two)
    queue.close()
    assert (of_queue("retries_total"), of_queue("depth", priority="")) == (1, 0)
    assert (of_queue("queue_duration_seconds_sum"), of_queue("work_duration_seconds_sum")) == (10, 4)
    assert (of_queue("queue_duration_seconds_count"), of_queue("work_duration_seconds_count")) == (2, 2)


async def test_a_run_is_measured(metrics: Metrics, clock: FakeClock) -> None:
    """The histogram holds how long the run took, gauge and counter its result (the peer measures set-up only)."""
    controller = metrics.controller(MEMCACHED, workers=1)
    with controller.run() as measured:
        await clock.advance(40)
        measured.success = True
    with pytest.raises(RuntimeError), controller.run():
        raise RuntimeError("no such program")
    assert value(metrics, "ansible_operator_reconciles_sum", GVK=GVK_LABEL) == 40
    assert value(metrics, "ansible_operator_reconciles_bucket", GVK=GVK_LABEL, le="30") == 1
    assert value(metrics, "ansible_operator_reconciles_bucket", GVK=GVK_LABEL, le="60") == 2
    for result in ("succeeded", "failed"):
        assert value(metrics, "ansible_operator_reconcile_result", GVK=GVK_LABEL, result=result) == 1
        assert value(metrics, "ansible_operator_reconcile_results_total", GVK=GVK_LABEL, result=result) == 1


async def test_what_is_cancelled_counts_as_nothing(metrics: Metrics) -> None:
    """A run or reconcile that the end of the operator cuts off is neither success nor failure."""
    controller = metrics.controller(MEMCACHED, workers=1)
    with pytest.raises(asyncio.CancelledError), controller.reconcile(), controller.run():
        raise asyncio.CancelledError
    assert value(metrics, "ansible_operator_reconciles_count", GVK=GVK_LABEL) is None
    assert value(metrics, "controller_runtime_reconcile_time_seconds_count", controller=LABEL) == 0


async def test_a_reconcile_is_measured_with_its_result(metrics: Metrics, clock: FakeClock) -> None:
    """Errors are counted twice, as a result and on their own; a bug also counts as a panic."""
    controller = metrics.controller(MEMCACHED, workers=1)
    for result in ("success", "error"):
        with controller.reconcile() as measured:
            await clock.advance(1.5)
            measured.result = result
    with pytest.raises(ZeroDivisionError), controller.reconcile():
        _ = 1 / 0
    counts = {
        name: value(metrics, f"controller_runtime_{name}", controller=LABEL)
        for name in ("reconcile_errors_total", "reconcile_panics_total", "reconcile_time_seconds_sum")
    }
    assert counts == {"reconcile_errors_total": 2, "reconcile_panics_total": 1, "reconcile_time_seconds_sum": 3}
    assert value(metrics, "controller_runtime_reconcile_total", controller=LABEL, result="success") == 1


def test_objects_are_rendered_as_the_peers_tests_expect(metrics: Metrics) -> None:
    """The labels are group, kind, name, namespace, version in this order, the value is the time of creation."""
    objects = metrics.objects(MEMCACHED)
    meta = {"name": "sample", "namespace": "default", "creationTimestamp": "2024-01-01T00:00:00Z"}
    objects.seen({"metadata": meta})
    objects.seen({"metadata": {"name": "timeless"}})
    line = (
        'resource_created_at_seconds{group="cache.example.com",kind="Memcached",name="sample",namespace="default",'
        'version="v1alpha1"} 1.7040672e+09\n'
    )
    assert line in metrics.text()
    assert metrics.text().count("resource_created_at_seconds{") == 1
    objects.gone({"metadata": meta})
    objects.gone({"metadata": meta})
    assert "resource_created_at_seconds" not in metrics.text()


def test_informers_show_state_and_counters(metrics: Metrics) -> None:
    """Exactly one state of each informer is 1, read anew at each scrape; its lists, watches and errors are counters."""
    readings = {"east": InformerReading(state="missing", lists=1, watches=2, errors=3)}
    metrics.informers(MEMCACHED, read=lambda: readings)

    def states() -> dict[str, float | None]:
        where = {"GVK": GVK_LABEL, "namespace": "east", "source": "primary"}
        return {state: value(metrics, "ansible_operator_watch_state", **where, state=state) for state in STATES}

    assert states() == {"starting": 0, "synced": 0, "missing": 1, "forbidden": 0, "error": 0}
    readings["east"] = InformerReading(state="synced")
    assert states()["synced"] == 1
    assert states()["missing"] == 0
    assert types(metrics)["ansible_operator_informer_errors_total"] == "counter"


def test_informers_of_dependents_have_a_label_of_their_own(metrics: Metrics) -> None:
    """A kind that is both primary and dependent has two series; kinds of dependents may come at any time."""
    found: dict[GVK, dict[str, InformerReading]] = {}
    metrics.informers(MEMCACHED, read=lambda: {"": InformerReading(state="synced")})
    metrics.dependent_informers(lambda: found)

    def state(source: str) -> float | None:
        where = {"GVK": GVK_LABEL, "namespace": "", "source": source}
        return value(metrics, "ansible_operator_watch_state", **where, state="synced")

    assert (state("primary"), state("dependent")) == (1, None)
    found[MEMCACHED] = {"": InformerReading(state="forbidden")}
    assert (state("primary"), state("dependent")) == (1, 0)


def test_the_states_are_those_of_an_informer() -> None:
    """The names that the metric knows are all that an informer can be in."""
    assert set(STATES) == {state.value for state in State}


def test_a_broken_collector_takes_only_its_own_metrics() -> None:
    """What one collector cannot read is missing on the page and told in the log; everything else is there."""

    def read() -> dict[str, InformerReading]:
        raise KeyError("gone")

    metrics, sink = Metrics(), RecordingSink()
    metrics.informers(MEMCACHED, read=read)
    with records_of_libraries(Logger(sink=sink)):
        page = metrics.text()
    assert "ansible_operator_build_info" in page
    assert "process_cpu_seconds_total" in page
    assert "ansible_operator_watch_state" not in page
    assert sink.sentences() == ["A collector of metrics is left out: InformerCollector"]
