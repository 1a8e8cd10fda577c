"""The regression guard of the benchmark: which ratios are worse than the recorded ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench import guard
from tools.bench.catalogue import FIGURES
from tools.bench.results import Ratio, Results

KEY = "one-task/new"
KEYS = [figure.key for figure in FIGURES]
ALL = ["floor", "warm", "cold", "peer"]


def _results(*, warm: list[float], peer: list[float], key: str = KEY) -> Results:
    return Results(series={key: {"warm": warm, "peer": peer}})


def _recorded(value: float, *, error: float | None = 0.01) -> guard.Recorded:
    return {"peer": {KEY: Ratio(value=value, error=error)}}


def test_a_ratio_that_got_worse_is_told_with_both_figures() -> None:
    """Half of the recorded ratio is a regression, and the sentence names figure, contestant and both ratios."""
    results = _results(warm=[0.2, 0.2, 0.2], peer=[2.0, 2.0, 2.0])
    (sentence,) = guard.regressions(results, recorded=_recorded(20), keys=KEYS, asked=ALL)
    assert sentence.startswith("REGRESSION: one-task role: created to Successful: peer needs 10.00 times")
    assert "20.00" in sentence
    assert "15%" in sentence


@pytest.mark.parametrize(("recorded", "worse"), [(11.0, False), (9.0, False), (11.7, False), (11.9, True)])
def test_within_the_tolerance_and_better_is_no_regression(recorded: float, *, worse: bool) -> None:
    """A ratio of ten passes against what is up to 15 % above it, and against anything below."""
    results = _results(warm=[0.2, 0.2, 0.2], peer=[2.0, 2.0, 2.0])
    told = list(guard.regressions(results, recorded=_recorded(recorded, error=0.0), keys=KEYS, asked=ALL))
    assert bool(told) is worse


def test_the_tolerance_grows_with_the_spread_and_has_an_end() -> None:
    """Four standard errors of both ratios are allowed, an unknown error is taken for 6 %, and 40 % is the most."""
    assert guard.tolerance(Ratio(value=1, error=0.0), Ratio(value=1, error=0.0)) == 0.15
    assert guard.tolerance(Ratio(value=1, error=0.03), Ratio(value=1, error=0.04)) == pytest.approx(0.20)
    assert guard.tolerance(Ratio(value=1, error=None), Ratio(value=1, error=0.0)) == pytest.approx(0.24)
    assert guard.tolerance(Ratio(value=1, error=0.3), Ratio(value=1, error=0.0)) == 0.40


def test_a_figure_that_is_gone_is_a_regression() -> None:
    """Where warm was left out because it failed, the guard does not stay silent."""
    results = Results(series={KEY: {"peer": [2.0]}})
    (sentence,) = guard.regressions(results, recorded=_recorded(20), keys=KEYS, asked=ALL)
    assert "no figure" in sentence


def test_what_this_run_did_not_measure_is_not_compared() -> None:
    """A section that wasn't chosen and a contestant that wasn't there are no regressions."""
    results = Results(series={"memory/idle": {"warm": [200.0], "peer": [90.0]}})
    assert not list(guard.regressions(results, recorded=_recorded(20), keys=["memory/idle"], asked=ALL))
    alone = Results(series={KEY: {"warm": [0.1], "cold": [2.0]}})
    assert not list(guard.regressions(alone, recorded=_recorded(20), keys=KEYS, asked=ALL))
    without_warm = Results(series={KEY: {"floor": [0.02], "peer": [2.0]}})
    assert not list(guard.regressions(without_warm, recorded=_recorded(20), keys=KEYS, asked=["floor", "peer"]))


def test_recorded_ratios_are_read_as_they_were_written(tmp_path: Path) -> None:
    """What one run records, a later run compares with; a run of some sections leaves the others' ratios alone."""
    path = tmp_path / "recorded.json"
    assert guard.read(path) == {}
    guard.write(_results(warm=[0.1, 0.1, 0.1], peer=[2.0, 2.2, 2.1]), about={"commit": "a"}, path=path)
    guard.write(_results(warm=[1.0], peer=[7.0], key="twenty/2-workers"), about={"commit": "b"}, path=path)
    found = guard.read(path)["peer"]
    assert found[KEY].value == pytest.approx(21)
    assert found[KEY].error == pytest.approx(0.0511, abs=0.001)
    assert found["twenty/2-workers"] == Ratio(value=7, error=None)
