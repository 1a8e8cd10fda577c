"""The comparison as Markdown: a table of the cases, then every difference under the row that explains it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.compare.diffs import Explained

_SHOWN = 5
_SHOWN_UNEXPLAINED = 100
_WIDTH = 160
UNEXPLAINED = "UNEXPLAINED"


def render(results: Mapping[str, Sequence[Explained]], *, titles: Mapping[str, str]) -> str:
    """Return the report of *results*, the explained differences by case."""
    return "\n".join([*_table(results, titles), *_details(results, titles)]) + "\n"


def has_row(compatibility: str, *, begins: str) -> bool:
    """Tell whether a row of docs/compatibility.md, whose text is given, begins so."""
    return any(line.startswith(f"| {begins}") for line in compatibility.splitlines())


def _table(results: Mapping[str, Sequence[Explained]], titles: Mapping[str, str]) -> Iterator[str]:
    yield "| case | what differed | why: row of docs/compatibility.md |"
    yield "|---|---|---|"
    for case, groups in results.items():
        cells = [f"{case}: {titles[case]}"]
        if not groups:
            yield f"| {cells[0]} | nothing | |"
        for group in groups:
            yield f"| {cells.pop() if cells else ''} | {_count(group)} | {_reason(group)} |"


def _details(results: Mapping[str, Sequence[Explained]], titles: Mapping[str, str]) -> Iterator[str]:
    for case, groups in results.items():
        yield f"\n## {case}: {titles[case]}"
        if not groups:
            yield "\nNo difference."
        for group in groups:
            yield f"\n**{_reason(group)}** ({_count(group)})\n"
            yield from _lines(group)


def _lines(group: Explained) -> Iterator[str]:
    shown = _SHOWN_UNEXPLAINED if group.known is None else _SHOWN
    yield "```text"
    for one in group.differences[:shown]:
        yield one.path
        yield f"  peer {_short(one.peer)}"
        yield f"  ours {_short(one.ours)}"
    if len(group.differences) > shown:
        yield f"... and {len(group.differences) - shown} more"
    yield "```"


def _count(group: Explained) -> str:
    number = len(group.differences)
    first = group.differences[0].path.replace("|", "\\|")
    return f"`{first}`" + (f" and {number - 1} more" if number > 1 else "")


def _reason(group: Explained) -> str:
    if group.known is None:
        return UNEXPLAINED
    return f"{group.known.row}" + (f" ({group.known.why})" if group.known.why else "")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value.startswith("(") else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
