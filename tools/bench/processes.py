"""What the processes of one operator hold and have used, out of /proc: the operator and all that it started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USED = 1, slice(11, 15)
"""Fields after the name of `stat`: the parent; utime, stime, cutime, cstime."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """One look at the processes of an operator."""

    count: int
    """How many there are; a zombie is one."""
    cpu: float
    """Seconds of processor time, with those of the children that have ended and were waited for."""


def lives(pid: int) -> bool:
    """Tell whether the process *pid* has not ended yet."""
    return _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def tree(pid: int) -> Tree:
    """Return what the process *pid* and its descendants have used so far."""
    stats = _stats()
    members = list(_members(pid, parents={one: int(fields[_PARENT]) for one, fields in stats.items()}))
    ticks = sum(sum(int(value) for value in stats[one][_USED]) for one in members)
    return Tree(count=len(members), cpu=ticks / _TICKS)


def machine() -> tuple[float, float]:
    """Return the seconds that all processors together have been busy so far, and those that there were."""
    fields = [int(value) for value in _read(_PROC / "stat").splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS, sum(fields) / _TICKS


def memory(pid: int) -> float:
    """Return the PSS of the process *pid* and its descendants, in MiB: shared pages are split among who maps them."""
    parents = {one: int(fields[_PARENT]) for one, fields in _stats().items()}
    return sum(_pss(one) for one in _members(pid, parents=parents)) / 1024


def _members(root: int, *, parents: dict[int, int]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    fresh = [root] if root in parents else []
    while fresh:
        pid = fresh.pop()
        yield pid
        fresh += children.get(pid, ())


def _stats() -> dict[int, list[str]]:
    """Return the fields of `stat` after the name, by process."""
    found: dict[int, list[str]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            text = _read(entry / "stat")
            if text:
                found[int(entry.name)] = text.rpartition(")")[2].split()
    return found


def _pss(pid: int) -> int:
    """Return KiB; 0 for a process that has ended or is a zombie."""
    for line in _read(_PROC / str(pid) / "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
