"""The last step of `/metrics`: families of samples become the Prometheus text format 0.0.4, as Go writes it.

`prometheus_client.generate_latest` follows OpenMetrics: it renames counters (`_total`), adds `_created` series and
writes `1.0` where Go writes `1`. Dashboards and rules made for the peer know Go's form, so this writes that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal

from prometheus_client import Metric
from prometheus_client.samples import Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_TYPES = frozenset({"counter", "gauge", "histogram", "summary"})
_LAST = ("le", "quantile")
"""Labels that Go writes behind all others."""
_LONGEST = 6
"""Go writes numbers with more digits than this before the point with an exponent."""


def render(families: Iterable[Metric]) -> str:
    """Return *families* in the text format, sorted by name; a family without series is left out, as in Go."""
    return "".join(_family(family) for family in sorted(families, key=lambda family: family.name))


def go_number(value: float) -> str:
    """Return *value* as Go's `strconv.FormatFloat(value, 'g', -1, 64)` writes it: 1, 0.25, 1.5e+06, +Inf."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    shortest = Decimal(repr(float(value))).normalize()  # repr has the fewest digits that tell the number
    exponent = shortest.adjusted()
    if not shortest or -4 <= exponent < _LONGEST:
        return f"{shortest:f}"
    text = "".join(map(str, shortest.as_tuple().digits))
    minus = "-" if shortest.is_signed() else ""
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{exponent:+03d}"


def _family(family: Metric) -> str:
    """Return HELP, TYPE and the samples; nothing where there are none."""
    samples = [sample for sample in family.samples if sample.name != f"{family.name}_created"]
    if not samples:
        return ""
    renamed = family.type == "counter" and samples[0].name == f"{family.name}_total"
    name = f"{family.name}_total" if renamed else family.name
    kind = family.type if family.type in _TYPES else "untyped"
    head = f"# HELP {name} {_escaped(family.documentation)}\n# TYPE {name} {kind}\n"
    return head + "".join(map(_sample, samples))


def _sample(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_label(name, value)}"' for name, value in _ordered(sample.labels))
    return (
        f"{sample.name}{{{labels}}} {go_number(sample.value)}\n"
        if labels
        else (f"{sample.name} {go_number(sample.value)}\n")
    )


def _ordered(labels: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(labels.items(), key=lambda label: (label[0] in _LAST, label[0]))


def _label(name: str, value: str) -> str:
    return go_number(float(value)) if name in _LAST else _escaped(value).replace('"', r"\"")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
