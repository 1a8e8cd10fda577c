"""The text of `/metrics`: Go's form, where the library would write another one."""

from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, Summary
from prometheus_client.parser import text_string_to_metric_families

from runner.observe.metrics_text import go_number, render


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "-0"),
        (1, "1"),
        (7.0, "7"),
        (-7.5, "-7.5"),
        (0.005, "0.005"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e-8, "1e-08"),
        (100000, "100000"),
        (999999.5, "999999.5"),
        (1000000, "1e+06"),
        (1704067200, "1.7040672e+09"),
        (-1234567.25, "-1.23456725e+06"),
        (1e100, "1e+100"),
        (0.1 + 0.2, "0.30000000000000004"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_does(value: float, text: str) -> None:
    """The fewest digits that tell the number, an exponent from a million on, no `.0`."""
    assert go_number(value) == text


def test_a_counter_keeps_its_name() -> None:
    """A counter is shown under its own name, with `_total` only where its name has it, and never with `_created`."""
    registry = CollectorRegistry()
    Counter("jobs_total", "Jobs.", registry=registry).inc()
    plain = Metric("visits", "Visits.", "counter")
    plain.add_sample("visits", {}, 3)
    assert render([*registry.collect(), plain]) == (
        "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\njobs_total 1\n"
        "# HELP visits Visits.\n# TYPE visits counter\nvisits 3\n"
    )


def test_distributions_have_only_gos_series() -> None:
    """A histogram is buckets (bounds in Go's numbers, behind the labels), sum and count; a summary is sum and count."""
    registry = CollectorRegistry()
    Histogram("seconds", "Seconds.", ["zone"], registry=registry, buckets=(0.5, 1)).labels("a").observe(0.7)
    Summary("bytes", "Bytes.", registry=registry).observe(2)
    assert render(registry.collect()).splitlines() == [
        "# HELP bytes Bytes.",
        "# TYPE bytes summary",
        "bytes_count 1",
        "bytes_sum 2",
        "# HELP seconds Seconds.",
        "# TYPE seconds histogram",
        'seconds_bucket{zone="a",le="0.5"} 0',
        'seconds_bucket{zone="a",le="1"} 1',
        'seconds_bucket{zone="a",le="+Inf"} 1',
        'seconds_count{zone="a"} 1',
        'seconds_sum{zone="a"} 0.7',
    ]


def test_labels_are_sorted_and_escaped() -> None:
    """Labels stand in the order of their names, and whatever is in a value or a help text stays on its line."""
    registry = CollectorRegistry()
    Gauge("up", 'a\\b "c"\nd', ["zone", "area"], registry=registry).labels(zone='a"\\\n', area="ü").set(1)
    text = render(registry.collect())
    assert text == '# HELP up a\\\\b "c"\\nd\n# TYPE up gauge\nup{area="ü",zone="a\\"\\\\\\n"} 1\n'
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"zone": 'a"\\\n', "area": "ü"}


def test_a_family_without_series_is_left_out() -> None:
    """What was never used is not shown, as in Go."""
    registry = CollectorRegistry()
    Gauge("unused", "Nothing.", ["name"], registry=registry)
    assert render(registry.collect()) == ""
