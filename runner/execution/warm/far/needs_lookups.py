"""The lookup plugins of collections that content names in its templates: they run in Ansible's own processes.

What they import is loaded in the play server, and nothing else is: a process without it is forked, and ends, quicker.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_NAMED = re.compile(rb"\b(?:lookup|query|q)\s*\(\s*\\?['\"](\w+\.\w+\.\w+)\\?['\"]|\bwith_(\w+\.\w+\.\w+)\s*:")
"""In a template, where quotes may be escaped for YAML; and the old loop of a task."""
_SUFFIXES = frozenset({".yml", ".yaml", ".j2", ".json"})
_BUILTIN = (b"ansible.builtin.", b"ansible.legacy.")
_LARGEST = 1 << 20
"""Bytes of a file that is looked through: task files and templates are smaller."""


def lookups_in(places: Iterable[Path]) -> set[str]:
    """Return the full names of lookups that files name; of folders among *places* all files are read."""
    return {name for path in _files(places) for name in _named(path)}


def _named(path: Path) -> Iterator[str]:
    try:
        found = path.stat()
        text = path.read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST else b""
    except OSError:
        return
    for groups in _NAMED.findall(text):
        name = b"".join(groups)
        if not name.startswith(_BUILTIN):
            yield name.decode(errors="replace")


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        try:
            below = sorted(place.rglob("*")) if place.is_dir() else [place]
        except OSError:
            continue
        yield from (path for path in below if path.suffix in _SUFFIXES)
