"""How much memory a new run could have: the least of what the machine and each cgroup on the way up leave free.

Read by the gate. A container sees its own limit as the root of the tree, a plain process on a machine finds its groups
by /proc/self/cgroup; both versions of the tree are read, as machines may have them side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class FreeMemory:
    """Memory that may still be taken, and who limits it."""

    size: int
    """Bytes; below zero where a limit was lowered under what is in use."""
    source: str
    """`MemAvailable`, or the folder of the cgroup whose limit is nearest."""


@dataclass(frozen=True, kw_only=True)
class _Names:
    """The files of one version of cgroups."""

    limit: str
    usage: str
    cache: str
    """The line of memory.stat with the file cache that the kernel takes back first."""


_V1 = _Names(limit="memory.limit_in_bytes", usage="memory.usage_in_bytes", cache="total_inactive_file")
_V2 = _Names(limit="memory.max", usage="memory.current", cache="inactive_file")


def free_memory(*, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> FreeMemory | None:
    """Return what is free; None where the system doesn't tell (it is not Linux)."""
    found = [*_of_the_machine(proc), *_of_groups(proc=proc, cgroups=cgroups)]
    return min(found, key=lambda free: free.size, default=None)


def _of_the_machine(proc: Path) -> Iterator[FreeMemory]:
    for line in _lines(proc / "meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield FreeMemory(size=int(value.split()[0]) * _KIB, source=name)


def _of_groups(*, proc: Path, cgroups: Path) -> Iterator[FreeMemory]:
    for folder, names in _folders(proc=proc, cgroups=cgroups):
        limit, usage = _number(folder / names.limit), _number(folder / names.usage)
        if limit is None or usage is None:
            continue  # no limit (`max`), no such group here, or no right to look
        cache = _entry(folder / "memory.stat", names.cache)
        # the file cache counts as in use, and is given back before anything is killed
        yield FreeMemory(size=limit - max(0, usage - cache), source=str(folder))


def _folders(*, proc: Path, cgroups: Path) -> Iterator[tuple[Path, _Names]]:
    """Return this process's groups, each with those above it up to the root of the tree that it sees."""
    for line in _lines(proc / "self" / "cgroup"):
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            roots, names = [cgroups, cgroups / "unified"], _V2
        elif "memory" in controllers.split(","):
            roots, names = [cgroups / "memory"], _V1
        else:
            continue
        for root in roots:
            yield from ((root / part, names) for part in _upwards(path))


def _upwards(path: str) -> Iterator[Path]:
    """Return *path* relative to its root, and each folder above it; one outside of what is seen (`/..`) is the root."""
    relative = Path(path.lstrip("/"))
    if ".." in relative.parts:
        relative = Path()
    yield from (relative, *relative.parents)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    text = next(iter(_lines(path)), "")
    return int(text) if text.isdigit() else None


def _entry(path: Path, name: str) -> int:
    values = (line.split() for line in _lines(path))
    return next((int(fields[1]) for fields in values if len(fields) > 1 and fields[0] == name), 0)
