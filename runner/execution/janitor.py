"""Removes the run folders of objects that are gone; nobody else would, as an object's folder outlives its last run.

Called now and then by the composition root, with what its informers know. A folder goes when its kind is watched by
this operator, its object is not among the known ones, nothing has used it for `LIMIT` seconds and no run holds it
(`files.held`, which another operator on the same host honours too). Everything else is left alone: folders of
other kinds and of namespaces that aren't watched, links and what they lead to, other users' folders.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.clock import Clock
from runner.execution.files import is_own_folder, unheld
from runner.kube.objects import GVK

INTERVAL = 600.0
"""Seconds between two sweeps."""
LIMIT = 1800.0
"""Seconds for which a folder must not have been used: with the interval, an object's folder goes within the hour."""


@dataclass(frozen=True, kw_only=True)
class KnownObjects:
    """All objects of one kind that this operator watches: only what is known completely may be handed in."""

    gvk: GVK
    namespaced: bool
    namespaces: tuple[str, ...] = ()
    """Those that are watched; empty: all."""
    lives: Callable[[str, str], bool]
    """Tells whether the object of a namespace (empty for cluster scope) and name is there; asked on the event loop."""


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    namespace: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What became of the folders of objects that are gone."""

    removed: tuple[Path, ...]
    failed: tuple[str, ...]
    """Why some could not be removed."""


class Janitor:
    """Sweeps one root."""

    def __init__(self, *, root: Path, clock: Clock, limit: float = LIMIT) -> None:
        """Sweep *root*, by *clock*, sparing what was used within *limit* seconds."""
        self._root = root
        self._clock = clock
        self._limit = limit

    async def sweep(self, kinds: Iterable[KnownObjects]) -> Swept:
        """Remove what is nobody's any more; a folder that cannot be removed holds up no other one."""
        removed: list[Path] = []
        failed: list[str] = []
        for known in kinds:
            try:
                candidates = await asyncio.to_thread(self._candidates, known)
            except OSError as error:
                failed.append(str(error))
                continue
            for found in candidates:
                await asyncio.sleep(0)  # thousands of living objects must not keep the event loop to themselves
                if known.lives(found.namespace, found.path.name):
                    continue
                try:
                    removed += [found.path] if await asyncio.to_thread(self._remove, found.path) else []
                except OSError as error:
                    failed.append(str(error))
        return Swept(removed=tuple(removed), failed=tuple(failed))

    def _candidates(self, known: KnownObjects) -> list[_Candidate]:
        """Return the unused folders of a kind, whether their objects live or not."""
        kind = self._root
        for part in (known.gvk.group, known.gvk.version, known.gvk.kind):
            kind = kind / part if part else kind
            if not is_own_folder(kind):
                return []
        if not known.namespaced:
            return [_Candidate(namespace="", path=path) for path in _own_folders(kind) if self._unused(path)]
        return [
            _Candidate(namespace=folder.name, path=path)
            for folder in _own_folders(kind)
            if not known.namespaces or folder.name in known.namespaces
            for path in _own_folders(folder)
            if self._unused(path)
        ]

    def _unused(self, path: Path) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self._clock.now().timestamp() - path.lstat().st_mtime > self._limit
        return False

    def _remove(self, path: Path) -> bool:
        """Remove a folder that no run holds, and the parents that are empty then."""
        with unheld(path) as free:
            if not free or not self._unused(path):  # a run came in between
                return False
            shutil.rmtree(path)
        for parent in path.parents:
            if parent == self._root:
                break
            try:
                parent.rmdir()
            except OSError:
                break  # not empty
        return True


def _own_folders(path: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from [child for child in sorted(path.iterdir()) if is_own_folder(child)]
