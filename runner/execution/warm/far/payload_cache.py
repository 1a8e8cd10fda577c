"""Module payloads that an earlier run of the same content built, put where ansible-core looks for those of this run.

Ansible builds an archive of each module and what it imports once per `ansible-playbook`, in its folder of temporary
files. With each one that is kept stands what the files that it was made of were like; where one of them isn't like that
any more it is not put, as no watch sees everything. Nothing is kept or put where a role, playbook or configured folder
brings modules or module utilities of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

FOLDER = "ansiballz_cache"
"""As ansible-core calls it, in its folder of temporary files (2.18, 2.19)."""
OWN_FOLDERS = frozenset({"library", "module_utils"})
"""Loaders' folders that change what a module of a given name is."""
_UNFINISHED = ("-part", ".lock")
_CONTENT = ("-p", "--playbook", "-r", "--role", "--roles-path")
_RECORD = ".record"
"""Ends the name of the file in the store that tells which file there is a payload, and what it was made of."""
_TICK_NS = 1_000_000_000
"""A file that changed so shortly before the run may change again without a sign."""

State = list[int]
"""What a file is like: times of change and modification, size."""


def key_of(argv: Sequence[str]) -> str:
    """Return the name of what ansible-runner's *argv* plays: runs with one key play the same role or playbook."""
    given = [f"{name}={value}" for name, value in itertools.pairwise(argv) if name in _CONTENT]
    return hashlib.sha256("\0".join(given).encode(errors="surrogateescape")).hexdigest()[:32]


class PayloadCache:
    """The payloads of one run: from *store*, a folder of the server's, and back to it."""

    def __init__(self, store: Path, *, find_sources: Callable[[Path], Sequence[Path] | None]) -> None:
        """*find_sources* tells which files a payload was made of, None where it can't."""
        self._store = store
        self._find_sources = find_sources
        self._target: Path | None = None
        self._put: set[Path] = set()
        self._spoiled = False
        self._began_ns = time.time_ns()
        self._states: dict[str, State | None] = {}

    def put(self, local_temp: Path) -> None:
        """Put what the store has into the folder that Ansible will look into, below *local_temp*."""
        self._began_ns = time.time_ns()
        self._target = local_temp / FOLDER
        records = [] if self._spoiled else [name for name in _names_in(self._store) if name.endswith(_RECORD)]
        if records:
            self._target.mkdir(mode=0o755, exist_ok=True)
        for record in records:
            with contextlib.suppress(OSError, ValueError):  # it will be built, as always
                payload, states = json.loads((self._store / record).read_bytes())
                if all(self._state(path) == state for path, state in states.items()):
                    target = self._target / record.removesuffix(_RECORD)
                    os.link(self._store / payload, target)
                    self._put.add(target)

    def spoil(self, folder: str) -> None:
        """A loader was given a directory called *folder*: take back what was put where that may change modules."""
        if folder not in OWN_FOLDERS or self._spoiled:
            return
        self._spoiled = True
        for path in self._put:
            with contextlib.suppress(OSError):
                path.unlink()

    def keep(self) -> None:
        """Take into the store what this run built."""
        if self._target is None or self._spoiled:
            return
        self._states.clear()
        with contextlib.suppress(OSError):
            self._store.mkdir(mode=0o700, exist_ok=True)  # not its parents: the server may be gone, and its folder
            for name in _names_in(self._target):
                if self._target / name not in self._put:
                    self._keep(self._target / name)

    def _keep(self, built: Path) -> None:
        sources = self._find_sources(built)
        states = {str(source): self._state(str(source)) for source in sources or ()}
        if not states or any(state is None or max(state[:2]) > self._began_ns - _TICK_NS for state in states.values()):
            return  # it isn't known what the run read
        record = self._store / f"{built.name}{_RECORD}"
        payload = self._store / f"{built.name}@{os.getpid()}-{self._began_ns}"
        former: str | None = None
        with contextlib.suppress(OSError, ValueError):
            former = json.loads(record.read_bytes())[0]
        os.link(built, payload)
        new = payload.with_name(f"{payload.name}-part")
        new.write_text(json.dumps([payload.name, states]))
        new.replace(record)
        if former is not None:
            (self._store / former).unlink(missing_ok=True)

    def _state(self, path: str) -> State | None:
        if path not in self._states:
            try:
                found = os.stat(path)  # noqa: PTH116 - some hundred times in each run
            except OSError:
                self._states[path] = None
            else:
                self._states[path] = [found.st_ctime_ns, found.st_mtime_ns, found.st_size]
        return self._states[path]


def _names_in(folder: Path) -> list[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are what is asked for
    except OSError:
        return []
    return [name for name in names if not name.endswith(_UNFINISHED)]
