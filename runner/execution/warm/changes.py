"""Tells when what a fork server has loaded changes on disk: an endless iterator of `Change`, read by `launcher`.

What a play reads anew is no change by itself. Where it may name other modules (tasks, handlers, playbooks) it moves
what is worth loading, and a server may go on until the next one is there; a file that names nothing new, templates and
variables do not. What the server holds in memory, or found out once (collections, plugins and module utilities beside
a role, ansible.cfg, packages), makes it stale at once. `places` says where all of that is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import watchfiles

from runner.execution.play import to_the_end
from runner.execution.warm.places import Place, is_plugin_folder
from runner.logs import Logger

_IGNORED_FOLDERS = frozenset({
    "__pycache__",
    ".git",
    ".hg",
    ".svn",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "artifacts",
})
_IGNORED_FILES = re.compile(r"\.py[co](\.\d+)?$|\.sw[a-z]$|~$|^\.#|^#.*#$|^4913$")
"""Byte code, and what editors leave."""
_NAMES_NOTHING = frozenset({"files", "templates", "vars", "defaults", "group_vars", "host_vars", "tests", "molecule"})
"""Folders of a role, or beside a playbook, that tell no modules."""
_MAY_NAME = frozenset({"", ".yml", ".yaml", ".json"})
"""Endings of what Ansible reads as tasks; folders have none."""
_NAME = re.compile(rb"^[ \t]*(?:-[ \t]+)?[\"']?([A-Za-z_][\w.]*)[\"']?[ \t]*:(?:[ \t]+([\w.]+))?", re.MULTILINE)
"""A key with what follows it, such as `- ansible.builtin.copy:`, `action: copy` or `include_role:`."""
_REMEMBERED = 10_000
_DEBOUNCE = 400
_STEP = 50
"""Milliseconds: changes are told after so much silence, or after the debounce."""
_AGAIN = 60.0
_SOON = 1.0
"""Seconds until a watch that broke is tried again: for a limit, and for what vanished just then."""
_LIMITS = re.compile(r"limit|os error (24|28)|No space left|Too many open files", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that a fork server has loaded isn't what it was."""

    path: Path
    """One of what changed."""
    stale: bool
    """The server must run nothing more."""
    moved: bool = False
    """A place came, went, or is another one now, so that other folders have to be watched."""


class Changes:
    """Watches places, for one reader."""

    def __init__(self, find: Callable[[], Iterable[Place]], *, logger: Logger) -> None:
        """*find* is asked for the places, and again whenever one of them came, went or was replaced."""
        self._find = find
        self._log = logger
        self._names = _Names()
        self._told = False
        self.established = asyncio.Event()
        """Set when all that changes from now on will be told, or nothing can be."""

    async def __aiter__(self) -> AsyncIterator[Change]:
        """Yield changes until cancelled; trouble is a line in the log."""
        moved: Change | None = None
        while True:
            try:
                async for change in self._until_moved(moved):
                    moved = change if change.moved else None
                    yield change
            except FileNotFoundError:
                await asyncio.sleep(_SOON)
            except OSError as error:
                self._tell(error)
                self.established.set()
                await asyncio.sleep(_AGAIN)

    async def _until_moved(self, before: Change | None) -> AsyncIterator[Change]:
        """Yield changes of the places that there are now; the last one tells that they aren't the same any more."""
        async with _Watch(self._find(), names=self._names) as watch:
            self.established.set()
            if before is not None:  # what changed between the two watches, nobody saw: it may have been anything
                yield replace(before, stale=True, moved=False)
            moved = False
            while not moved:
                change = await watch.next()
                moved = change.moved
                yield change

    def _tell(self, error: OSError) -> None:
        if self._told:
            return
        self._told = True
        remedy = "restart the operator after each change"
        if _LIMITS.search(str(error)):
            remedy = f"raise fs.inotify.max_user_watches and fs.inotify.max_user_instances of the node, or {remedy}"
        self._log.warning("Changes of roles, collections and packages are not noticed", error=str(error), remedy=remedy)


@dataclass(kw_only=True)
class _Entry:
    """A place, a link to one, or what will lead to one."""

    memory: bool = False
    moves: bool = False
    """Another one in its place has to be watched anew; not so a file."""


@dataclass(frozen=True, kw_only=True)
class _Entries:
    """What matters of the entries of one folder."""

    names: dict[str, _Entry] = field(default_factory=dict)
    any: bool = False
    """Every entry matters, and is held in memory."""


