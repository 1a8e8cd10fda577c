"""How much memory a new run could have: the least of what the machine and each cgroup on the way up leave free.

Read by the gate. A container sees its own limit as the root of the tree, a plain process on a machine finds its groups
by /proc/self/cgroup; both versions of the tree are read, as machines may have them side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_KIB = 1024
_UNLIMITED = 1 << 60
"""What the first version has for no limit is near the greatest number of bytes; no machine has so many."""
_ENOUGH = 65536
"""Bytes of the longest file; the kernel makes each of them whole for one read."""


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


@dataclass(frozen=True, kw_only=True)
class _Group:
    """One cgroup: its folder and its files."""

    folder: str
    limit: str
    usage: str
    statistics: str
    cache: bytes


def free_memory(*, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> FreeMemory | None:
    """Return what is free; None where the system doesn't tell (it is not Linux)."""
    # this is asked for each run, by the event loop: texts and no objects, and nothing is read that can't matter
    found = _of_the_machine(_read(f"{proc}/meminfo"))
    for group in _groups(_read(f"{proc}/self/cgroup"), str(cgroups)):
        found = _nearer(group, than=found)
    return found


def _of_the_machine(meminfo: bytes) -> FreeMemory | None:
    value = _entry(meminfo, b"MemAvailable:")
    return None if value is None else FreeMemory(size=value * _KIB, source="MemAvailable")


def _nearer(group: _Group, *, than: FreeMemory | None) -> FreeMemory | None:
    """Return what *group* leaves free where that is less *than* what is known, which else comes back."""
    limit = _number(group.limit)
    if limit is None or (than is not None and limit >= _UNLIMITED):
        return than  # no limit (`max`), no such group here, or no right to look
    usage = _number(group.usage)
    if usage is None or (than is not None and limit - usage >= than.size):
        return than
    # the file cache counts as in use, and is given back before anything is killed
    cache = _entry(_read(group.statistics), group.cache) or 0
    size = limit - max(0, usage - cache)
    return FreeMemory(size=size, source=group.folder) if than is None or size < than.size else than


@lru_cache(maxsize=8)
def _groups(membership: bytes, cgroups: str) -> tuple[_Group, ...]:
    """Return the groups that /proc/self/cgroup tells, each with those above it up to the root that is seen."""
    root = Path(cgroups)
    return tuple(
        _Group(
            folder=str(folder),
            limit=str(folder / names.limit),
            usage=str(folder / names.usage),
            statistics=str(folder / "memory.stat"),
            cache=names.cache.encode() + b" ",
        )
        for folder, names in _folders(membership.decode(errors="replace"), cgroups=root)
    )


def _folders(membership: str, *, cgroups: Path) -> Iterator[tuple[Path, _Names]]:
    for line in membership.splitlines():
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


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, _ENOUGH)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _number(path: str) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _entry(content: bytes, name: bytes) -> int | None:
    """Return the number after *name* where a line of *content* begins with it."""
    _, found, rest = b"\n".join((b"", content)).partition(b"\n" + name)
    value = rest.split(None, 1)[:1]
    return int(value[0]) if found and value and value[0].isdigit() else None
