"""The regression guard: the ratios of a run against those that were recorded last, `recorded.json`. Pure but for files.

A ratio of two contestants in one run hardly depends on the machine; what it does scatter by is told by the spread of
its rounds. So a ratio is a regression where it is worse than the recorded one by more than four standard errors of
both together, and by at least `LEAST`: about thirty ratios are compared, and four errors are passed by chance in one of
thirty thousand. `LEAST` is for what rounds of one run have in common and two runs have not: caches, the order of
pages, the machine's mood. Of a figure with too few rounds to know, an error of `UNKNOWN` is assumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench.catalogue import FIGURES, Figure
from tools.bench.contestants import COLD, PEER, WARM
from tools.bench.results import Ratio, Results

RECORDED = Path(__file__).with_name("recorded.json")
LEAST = 0.15
MOST = 0.40
UNKNOWN = 0.06
_ERRORS = 4.0
AGAINST = (COLD, PEER)

Recorded = Mapping[str, Mapping[str, Ratio]]
"""Ratios by the other contestant and the key of the figure."""


def regressions(results: Results, *, recorded: Recorded, keys: Sequence[str], asked: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each ratio of the figures *keys* that got worse, or that can't be told any more.

    *asked* are the names of the contestants that the run was to have: without our warm one there is nothing to compare,
    and where it was to be there and has no figures, that is a regression.
    """
    if WARM not in asked:
        return
    present = results.contestants()
    for other in AGAINST:
        for figure in FIGURES:
            then = recorded.get(other, {}).get(figure.key)
            if then is None or figure.key not in keys or other not in present:
                continue
            now = results.ratio(figure.key, of=other, to=WARM)
            if now is None:
                yield f"REGRESSION: {figure.title}: there is no figure of {other} and {WARM} any more"
            elif now.value < then.value * (1 - tolerance(now, then)):
                yield _sentence(figure, other=other, now=now, then=then)


def tolerance(now: Ratio, then: Ratio) -> float:
    """Return by what share a ratio may be below the recorded one."""
    errors = [UNKNOWN if ratio.error is None else ratio.error for ratio in (now, then)]
    return min(MOST, max(LEAST, _ERRORS * math.hypot(*errors)))


def read(path: Path = RECORDED) -> Recorded:
    """Return the recorded ratios; none where nothing was recorded yet."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text())
    return {
        other: {key: Ratio(value=entry["ratio"], error=entry["error"]) for key, entry in by_key.items()}
        for other, by_key in document["ratios"].items()
    }


def write(results: Results, *, about: Mapping[str, Any], path: Path = RECORDED) -> None:
    """Record the ratios of *results*; those that this run hasn't measured stay as they are."""
    merged = {other: dict(by_key) for other, by_key in read(path).items()}
    for other in AGAINST:
        for figure in FIGURES:
            now = results.ratio(figure.key, of=other, to=WARM) if figure.guarded else None
            if now is not None:
                merged.setdefault(other, {})[figure.key] = now
    ratios = {other: {key: _entry(ratio) for key, ratio in by_key.items()} for other, by_key in merged.items()}
    path.write_text(json.dumps({**about, "ratios": ratios}, indent=1) + "\n")


def _entry(ratio: Ratio) -> dict[str, float | None]:
    return {"ratio": round(ratio.value, 3), "error": None if ratio.error is None else round(ratio.error, 4)}


def _sentence(figure: Figure, *, other: str, now: Ratio, then: Ratio) -> str:
    allowed = tolerance(now, then)
    return (
        f"REGRESSION: {figure.title}: {other} needs {now.value:.2f} times what {WARM} needs; recorded are "
        f"{then.value:.2f} times, of which {allowed:.0%} may be lost"
    )