class Map:
    """Which folders must be watched for some places, and what a changed path means."""

    def __init__(self, found: Iterable[Place]) -> None:
        """Look at the disk for what there is of *found* now."""
        self.deep: dict[Path, bool] = {}
        """Folders that matter with everything below; whether all of it is held in memory."""
        self.shallow: dict[Path, _Entries] = {}
        for place in found:
            if place.deep and place.path.is_dir():
                self.deep[place.path] = self.deep.get(place.path, False) or place.memory
            if place.listing and place.path.is_dir():
                self.shallow[place.path] = _Entries(names=self._entries(place.path).names, any=True)
            for path in _fragile(place.path):
                entry = self._entries(path.parent).names.setdefault(path.name, _Entry())
                entry.memory |= place.memory
                entry.moves |= place.deep or place.listing or path != place.path or path.is_symlink()

    def meaning(self, path: Path) -> Change | None:
        """Return what it means that *path* changed; None: nothing."""
        entries = self.shallow.get(path.parent)
        if entries is not None and (entry := entries.names.get(path.name)) is not None:
            return Change(path=path, stale=entry.memory or _in_memory([path.name]), moved=entry.moves)
        if entries is not None and entries.any and not _ignored(path.name):
            return Change(path=path, stale=True)
        roots = [root for root in self.deep if path.is_relative_to(root)]
        if not roots:
            return None
        root = max(roots, key=lambda root: len(root.parts))
        parts = path.relative_to(root).parts
        if any(part in _IGNORED_FOLDERS for part in parts) or _ignored(path.name):
            return None
        stale = any(self.deep[root] for root in roots) or _in_memory((root.name, *parts))
        return Change(path=path, stale=stale) if stale or _may_name_modules(path, below=(root.name, *parts)) else None

    def _entries(self, folder: Path) -> _Entries:
        return self.shallow.setdefault(folder, _Entries())


class _Names:
    """The keys of each file that changed, among which those of modules are."""

    def __init__(self) -> None:
        self._of: dict[Path, frozenset[tuple[bytes, ...]]] = {}

    def are_news(self, path: Path) -> bool:
        """Tell whether *path* has other keys than when it changed last; what isn't known is news."""
        try:
            names = frozenset(_NAME.findall(path.read_bytes()))
        except OSError:  # it is a folder, or gone
            self._of.pop(path, None)
            return True
        if len(self._of) >= _REMEMBERED:
            self._of.clear()
        before, self._of[path] = self._of.get(path), names
        return names != before


class _Watch:
    """Two watches as one: of folders with everything below, and of the entries of others."""

    def __init__(self, found: Iterable[Place], *, names: _Names) -> None:
        self._map = Map(found)
        self._names = names
        self._queue: asyncio.Queue[Change | Exception] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _Watch:
        for folders, recursive in ((self._map.deep, True), (self._map.shallow, False)):
            if folders:
                self._tasks.append(asyncio.create_task(self._pump(sorted(folders), recursive=recursive)))
        await asyncio.sleep(0)  # a watch begins in its first step
        return self

    async def __aexit__(self, *_: object) -> None:
        await to_the_end(self._close())

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self) -> Change:
        """Return the next change that means something."""
        change = await self._queue.get()
        if isinstance(change, Exception):
            raise change
        return change

    async def _pump(self, folders: list[Path], *, recursive: bool) -> None:
        try:
            async for changes in watchfiles.awatch(
                *folders,
                watch_filter=None,
                recursive=recursive,
                debounce=_DEBOUNCE,
                step=_STEP,
                ignore_permission_denied=True,
            ):
                self._take(Path(path) for _, path in changes)
        except OSError as error:
            self._queue.put_nowait(error)

    def _take(self, paths: Iterable[Path]) -> None:
        """Hand on one change for all that came together: the weightiest."""
        found = [change for path in sorted(paths) if (change := self._map.meaning(path)) is not None]
        found = [change for change in found if change.stale or change.moved or self._names.are_news(change.path)]
        if found:
            first = next((change for change in found if change.stale), found[0])
            moved = any(change.moved for change in found)
            self._queue.put_nowait(Change(path=first.path, stale=first.stale, moved=moved))


def _fragile(path: Path) -> Iterator[Path]:
    """Yield what makes *path* another one when it is replaced: links on the way, itself, the first that is missing."""
    for part in (*reversed(path.parents), path):
        if part.parent != part and (part.is_symlink() or part == path or not part.exists()):
            yield part
        if not part.exists():
            return


def _may_name_modules(path: Path, *, below: Iterable[str]) -> bool:
    """Tell whether a file beside a role or playbook may be one of tasks; others may be included, but seldom are."""
    return path.suffix.lower() in _MAY_NAME and _NAMES_NOTHING.isdisjoint(below)


def _ignored(name: str) -> bool:
    return name in _IGNORED_FOLDERS or _IGNORED_FILES.search(name) is not None


def _in_memory(parts: Iterable[str]) -> bool:
    """Tell whether such a path below a role or beside a playbook is loaded; `..data` may lead to anything."""
    return any(is_plugin_folder(part) or part.startswith("..") for part in parts)
