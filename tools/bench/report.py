"""The table of a benchmark in Markdown, and its place in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bench.catalogue import FIGURES, Figure
from tools.bench.contestants import COLD, FLOOR, PEER, WARM
from tools.bench.results import Results, Series

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
COLUMNS = (FLOOR, WARM, COLD, PEER)
_NONE = ""


@dataclass(frozen=True, kw_only=True)
class About:
    """Where, when and with what a benchmark ran."""

    command: str
    moment: str
    commit: str
    kubernetes: str
    machine: str
    load_before: str
    load_after: str
    contestants: Mapping[str, str]
    """What each is, by name."""


def table(results: Results, *, keys: Sequence[str] = ()) -> Iterator[str]:
    """Yield the rows with values, of all figures or of *keys*."""
    columns = [name for name in COLUMNS if name in results.contestants()]
    ratios = [name for name in (COLD, PEER) if name in columns and WARM in columns]
    yield "| | " + " | ".join([*columns, *(f"{name} / warm" for name in ratios), "to be reached"]) + " |"
    yield "|---" * (len(columns) + len(ratios) + 2) + "|"
    for figure in FIGURES:
        if figure.key in results.series and (not keys or figure.key in keys):
            cells = [_cell(results.get(figure.key, name), figure=figure) for name in columns]
            cells += [_ratio(results, figure, of=name) for name in ratios]
            yield f"| {figure.title}, {figure.unit} | " + " | ".join([*cells, _goal(results, figure)]) + " |"


def whole(results: Results, *, about: About) -> Iterator[str]:
    """Yield the section of the document."""
    yield f"`{about.command}`, {about.moment}, commit {about.commit}, Kubernetes {about.kubernetes}, {about.machine}."
    yield f"Load (1, 5 and 15 minutes) before {about.load_before}, after {about.load_after}; {_rest(results)}"
    yield ""
    yield from (f"- **{name}**: {about.contestants[name]}" for name in COLUMNS if name in about.contestants)
    yield ""
    yield "Median (least to most, number of values)."
    yield ""
    yield from table(results)
    if results.notes:
        yield ""
        yield from (f"- {note}" for note in results.notes)


def insert(lines: Sequence[str], *, path: Path = DOCUMENT) -> None:
    """Put *lines* between the marks of the document.

    Raises:
        ValueError: the document has not both marks.
    """
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path}: the marks {BEGIN} and {END} are missing: put them where the table belongs")
    path.write_text("\n".join([before + begin, *lines, end + after]))


def has_peer(path: Path = DOCUMENT) -> bool:
    """Tell whether the table that is there has a column of the peer."""
    return f"- **{PEER}**" in path.read_text().partition(BEGIN)[2].partition(END)[0]


def _cell(series: Series | None, *, figure: Figure) -> str:
    if series is None:
        return _NONE
    low, high = min(series.values), max(series.values)
    digits = figure.decimals
    if len(series.values) == 1:
        return f"{series.median:.{digits}f} (1)"
    return f"{series.median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}, {len(series.values)})"


def _ratio(results: Results, figure: Figure, *, of: str) -> str:
    ratio = results.ratio(figure.key, of=of, to=WARM)
    return _NONE if ratio is None else f"{ratio.value:.1f}"


def _goal(results: Results, figure: Figure) -> str:
    if figure.wanted is not None:
        ratio = results.ratio(figure.key, of=figure.wanted.against, to=WARM)
        goal = f"{figure.wanted.against} / warm at least {figure.wanted.times:g}"
        return goal if ratio is None else f"{goal}: {_verdict(ratio.value >= figure.wanted.times)}"
    warm = results.get(figure.key, WARM)
    if figure.at_most is None:
        return _NONE
    goal = f"warm at most {figure.at_most:g} {figure.unit}"
    return goal if warm is None else f"{goal}: {_verdict(warm.median <= figure.at_most)}"


def _verdict(reached: bool) -> str:  # noqa: FBT001 - the one thing it is about
    return "reached" if reached else "**missed**"


def _rest(results: Results) -> str:
    """Return how busy the machine was while nothing was measured."""
    busy = [value for values in results.series.get("machine/busy", {}).values() for value in values]
    if not busy:
        return "how busy the machine is without the benchmark was not looked at."
    return f"while an operator rested, all processors together were busy for {min(busy):.0%} to {max(busy):.0%}."
