"""The rules for metrics of roles and playbooks: which requests are taken, and what they do."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.kube.objects import GVK
from runner.observe.metrics import Metrics
from runner.observe.metrics_objects import InformerReading
from runner.observe.user_metrics import KINDS, RefusedMetric
from runner.testing.clock import FakeClock


@pytest.fixture
def metrics() -> Metrics:
    """Give the metrics of an operator."""
    return Metrics(clock=FakeClock())


def send(metrics: Metrics, name: str = "thing", /, **kind: Any) -> None:
    """Send one request; operations that are not given are null, as the module sends them."""
    full = {key: {**dict.fromkeys(KINDS[key]), **value} for key, value in kind.items()}
    metrics.user.handle({"name": name, "description": f"About {name}", **full})


def refusal(metrics: Metrics, request: object) -> str:
    """Return why *request* is refused."""
    with pytest.raises(RefusedMetric) as caught:
        metrics.user.handle(request)
    return str(caught.value)


def shown(metrics: Metrics, name: str = "thing") -> list[str]:
    """Return the lines of one user metric."""
    return [line for line in metrics.text().splitlines() if line.startswith((name, f"# TYPE {name} "))]


def test_the_first_request_creates_the_metric_at_zero(metrics: Metrics) -> None:
    """A request whose operations are all null creates the metric: 0, or no observation."""
    for kind in KINDS:
        send(metrics, f"sanity_{kind}", **{kind: {}})
    assert shown(metrics, "sanity_counter") == ["# TYPE sanity_counter counter", "sanity_counter 0"]
    assert shown(metrics, "sanity_gauge") == ["# TYPE sanity_gauge gauge", "sanity_gauge 0"]
    assert shown(metrics, "sanity_summary") == [
        "# TYPE sanity_summary summary",
        "sanity_summary_count 0",
        "sanity_summary_sum 0",
    ]
    assert 'sanity_histogram_bucket{le="+Inf"} 0' in shown(metrics, "sanity_histogram")
    assert "# HELP sanity_counter About sanity_counter\n" in metrics.text()


@pytest.mark.parametrize("given", [{}, {"increment": None}, {"increment": False, "add": 0}])
def test_nothing_to_do_is_fine(metrics: Metrics, given: dict[str, Any]) -> None:
    """An object without a wish is taken, with nulls or without them."""
    metrics.user.handle({"name": "thing", "description": None, "counter": given, "gauge": None})
    assert shown(metrics)[1] == "thing 0"


@pytest.mark.parametrize("name", ["plain", "with_total", "with_created", "a:b", "_x", "request_count"])
def test_names_are_kept_exactly(metrics: Metrics, name: str) -> None:
    """No suffix is added to the name of a counter, and none is taken away."""
    send(metrics, name, counter={"add": 2.5})
    assert shown(metrics, name) == [f"# TYPE {name} counter", f"{name} 2.5"]
    assert name.removesuffix("_total") in {family.name for family in text_string_to_metric_families(metrics.text())}


def test_a_counter_counts(metrics: Metrics) -> None:
    """`increment` adds one, `add` a number; with both only `increment` counts."""
    for operation in ({"increment": True}, {"add": 2.5}, {"increment": True, "add": 100}):
        send(metrics, counter=operation)
    assert shown(metrics)[1] == "thing 4.5"


def test_a_counter_never_falls(metrics: Metrics) -> None:
    """A negative number is refused in the peer's words and changes nothing."""
    send(metrics, counter={"add": 2})
    request = {"name": "thing", "counter": {"add": -1}}
    assert refusal(metrics, request) == "counter metrics cannot decrease in value"
    assert shown(metrics)[1] == "thing 2"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"set": 5}, "5"),
        ({"set": 0}, "0"),
        ({"increment": True}, "11"),
        ({"decrement": True}, "9"),
        ({"add": 7}, "17"),
        ({"subtract": 7}, "3"),
        ({"set_to_current_time": True}, "1.7672256e+09"),
        ({"increment": True, "decrement": True, "add": 5, "set": 1}, "11"),
        ({"increment": False, "decrement": True, "set": 1}, "9"),
        ({"add": 5, "subtract": 1, "set": 1}, "15"),
        ({"subtract": 1, "set": 1, "set_to_current_time": True}, "9"),
        ({"set": 1, "set_to_current_time": True}, "1"),
        ({"set": 0, "set_to_current_time": True}, "1.7672256e+09"),
    ],
)
def test_a_gauge_does_one_thing(metrics: Metrics, operation: dict[str, Any], expected: str) -> None:
    """Of several operations the first of the peer's order counts; `set: 0` sets to zero (a no-op in the peer)."""
    send(metrics, gauge={"set": 10})
    send(metrics, gauge=operation)
    assert shown(metrics)[1] == f"thing {expected}"


def test_observations_add_up(metrics: Metrics) -> None:
    """Histogram and summary take observations, zero included; the buckets are Go's."""
    for size in (0, 0.3, 20):
        send(metrics, "sizes", histogram={"observe": size})
        send(metrics, "totals", summary={"observe": size})
    lines = shown(metrics, "sizes")
    bounds = [line.partition('le="')[2].partition('"')[0] for line in lines if "le=" in line]
    assert bounds == ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"]
    assert {'sizes_bucket{le="0.005"} 1', 'sizes_bucket{le="0.5"} 2', "sizes_count 3", "sizes_sum 20.3"} < set(lines)
    assert shown(metrics, "totals")[1:] == ["totals_count 3", "totals_sum 20.3"]


