"""The benchmark's figures and its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.bench import report
from tools.bench.results import Results, Series, to_json

ABOUT = report.About(
    command="python -m tools.bench",
    moment="2026-11-30 03:00 UTC",
    commit="abc1234",
    kubernetes="1.36.3",
    machine="2 CPUs",
    load_before="0.10 0.20 0.30",
    load_after="1.10 1.20 1.30",
    contestants={"warm": "ours", "peer": "theirs"},
)


def _results() -> Results:
    results = Results()
    for value in (0.2, 0.1, 0.15):
        results.add("one-task/new", "warm", value=value)
        results.add("one-task/new", "peer", value=value * 20)
    results.add("memory/idle", "warm", value=260.4)
    return results


def test_a_cell_has_median_range_and_number() -> None:
    """What a value is worth stands beside it, and a single value has no range."""
    rows = list(report.table(_results()))
    assert rows[0] == "| | warm | peer | peer / warm | to be reached |"
    assert "| 0.15 (0.10 to 0.20, 3) | 3.00 (2.00 to 4.00, 3) | 20.0 | peer / warm at least 15: reached |" in rows[3]
    assert "| 260 (1) |  |  | warm at most 250 MiB: **missed** |" in rows[2]


def test_the_document_tells_where_and_when(tmp_path: Path) -> None:
    """Command, date, commit, load before and after, and each contestant's versions stand above the table."""
    results = _results()
    results.note("peer was left out of ec2")
    text = "\n".join(report.whole(results, about=ABOUT))
    for part in ("abc1234", "0.10 0.20 0.30", "1.10 1.20 1.30", "- **peer**: theirs", "- peer was left out of ec2"):
        assert part in text
    path = tmp_path / "benchmarks.md"
    path.write_text(f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nmore\n")
    assert not report.has_peer(path)
    report.insert(text.splitlines(), path=path)
    report.insert(text.splitlines(), path=path)
    written = path.read_text()
    assert written.startswith(f"# Title\n\n{report.BEGIN}\n`python -m tools.bench`")
    assert written.endswith(f"{report.END}\n\nmore\n")
    assert written.count("abc1234") == 1
    assert "old" not in written
    assert report.has_peer(path)


def test_a_document_without_marks_is_refused(tmp_path: Path) -> None:
    """A table is not written anywhere else than between its marks."""
    path = tmp_path / "benchmarks.md"
    path.write_text("# Title\n")
    with pytest.raises(ValueError, match="marks"):
        report.insert(["x"], path=path)
    assert path.read_text() == "# Title\n"


def test_the_document_has_the_marks() -> None:
    """`make bench` finds the place of its table in docs/benchmarks.md."""
    text = report.DOCUMENT.read_text()
    assert text.index(report.BEGIN) < text.index(report.END)


def test_the_error_of_a_median_follows_the_spread() -> None:
    """Equal values have none, wider ones more, an outlier hardly any, and two values tell nothing."""
    assert Series(values=[2.0] * 7).error == 0
    narrow, wide = Series(values=[10.0, 10.1, 9.9]).error, Series(values=[10.0, 12.0, 8.0]).error
    assert narrow is not None
    assert wide == pytest.approx(narrow * 20)
    assert Series(values=[2.0] * 6 + [90.0]).error == 0
    assert Series(values=[1.0, 2.0]).error is None


def test_a_ratio_needs_both(tmp_path: Path) -> None:
    """Of a contestant that wasn't measured there is no ratio."""
    results = _results()
    ratio = results.ratio("one-task/new", of="peer", to="warm")
    assert ratio is not None
    assert ratio.value == pytest.approx(20)
    assert results.ratio("memory/idle", of="peer", to="warm") is None
    assert json.loads(to_json(results, about={"commit": "x"}))["values"]["memory/idle"] == {"warm": [260.4]}