@pytest.mark.parametrize(
    ("first", "then", "sentence"),
    [
        ("counter", "gauge", "cannot change metric type of thing, which is a counter"),
        ("gauge", "counter", "cannot change metric type of thing, which is a gauge"),
        ("gauge", "summary", "cannot change metric type of thing, which is a gauge"),
        ("histogram", "gauge", "cannot change metric type of thing, which is a histogram or summary"),
        ("summary", "counter", "cannot change metric type of thing, which is a histogram or summary"),
    ],
)
def test_the_kind_of_a_metric_stays(metrics: Metrics, first: str, then: str, sentence: str) -> None:
    """Another kind under a known name is refused in the peer's words."""
    send(metrics, **{first: {}})
    assert refusal(metrics, {"name": "thing", then: {}}) == sentence


def test_histogram_and_summary_take_each_others_observations(metrics: Metrics) -> None:
    """The peer knows no difference between the two once the metric is there."""
    send(metrics, histogram={"observe": 1})
    send(metrics, summary={"observe": 2})
    assert "thing_sum 3" in shown(metrics)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"name": "thing"}, "a request should contain at least one metric"),
        ({}, "a request should contain at least one metric"),
        ({"name": "thing", "counter": None}, "a request should contain at least one metric"),
        ({"name": "thing", "counter": {}, "gauge": {}}, "only one metric can be processed at a time"),
        ({"name": "no name", "counter": {}}, "'no name' is no metric name; use letters, digits, _ and :, and no digit"),
        ({"name": "1st", "counter": {}}, "'1st' is no metric name"),
        ({"name": "line\n", "counter": {}}, "is no metric name"),
        ({"name": "größe", "counter": {}}, "is no metric name"),
        ({"name": "", "counter": {}}, "'' is no metric name"),
        ({"counter": {}}, "None is no metric name"),
        ({"name": 7, "counter": {}}, "7 is no metric name"),
        ({"name": "thing", "description": 7, "counter": {}}, "description should be text"),
        ({"name": "thing", "counter": []}, "counter should be an object with its operations: increment, add"),
        ({"name": "thing", "counter": {"increment": "yes"}}, "counter.increment should be true or false"),
        ({"name": "thing", "counter": {"increment": 1}}, "counter.increment should be true or false"),
        ({"name": "thing", "gauge": {"set": "5"}}, "gauge.set should be a number"),
        ({"name": "thing", "gauge": {"set": True}}, "gauge.set should be a number"),
        ({"name": "thing", "gauge": {"set": float("inf")}}, "gauge.set should be a finite number"),
        ({"name": "thing", "summary": {"observe": 10**400}}, "summary.observe should be a finite number"),
        ([], "the request should be a JSON object"),
        (None, "the request should be a JSON object"),
    ],
)
def test_a_wrong_request_is_told_why(metrics: Metrics, request_: object, sentence: str) -> None:
    """The answer names what is wrong, and no metric appears."""
    assert sentence in refusal(metrics, request_)
    assert not list(metrics.user.collect())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ansible_operator_reconcile_result", "gauge"),
        ("workqueue_adds_total", "counter"),
        ("resource_created_at_seconds", "gauge"),
        ("ansible_operator_informer_lists_total", "counter"),
        ("process_cpu_seconds_total", "counter"),
        ("ansible_operator", "counter"),
        ("sizes_sum", "gauge"),
        ("sizes_bucket", "counter"),
    ],
)
def test_a_name_that_is_taken_is_refused(metrics: Metrics, name: str, kind: str) -> None:
    """No user metric shares a series with the operator's own or another one: nobody could read the page then."""
    send(metrics, "sizes", histogram={})
    if name == "ansible_operator":
        send(metrics, name, **{kind: {}})  # a beginning of other names is no name
        return
    assert f"the name {name} is taken" in refusal(metrics, {"name": name, kind: {}})
    families = [family.name for family in text_string_to_metric_families(metrics.text())]
    assert len(families) == len(set(families))


def test_a_distribution_that_would_cover_a_name_is_refused(metrics: Metrics) -> None:
    """A summary brings series of its own, and these may be taken too."""
    send(metrics, "load_count", gauge={})
    assert "there is a metric with the series load_count" in refusal(metrics, {"name": "load", "summary": {}})


def test_a_new_name_reads_no_metric(metrics: Metrics) -> None:
    """A first request costs the same however many objects the operator has: no other metric is collected for it."""
    reads: list[str] = []

    def read() -> dict[str, InformerReading]:
        reads.append("read")
        return {}

    metrics.informers(GVK("example.com", "v1", "Web"), read=read)
    send(metrics, counter={})
    assert reads == []
    metrics.text()
    assert reads == ["read"]


def test_a_refused_first_request_leaves_no_metric(metrics: Metrics) -> None:
    """A wrong operation doesn't create what it was meant for."""
    refusal(metrics, {"name": "thing", "counter": {"add": -1}})
    assert not shown(metrics)
    send(metrics, gauge={"set": 1})
